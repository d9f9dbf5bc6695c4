"""``graphbreak analyze``: what it prints, what it writes, how it ends."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import sys
import threading
import time
import tracemalloc
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pytest_graphbreak.cli import analyze as command
from pytest_graphbreak.logs.reading import read
from pytest_graphbreak.model.places import Places
from tests import terminal
from tests.cli.conftest import Workspace
from tests.commands import Said
from tests.growth import grows
from tests.logs.worst import WORST
from tests.logs.writer import Style, Writer, broke, dynamo, join

pytestmark = pytest.mark.pure

LOGS = Path(__file__).parent.parent / "logs" / "data"


def failing() -> bytes:
    plugin = Writer()
    return join(
        [*plugin.graph(1), *plugin.graph(2, fails_after="shlo_compiler_cleaned"), *plugin.graph(3)]
    )


class Analyze:
    """The command, typed in the directory of the logs; it ends with ``code``."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.path = workspace.path

    def __call__(self, *arguments: str, code: int = 0) -> Said:
        return self.workspace.run("analyze", *arguments, code=code)

    def log(self, text: bytes | None = None, name: str = "run.log") -> str:
        (self.path / name).write_bytes(failing() if text is None else text)
        return name

    def said_of(self, text: bytes) -> str:
        """What is printed of a log."""
        return self(self.log(text)).out

    def entries(self, *arguments: str, code: int = 0) -> list[Any]:
        """The tests of the report that it writes."""
        self(*arguments, "--json", "report.json", code=code)
        data = json.loads((self.path / "report.json").read_text())
        assert data["version"] == 1
        tests: list[Any] = data["tests"]
        return tests


@pytest.fixture
def analyze(workspace: Workspace) -> Analyze:
    return Analyze(workspace)


def test_a_log_that_bears_nothing_is_still_written(analyze: Analyze) -> None:
    (entry,) = analyze.entries(analyze.log(b"hello\n"))
    assert entry["graphs"] == {}
    assert entry["gaps"]


def test_a_script_that_is_here_can_be_fixed(
    analyze: Analyze, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = analyze.log(broke("0/0", 12, 'print("hi")') + dynamo("0/0"))
    assert "try a fix" not in analyze(path).out
    script = analyze.path / "net.py"
    script.write_text("")
    found = read(path, Places(analyze.path))
    monkeypatch.setattr(command, "read", lambda *_: replace(found, script=str(script)))
    out = analyze(path).out
    assert "try a fix: " in out
    assert "fix net.py" in out
    assert "repro net.py" in out


def test_markdown_shows_what_logs_say_and_does_not_obey_it(analyze: Analyze) -> None:
    bad = 'x = "</code><script>alert(1)</script>" | [a](javascript:b) ``` @everyone'
    text = broke("0/0", 12, bad, "<img src=x> **bold** | table") + dynamo("0/0")
    analyze(analyze.log(text), "--markdown", "report.md")
    lines = (analyze.path / "report.md").read_text().split("\n")
    outside = [line for line in lines if not line.startswith("    ")]
    assert not any("<script>" in line or "<img" in line for line in outside)


def test_terminal_shows_and_does_not_obey(analyze: Analyze) -> None:
    text = broke("0/0", 12, "x\x1b]0;title\x07y", "bad \x9b31m reason") + dynamo("0/0")
    out = analyze(analyze.log(text, "::error ::x.log")).out
    assert "\x1b" not in out
    assert "\x9b" not in out
    assert not any(line.startswith("::") for line in out.split("\n"))


def test_several_logs_packed_or_not(analyze: Analyze) -> None:
    packed = analyze.log(gzip.compress(failing()), "b.log.gz")
    found = analyze.entries(analyze.log(), packed, str(LOGS / "torch-2.13.log.gz"))
    assert [entry["graphs"] for entry in found] == [{"tt": 3}, {"tt": 3}, {"dynamo": 16}]


def test_a_packed_log_of_which_nothing_can_be_read(analyze: Analyze) -> None:
    """The others are analysed, and the exit code tells."""
    logs = (analyze.log(gzip.compress(failing())[:25], "b.log.gz"), analyze.log())
    assert [entry["graphs"] for entry in analyze.entries(*logs, code=2)] == [{}, {"tt": 3}]
    out = analyze(*logs, code=2).out
    assert "cut off or damaged within its first 25 bytes" in out
    assert "is empty" not in out


def test_standard_input(analyze: Analyze, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(failing())))
    (entry,) = analyze.entries("-")
    assert entry["nodeid"] == "-"
    assert entry["graphs"] == {"tt": 3}


