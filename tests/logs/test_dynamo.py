"""Dynamo's records in logs of torch 2.9 to 2.15: real ones, mixed, cut and dressed up."""

from __future__ import annotations

import gzip
import random
import re
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_graphbreak.logs.dynamo import NO_GUARD, Dynamo
from pytest_graphbreak.logs.dynamo_attempts import KEPT
from pytest_graphbreak.logs.sources import Sources
from pytest_graphbreak.logs.torch_lines import TorchRecord
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import Record
from tests.examples import examples
from tests.logs import writer
from tests.logs.tools import analyse, dress

pytestmark = pytest.mark.pure

HERE = Path(__file__).parent
VERSIONS = ("2.9", "2.11", "2.13", "2.15")

PLACES = {
    "Head.forward": 2,
    "Model.forward": 1,
    "branch": 1,
    "leaf": 2,
    "loop": 1,
    "checksum": 1,
    "Context.__enter__": 1,
}
"""Where broken.py breaks, and how often. A break inside a function that is left is one more."""


def data(version: str) -> bytes:
    return gzip.decompress((HERE / "data" / f"torch-{version}.log.gz").read_bytes())


def breaks(record: Record) -> dict[str, int]:
    return {item.where.function: item.count for item in record.breaks}


@pytest.mark.parametrize("version", VERSIONS)
def test_real_logs(tmp_path: Path, version: str) -> None:
    reading = analyse(tmp_path, data(version))
    record = reading.record
    assert record.layers == ("dynamo",)
    assert record.graphs == {"dynamo": 16}
    assert record.recompiles == {"dynamo": 4}
    assert (record.frames.attempted, record.frames.compiled) == (22, 16)
    causes = Counter(graph.cause for graph in record.graph_list)
    assert causes == {"entry": 5, "break": 5, "recompile": 4, "callee": 2}
    assert breaks(record) == PLACES
    assert [item.where.function for item in record.eager] == ["loop", "managed", "limited"]
    assert [item.reason for item in record.recompile_list] == [
        "tensor 'x' size mismatch at index 0. expected 4, actual 5",
        "n == 2",
        "tensor 'x' rank mismatch. expected 1, actual 2",
        "tensor 'x' rank mismatch. expected 2, actual 3",
    ]
    assert reading.logged == {"compiling", "tracing", "graph_breaks", "recompiles"}
    assert Path(reading.script).name == "broken.py"


@pytest.mark.parametrize("version", VERSIONS)
def test_ids_hints_and_source(tmp_path: Path, version: str) -> None:
    found = {item.where.function: item for item in analyse(tmp_path, data(version)).record.breaks}
    item = found["Head.forward"]
    assert item.id == "GB0124"
    assert item.reason == ("Unsupported Tensor.item() call with capture_scalar_outputs=False")
    assert item.explanation.startswith("Dynamo does not support tracing")
    assert any("capture_scalar_outputs" in hint for hint in item.hints)
    assert item.where.file == "broken.py"
    assert item.where.code == "if s.max().item() > 100:"
    assert item.stack[-1] == item.where
    assert [frame.function for frame in item.stack[:3]] == ["<module>", "main", "go"]


@pytest.mark.parametrize("version", VERSIONS)
def test_graphs_know_where_they_were_cut_from(tmp_path: Path, version: str) -> None:
    record = analyse(tmp_path, data(version)).record
    graphs = {graph.name: graph for graph in record.graph_list}
    rest = graphs["4/0"]
    assert (rest.cause, rest.sources, rest.where.function) == ("break", ("0/0",), "Model.forward")
    callee = graphs["1/0"]
    assert (callee.cause, callee.where.function) == ("callee", "Head.forward")
    broke = [item.reason for item in record.breaks if item.where.function == "Head.forward"]
    assert broke == [callee.reason]


