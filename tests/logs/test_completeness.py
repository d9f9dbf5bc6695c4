"""Whether a log can bear the analysis, and what to run where it cannot."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Final

import pytest

from pytest_graphbreak.logs.completeness import Completeness, assess
from tests.logs.tools import STACKS, analyse, whole
from tests.logs.writer import TORCH, Style, Writer, dynamo, join

pytestmark = pytest.mark.pure

HERE = Path(__file__).parent


def completeness(tmp_path: Path, text: bytes) -> Completeness:
    return assess(analyse(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "said", "run"),
    [
        (b"", "the log is empty", "TTXLA_LOGGER_LEVEL=DEBUG"),
        (b"hello\n", "nothing of the TT compiler", "TTXLA_LOGGER_LEVEL=DEBUG"),
        (whole().replace(STACKS, b""), "XLA_HLO_DEBUG=1 was not set", "XLA_HLO_DEBUG=1"),
        (join(Writer().graph(1)), 'TORCH_LOGS="+dynamo" was not set', 'TORCH_LOGS="+dynamo'),
        (
            join(Writer(Style(ends=False, bodies=False)).graph(1)),
            "this is a TTXLA_LOGGER_FILE",
            "2>&1",
        ),
        (join(Writer(Style(headers=False)).graph(1)), "END markers and no headers", "DEBUG"),
        (
            whole()[: whole().index(b"Module ttir")],
            "the log ends in the middle of a graph",
            "python",
        ),
        (
            whole().replace(b"MLIR Module vhlo", b"MLIR[W] another\n Module vhlo", 1),
            "another writer cut 1 header in two",
            "python",
        ),
        (whole()[len(whole()) // 2 :], "begins in the middle of a graph", "python"),
        (
            join([Writer().note(1, "ClientInstance::Initialize")]),
            "printed, but no module",
            "DEBUG",
        ),
        (
            join([write for write in Writer().graph(1) if write.stage][-1:] + Writer().graph(1)),
            "occur twice",
            "DEBUG",
        ),
        (
            b"\n".join(
                line.split(b"| ")[-1] if b"| MLIR" in line else line
                for line in whole().split(b"\n")
            ),
            "lost their preamble",
            "DEBUG",
        ),
    ],
)
def test_each_doubt_has_its_remedy(tmp_path: Path, text: bytes, said: str, run: str) -> None:
    found = completeness(tmp_path, text)
    assert any(said in doubt for doubt in found.gaps), found.gaps
    assert any(run in command for command in found.commands)
    assert found.commands[-1] == "graphbreak analyze run.log"


def test_the_script_is_named_where_a_stack_names_it(tmp_path: Path) -> None:
    found = completeness(tmp_path, dynamo("0/0"))
    assert "python /home/me/main.py > run.log 2>&1" in found.commands[0]
    tests = dynamo("0/0").replace(b"/home/me/main.py", b"/home/me/venv/bin/pytest")
    assert "python -m pytest -sv YOUR_TESTS > run.log" in completeness(tmp_path, tests).commands[0]


@pytest.mark.parametrize(
    ("keep", "said"),
    [
        ((b"[__graph_breaks]", b"[__recompiles]"), "graphs are not counted"),
        ((b" Step ",), 'TORCH_LOGS had "dynamo" without the plus sign'),
        ((b" Step ", b"start compiling", b"[__graph_breaks]"), 'TORCH_LOGS had no "recompiles"'),
    ],
)
def test_what_torch_logs_left_out(tmp_path: Path, keep: tuple[bytes, ...], said: str) -> None:
    text = gzip.decompress((HERE / "data" / "torch-2.13.log.gz").read_bytes())
    lines = [line for line in text.split(b"\n") if any(mark in line for mark in keep)]
    found = completeness(tmp_path, b"\n".join(lines))
    assert any(said in doubt for doubt in found.gaps), found.gaps


CUT: Final = "Compressed file ended before the end-of-stream marker was reached"


def test_a_packed_log_that_is_cut_off(tmp_path: Path) -> None:
    text = whole() * 20
    found = completeness(tmp_path, gzip.compress(text)[:-30])
    (said,) = (doubt for doubt in found.gaps if "cut off or damaged" in doubt)
    place = re.fullmatch(
        r"the \.gz is cut off or damaged after ([0-9,]+) bytes of the log "
        rf"\({CUT}\); what came before is read",
        said,
    )
    assert 0 < int(place[1].replace(",", "")) < len(text)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (gzip.compress(whole())[:25], CUT),
        (gzip.compress(whole())[:2], CUT),
        (b"\x1f\x8bof another form", "Unknown compression method"),
        (gzip.compress(whole())[:10] + b"\xff" * 80, "Error -3 while decompressing data: "),
    ],
    ids=["cut", "only its mark", "another form", "damaged"],
)
def test_a_packed_log_of_which_nothing_can_be_read(tmp_path: Path, data: bytes, why: str) -> None:
    found = completeness(tmp_path, data)
    (said,) = found.gaps
    begins = f"the .gz is cut off or damaged within its first {len(data)} bytes ({why}"
    assert said.startswith(begins)
    assert said.endswith("); nothing of it can be read, so copy it again")


def test_processes_without_ranks_are_a_doubt(tmp_path: Path) -> None:
    """Counts hold; whose break a device graph follows is a guess."""
    other = TORCH.replace(" 4242 ", " 70001 ").encode()
    mixed = whole() + whole().replace(TORCH.encode(), other)
    (gap,) = completeness(tmp_path, mixed).gaps
    assert gap.startswith("2 processes wrote here")
    assert not completeness(tmp_path, whole()).gaps