@pytest.mark.parametrize("name", ["none.log", ".", "a\0b"])
def test_what_cannot_be_read_is_one_line(name: str, analyze: Analyze) -> None:
    """Nothing is analysed when one of the logs is not there."""
    said = analyze(analyze.log(), name, "--json", "report.json", code=2)
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert "cannot be read" in said.err
    assert not (analyze.path / "report.json").exists()


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="a file that opens and is not read")
def test_a_log_that_fails_while_it_is_read_is_one_line(analyze: Analyze) -> None:
    assert analyze("/proc/self/mem", code=2).err == (
        "graphbreak analyze: /proc/self/mem: cannot be read: Input/output error\n"
    )


def test_a_log_that_is_anothers_is_one_line(
    analyze: Analyze, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = analyze.log()
    monkeypatch.setattr(os, "access", lambda *asked: False)  # root may read all
    assert analyze(path, code=2).err.endswith("run.log: cannot be read: Permission denied\n")


def test_what_cannot_be_written_is_one_line(analyze: Analyze) -> None:
    (analyze.path / "file").write_text("")
    assert analyze(analyze.log(), "--json", "file/report.json", code=2).err.count("\n") == 1


def test_many_entries_are_counted_not_printed(analyze: Analyze) -> None:
    breaks = (broke(f"{number}/0", number, f"line {number}") for number in range(1, 60))
    out = analyze.said_of(dynamo("0/0") + b"".join(breaks))
    assert "59 graph breaks" in out
    assert "... and 39 more" in out


def test_headless_logs_say_how_sure_they_are(analyze: Analyze) -> None:
    plugin = Writer(Style(headers=False, dialects=False))
    out = analyze.said_of(join([write for n in (1, 2, 3) for write in plugin.graph(n)]))
    assert "3 graphs (sure: worked out from 27 END markers): 3 lowered" in out
    assert "9 in 3 graphs" in out


# Pipes: opened once, read once


def graphs_said(out: str) -> str:
    return next(line for line in out.split("\n") if line.startswith("  tt"))


def feeding(*pieces: bytes, into: int | str) -> threading.Thread:
    """Write to a pipe from another thread, piece by piece."""

    def write() -> None:
        with open(into, "wb", buffering=0) as pipe:
            for piece in pieces:
                pipe.write(piece)
                time.sleep(0.02)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
def test_a_fifo_is_opened_once_and_loses_nothing(packed: bool, analyze: Analyze) -> None:
    """Its first byte may come alone, and no second reader ever comes."""
    os.mkfifo("run.log")
    text = gzip.compress(failing()) if packed else failing()
    thread = feeding(text[:1], text[1:90], text[90:], into="run.log")
    out = analyze("run.log").out
    thread.join(10)
    assert not thread.is_alive()
    assert "3 graphs (certain: headers): 2 lowered, 1 failed" in graphs_said(out)


def test_the_pipe_of_a_process_substitution(analyze: Analyze) -> None:
    """``analyze <(cat log)`` is a pipe that has a name, ``/dev/fd/63``."""
    reading, writing = os.pipe()
    thread = feeding(failing(), into=writing)
    assert "3 graphs (certain: headers)" in graphs_said(analyze(f"/dev/fd/{reading}").out)
    thread.join(10)
    os.close(reading)


def test_fifos_that_are_written_one_after_the_other(analyze: Analyze) -> None:
    """The writer opens the second when it has written the first."""
    fifos = ("a.log", "b.log")
    for path in fifos:
        os.mkfifo(path)

    def write() -> None:
        for path in fifos:
            Path(path).write_bytes(failing())

    threading.Thread(target=write, daemon=True).start()
    assert analyze(*fifos).out.count("3 graphs (certain: headers)") == 2


def test_standard_input_that_does_not_block(
    analyze: Analyze, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who starts us may have set its pipe so; that nothing is there yet is no end of the log."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    thread = feeding(failing()[:500], failing()[500:], into=writing)
    monkeypatch.setattr(sys, "stdin", os.fdopen(reading))
    assert "3 graphs (certain: headers)" in graphs_said(analyze("-").out)
    thread.join(10)


# How far it is


def test_a_terminal_sees_how_far_it_is_and_nothing_is_left_of_it(analyze: Analyze) -> None:
    command = (sys.executable, "-m", "pytest_graphbreak", "analyze", analyze.log(failing() * 800))
    shown = terminal.run(command, analyze.path, {"NO_COLOR": "1"})
    assert shown.code == 0
    seen = shown.raw
    drawn = re.findall(r"\[([#.]{20})\] +(\d+)% of ([\d.]+ MB)", seen)
    assert len(drawn) > 1, seen[:2000]
    assert drawn == sorted(drawn, key=lambda one: int(one[1]))
    last = seen.rindex("\r\x1b[K")
    assert "% of" not in seen[last:]
    assert seen[last:].count("2,400 graphs (certain: headers)") == 1
    width = max(len(part.split("\n")[0]) for part in seen[:last].split("\r\x1b[K"))
    assert width < 80


# Whose files are quoted


def test_only_files_of_the_checkout_are_quoted(
    analyze: Analyze, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log names a file of this machine; who runs ``analyze`` may mean it, and says so."""
    text = b""
    for number, name in enumerate(("here", "private")):
        file = analyze.path / name / "settings.py"
        file.parent.mkdir()
        file.write_text(f'TOKEN = "of {name}"\n')
        text += dynamo(f"{number}/0", "load", str(file), 1) + broke_at(f"{number}/0", file)
    path = f"../{analyze.log(text)}"
    monkeypatch.chdir("here")
    out = analyze(path, "--json", "report.json", "--markdown", "report.md").out
    written = out + Path("report.json").read_text() + Path("report.md").read_text()
    assert "of here" in written
    assert "of private" not in written
    out = analyze(path, "--root", "../private").out
    assert "of private" in out
    assert "of here" in out
    said = analyze(path, "--root", path, code=2)
    assert said.err == f"graphbreak analyze: --root {path}: is no directory\n"


def broke_at(id: str, file: Path) -> bytes:
    """A graph break whose line the log does not quote."""
    prefix = (
        f"V0821 10:22:52.100000 4242 torch/_dynamo/symbolic_convert.py:1] [{id}] [__graph_breaks]"
    )
    text = (
        f"Graph break in user code at {file}:1\nReason: Data-dependent jump\nUser code traceback:\n"
    )
    text += f'  File "{file}", line 1, in load\n'
    return "".join(f"{prefix} {line}\n" for line in text.split("\n")).encode()


# What is written to take long, or to fill the terminal


def test_reasons_are_cut_where_they_are_printed(analyze: Analyze) -> None:
    text = dynamo("0/0") + broke("0/0", 12, "y = " + "x + " * 30_000, "why " * 30_000)
    path = analyze.log(text)
    (entry,) = analyze.entries(path, "--markdown", "report.md")
    assert [len(found["reason"]) for found in entry["breaks"]] == [4000]
    for said in (analyze(path).out, (analyze.path / "report.md").read_text()):
        assert "more characters)" in said
        assert max(map(len, said.split("\n"))) < 1000


def worst(kind: str, size: int, directory: Path) -> tuple[str, Places]:
    path = directory / f"{size}.log"
    path.write_text(WORST[kind](size))
    return str(path), Places(directory)


@pytest.mark.parametrize("kind", WORST)
def test_no_log_takes_longer_than_in_proportion_to_its_size(kind: str, tmp_path: Path) -> None:
    """A quadratic reader takes sixteen times as long for four times as much."""
    small, large = (partial(read, *worst(kind, size, tmp_path)) for size in (20_000, 80_000))
    assert not grows(small, large, 8)


@pytest.mark.parametrize("kind", WORST)
def test_no_log_takes_much_more_memory_than_its_size(kind: str, tmp_path: Path) -> None:
    """An expression that repeats a group keeps some 300 bytes for each character that it passes."""
    peaks, sizes = [], []
    for size in (40_000, 160_000):
        path, places = worst(kind, size, tmp_path)
        sizes.append(os.path.getsize(path))
        read(path, places)  # what is loaded once is loaded now
        tracemalloc.start()
        try:
            read(path, places)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[1] - peaks[0] < 10 * (sizes[1] - sizes[0])


def test_what_a_run_did_besides_is_counted(analyze: Analyze) -> None:
    """Several processes, a log that ends too soon, graphs that only gather."""
    first, second = (Writer(Style(rank=f"[rank{number}]: ")) for number in (0, 1))
    gather = first.graph(2, name="ReplicateShardedData.4")
    writes = [
        *(*first.graph(1), *gather, *second.graph(3)),
        *second.graph(4)[:8],
    ]
    out = analyze.said_of(join(writes))
    assert "2 processes\n" in out
    said = graphs_said(out)
    assert "4 graphs (certain: headers): 3 lowered" in said
    assert "1 cut off by the end of the log" in said
    assert "1 only gather sharded tensors" in said


def test_a_device_that_compiled_nothing_has_no_graphs(analyze: Analyze) -> None:
    out = analyze.said_of(join([Writer().note(1, "the device is open")]))
    assert graphs_said(out).split() == ["tt", "0", "graphs"]