@pytest.mark.parametrize("version", ["2.9", "2.13"])
@pytest.mark.parametrize(
    "way",
    [
        {"colour": True},
        {"crlf": True},
        {"stripped": True},
        {"rank": "1,3"},
        {"stamped": True},
        {"colour": True, "crlf": True, "rank": "1,3", "stamped": True},
    ],
    ids=lambda way: "-".join(way),
)
def test_dressed_logs(tmp_path: Path, version: str, way: dict[str, Any]) -> None:
    plain = analyse(tmp_path, data(version)).record
    assert analyse(tmp_path, dress(data(version), **way)).record.to_dict() == plain.to_dict()


@given(
    st.lists(st.sampled_from(VERSIONS), min_size=2, max_size=3),
    st.booleans(),
    st.integers(0, 2**32),
)
@settings(max_examples=12, deadline=None)
def test_processes_that_print_between_each_other(
    tmp_path_factory: pytest.TempPathFactory, versions: list[str], ranked: bool, seed: int
) -> None:
    """Every process keeps its own records, whatever is between their lines."""
    rng = random.Random(seed)
    queues = []
    for number, version in enumerate(versions):
        text = data(version)
        # Another process: another rank, or another number in every prefix.
        ranked_text = dress(text, rank=f"1,{number}")
        text = ranked_text if ranked else _renumber(text, 70_000 + number)
        queues.append(text.splitlines(keepends=True)[::-1])
    mixed = []
    while queues:
        queue = rng.choice(queues)
        for _ in range(min(rng.randint(1, 40), len(queue))):
            mixed.append(queue.pop())
        queues = [left for left in queues if left]
    reading = analyse(tmp_path_factory.mktemp("mixed"), b"".join(mixed))
    assert reading.processes == len(versions)
    assert reading.record.graphs == {"dynamo": 16 * len(versions)}
    assert reading.record.recompiles == {"dynamo": 4 * len(versions)}
    found = breaks(reading.record)
    assert found["leaf"] == 2 * len(versions)
    assert found["Model.forward"] == len(versions)


def _renumber(text: bytes, pid: int) -> bytes:
    return re.sub(rb"(?m)^([VIW]\S* \S+) \d+ ", rb"\1 %d " % pid, text)


@given(st.sampled_from(VERSIONS), st.floats(0, 1))
@examples(200)
def test_cut_anywhere(tmp_path_factory: pytest.TempPathFactory, version: str, where: float) -> None:
    """A log that ends early has no more than the whole one, and says no other things."""
    text = data(version)
    whole = analyse(tmp_path_factory.mktemp("whole"), text).record
    part = analyse(tmp_path_factory.mktemp("part"), text[: int(len(text) * where)]).record
    done = text[: int(len(text) * where)].count(b"Step 2: done compiler function")
    assert part.graphs.get("dynamo", 0) == done
    assert part.graph_list == whole.graph_list[: len(part.graph_list)]
    known = breaks(whole)
    for name, count in breaks(part).items():
        assert count <= known.get(name, 1)


def test_graph_breaks_alone_do_not_count_graphs(tmp_path: Path) -> None:
    """TORCH_LOGS="graph_breaks,recompiles" without +dynamo."""
    lines = [
        line
        for line in data("2.13").split(b"\n")
        if b"[__graph_breaks]" in line or b"[__recompiles]" in line or line.startswith(b"W")
    ]
    reading = analyse(tmp_path, b"\n".join(lines))
    assert reading.logged == {"graph_breaks", "recompiles"}
    assert reading.record.graphs == {}
    assert breaks(reading.record) == PLACES
    again = [item.graph for item in reading.record.recompile_list]
    assert again == ["0/1", "0/2", "0/1#2", "0/2#2"]


def test_recompiles_without_their_reasons(tmp_path: Path) -> None:
    """TORCH_LOGS="+dynamo" logs that a frame was compiled again, and not why."""
    lines = [line for line in data("2.13").split(b"\n") if b"[__recompiles]" not in line]
    record = analyse(tmp_path, b"\n".join(lines)).record
    assert record.recompiles == {"dynamo": 4}
    assert {item.reason for item in record.recompile_list} == {NO_GUARD}


def test_both_kinds_of_recompile_records_are_one(tmp_path: Path) -> None:
    mark = b"[__recompiles]"
    lines: list[bytes] = []
    copies: list[bytes] = []
    for line in data("2.13").split(b"\n"):
        if mark in line:
            copies.append(line.replace(mark, b"[__recompiles_verbose]"))
        else:
            lines += copies  # the second record follows the first
            copies = []
        lines.append(line)
    assert sum(b"_verbose] Recompiling" in line for line in lines) == 5
    record = analyse(tmp_path, b"\n".join(lines)).record
    assert record.recompiles == {"dynamo": 4}


def test_text_that_only_looks_like_records(tmp_path: Path) -> None:
    text = b"""
grep '[__graph_breaks]' run.log
the docs say: torchdynamo start tracing f model.py:3
torch/_dynamo/ Step 2: done compiler function eager
V1121 not a prefix torch/_dynamo/convert_frame.py:12] [0/0] torchdynamo start compiling f a.py:1
"""
    reading = analyse(tmp_path, text)
    assert reading.record.layers == ()
    assert not reading.logged


@pytest.mark.parametrize("file", ["net.py", "./net.py", "my models/net.py", "script", "<string>"])
def test_a_script_is_named_as_it_was_typed(tmp_path: Path, file: str) -> None:
    """What was compiled by hand (``exec``) may have a relative name, or a space in it."""
    reading = analyse(tmp_path, writer.dynamo("0/0", "f", file, 4))
    (graph,) = reading.record.graph_list
    assert (graph.where.file, graph.where.line) == (file.removeprefix("./"), 4)
    assert "tracing" in reading.logged


def test_the_script_is_not_the_command_that_ran_it(tmp_path: Path) -> None:
    text = writer.dynamo("0/0").replace(
        b'File "/home/me/main.py", line 3, in <module>\n',
        b'File "/usr/bin/graphbreak", line 8, in <module>\n'
        + f"{writer.TORCH}convert_frame.py:930] [0/0] ".encode()
        + b'  File "net.py", line 3, in <module>\n',
    )
    assert analyse(tmp_path, text).script == "net.py"


def test_the_buckets_of_ddp_are_graphs(tmp_path: Path) -> None:
    """As torch 2.13 wrote them; with one bucket nothing is cut."""
    head = "[rank0]:I1122 00:47:13.782000 28632"
    ddp = f"{head} torch/_dynamo/backends/distributed.py:104]"
    start = "torch/_dynamo/convert_frame.py:1] [{}] torchdynamo start compiling forward /net.py:7"
    done = "torch/_dynamo/output_graph.py:3120] [{}] Step 2: done compiler function compile_fn"
    text = ""
    for id, buckets in (("0/0", 4), ("1/0", 1), ("2/0", 0)):
        text += f"{head} {start.format(id)}, stack (elided 5 frames):\n"
        if buckets:
            cut = f"DDPOptimizer used bucket cap 1048576 and created {buckets} buckets. Enable"
            text += f"{ddp} [{id}] {cut} debug logs for detailed bucket info.\n"
        text += f"{head} {done.format(id)}\n"
    record = analyse(tmp_path, text.encode()).record
    assert record.graphs == {"dynamo": 6}
    assert record.frames.compiled == 3
    causes = [(graph.name, graph.cause, graph.sources) for graph in record.graph_list]
    assert causes == [
        ("0/0", "entry", ()),
        *((f"0/0+{bucket}", "bucket", ("0/0",)) for bucket in (1, 2, 3)),
        *((name, "entry", ()) for name in ("1/0", "2/0")),
    ]


def test_a_break_whose_name_begins_like_a_record_is_one(tmp_path: Path) -> None:
    """On Python 3.14, torch 2.15 tells a break in ``__enter__`` with another behind it."""
    where = "torch/_dynamo/symbolic_convert.py:5577] [0/0] [__graph_breaks]"
    prefix = f"V1122 01:03:19.462000 16695 {where} "
    text = """\
Graph break in user code at /ctx.py:6
Graph Break Reason: Failed to handle graph break gracefully. Graph break encountered:

logging.Logger method not supported for non-export cases
  Explanation: For non-export cases, logging.Logger methods are not supported.

*** While handling this graph break, another graph break occurred: ***

Graph break under GenericContextWrappingVariable
  Explanation: Attempted to graph break in an active context manager.

User code traceback:
  File "/ctx.py", line 11, in f
    with Context():
  File "/ctx.py", line 6, in __enter__
    logger.info("enter")
"""
    (found,) = analyse(tmp_path, textwrap.indent(text, prefix, bool).encode()).record.breaks
    assert found.count == 1
    assert found.reason == "logging.Logger method not supported for non-export cases"
    assert found.where.function == "__enter__"


def test_a_recompile_has_the_guard_that_a_window_reports(tmp_path: Path) -> None:
    """A size of 1 has a graph of its own, so a guard on it says less than another one."""
    prefix = "V1122 01:03:19.462000 16695 torch/_dynamo/guards.py:5396] [0/2] [__recompiles] "
    text = """\
Recompiling function f in /model.py:6
    triggered by the following guard failure(s):
    - 0/1: tensor 'x' size mismatch at index 0. expected 1, actual 5
    - 0/0: tensor 'x' size mismatch at index 1. expected 4, actual 7
"""
    (found,) = analyse(tmp_path, textwrap.indent(text, prefix).encode()).record.recompile_list
    assert found.reason == "tensor 'x' size mismatch at index 1. expected 4, actual 7"


def test_of_very_many_attempts_the_late_ones_are_known(tmp_path: Path) -> None:
    """A log has no end: the older half of what was attempted is let go, and still counted."""
    most = KEPT + 200
    attempts = [writer.dynamo(f"{n}/0", f"f{n}", line=n + 1) for n in range(most)]
    late = f"{most - 1}/1"
    again = writer.dynamo(late, f"f{most - 1}", line=most)
    why = writer.broke(late, most, "print(x)")
    record = analyse(tmp_path, b"".join([*attempts, why, again])).record
    assert record.graphs == {"dynamo": most + 1}
    assert record.frames.attempted == most + 1
    assert len(record.graph_list) == KEPT
    (broke,) = record.breaks
    assert broke.where.line == most


def test_of_very_many_recompiles_the_late_ones_are_known() -> None:
    """TORCH_LOGS="recompiles" names no attempt, and has no end either."""
    dynamo, frames = Dynamo(Sources(Places(HERE))), KEPT + 200
    for number in range(frames):
        text = f"Recompiling function f in /model.py:6\n    - {number}/0: n == {number}\n"
        where = "torch/_dynamo/guards.py"
        dynamo.take(TorchRecord("", "7", where, f"{number}/1", 0, "recompiles", text))
    (process,) = dynamo._processes.values()
    assert len(process.guards) <= KEPT
    assert f"{frames - 1}/1" in process.guards
    assert dynamo.record().recompiles == {"dynamo": frames}


def test_a_record_without_end_is_cut(tmp_path: Path) -> None:
    """The output of a program that is a record by chance takes no memory without bounds."""
    prefix = writer.TORCH.encode() + b"symbolic_convert.py:5124] [0/0] [__graph_breaks] "
    lines = writer.broke("0/0", 4, "print(x)").splitlines(keepends=True)
    noise = prefix + b"x" * 200 + b"\n"
    text = b"".join([*lines[:-1], *[noise, b"other\n"] * 6000, *lines[-1:]])
    (broke,) = analyse(tmp_path, text + writer.dynamo("1/0")).record.breaks
    assert broke.where.line == 4
    assert len(broke.reason) < 200


@pytest.mark.parametrize("version", VERSIONS)
def test_numbers_of_any_length(tmp_path: Path, version: str) -> None:
    """Python refuses to read one of more than 4300 digits; the rest of the log is read anyway."""
    lines = data(version).splitlines(keepends=True)
    seen = set()
    for at, line in enumerate(lines):
        for number in re.finditer(rb"\d+", line):
            ahead = re.sub(rb"\d+", b"0", line[: number.start()])
            if (kind := (ahead[-40:], line[number.end() :][:3])) not in seen:
                seen.add(kind)
                lines[at] += line[: number.start()] + b"7" * 6000 + line[number.end() :]
    assert len(seen) > 100
    analyse(tmp_path, b"".join(lines))
