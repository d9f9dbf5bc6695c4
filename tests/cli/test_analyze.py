"""``graphbreak analyze``: what it prints, what it writes, how it ends."""

from __future__ import annotations

import gzip
import io
import json
import os
import pty
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

from pytest_graphbreak.cli import analyze, main
from pytest_graphbreak.logs.reading import read
from pytest_graphbreak.model.places import Places
from tests.growth import grows
from tests.logs.worst import WORST
from tests.logs.writer import Style, Writer, broke, dynamo, join

pytestmark = pytest.mark.pure

LOGS = Path(__file__).parent.parent / "logs" / "data"


def run(*arguments: str) -> int:
    return main(["analyze", *arguments])


def log(directory: Path, name: str = "run.log", text: bytes | None = None) -> str:
    path = directory / name
    path.write_bytes(text if text is not None else failing())
    return str(path)


def failing() -> bytes:
    plugin = Writer()
    return join(
        [*plugin.graph(1), *plugin.graph(2, fails_after="shlo_compiler_cleaned"), *plugin.graph(3)]
    )


def entries(path: Path) -> list[Any]:
    data = json.loads(path.read_text())
    assert data["version"] == 1
    tests: list[Any] = data["tests"]
    return tests


def test_a_log_that_bears_nothing_is_still_written(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    assert run(log(tmp_path, text=b"hello\n"), "--json", str(path)) == 0
    (entry,) = entries(path)
    assert entry["graphs"] == {}
    assert entry["gaps"]


def test_a_script_that_is_here_can_be_fixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = broke("0/0", 12, 'print("hi")') + dynamo("0/0")
    path = log(tmp_path, text=text)
    assert run(path) == 0
    assert "try a fix" not in capsys.readouterr().out
    script = tmp_path / "net.py"
    script.write_text("")
    found = read(path, Places(tmp_path))
    monkeypatch.setattr(analyze, "read", lambda *_: replace(found, script=str(script)))
    assert run(path) == 0
    out = capsys.readouterr().out
    assert "try a fix: " in out
    assert "fix net.py" in out
    assert "repro net.py" in out


def test_markdown_shows_what_logs_say_and_does_not_obey_it(tmp_path: Path) -> None:
    bad = 'x = "</code><script>alert(1)</script>" | [a](javascript:b) ``` @everyone'
    page = tmp_path / "report.md"
    text = broke("0/0", 12, bad, "<img src=x> **bold** | table") + dynamo("0/0")
    assert run(log(tmp_path, text=text), "--markdown", str(page)) == 0
    outside = [line for line in page.read_text().split("\n") if not line.startswith("    ")]
    assert not any("<script>" in line or "<img" in line for line in outside)


def test_terminal_shows_and_does_not_obey(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = broke("0/0", 12, "x\x1b]0;title\x07y", "bad \x9b31m reason") + dynamo("0/0")
    assert run(log(tmp_path, "::error ::x.log", text)) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\x9b" not in out
    assert not any(line.startswith("::") for line in out.split("\n"))


def test_several_logs_packed_or_not(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    packed = log(tmp_path, "b.log.gz", gzip.compress(failing()))
    plain = log(tmp_path, "a.log")
    assert run(plain, packed, str(LOGS / "torch-2.13.log.gz"), "--json", str(path)) == 0
    assert [entry["graphs"] for entry in entries(path)] == [{"tt": 3}, {"tt": 3}, {"dynamo": 16}]


def test_a_packed_log_of_which_nothing_can_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others are analysed, and the exit code tells."""
    path = tmp_path / "report.json"
    damaged = log(tmp_path, "b.log.gz", gzip.compress(failing())[:25])
    assert run(damaged, log(tmp_path), "--json", str(path)) == 2
    assert [entry["graphs"] for entry in entries(path)] == [{}, {"tt": 3}]
    out = capsys.readouterr().out
    assert "cut off or damaged within its first 25 bytes" in out
    assert "is empty" not in out


def test_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.json"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(failing())))
    assert run("-", "--json", str(path)) == 0
    (entry,) = entries(path)
    assert entry["nodeid"] == "-"
    assert entry["graphs"] == {"tt": 3}


@pytest.mark.parametrize("name", ["none.log", ".", "a\0b"])
def test_what_cannot_be_read_is_one_line(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is analysed when one of the logs is not there."""
    missing = str(tmp_path / name)
    assert run(log(tmp_path), missing, "--json", str(tmp_path / "report.json")) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "cannot be read" in captured.err
    assert not (tmp_path / "report.json").exists()


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="a file that opens and is not read")
def test_a_log_that_fails_while_it_is_read_is_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("/proc/self/mem") == 2
    assert capsys.readouterr().err == (
        "graphbreak analyze: /proc/self/mem: cannot be read: Input/output error\n"
    )


def test_a_log_that_is_anothers_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = log(tmp_path)
    monkeypatch.setattr(os, "access", lambda *asked: False)  # root may read all
    assert run(path) == 2
    assert capsys.readouterr().err.endswith("run.log: cannot be read: Permission denied\n")


def test_what_cannot_be_written_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert run(log(tmp_path), "--json", str(tmp_path / "file" / "report.json")) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_many_entries_are_counted_not_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = dynamo("0/0") + b"".join(
        broke(f"{number}/0", number, f"line {number}") for number in range(1, 60)
    )
    assert run(log(tmp_path, text=text)) == 0
    out = capsys.readouterr().out
    assert "59 graph breaks" in out
    assert "... and 39 more" in out


def test_headless_logs_say_how_sure_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin = Writer(Style(headers=False, dialects=False))
    text = join([write for number in (1, 2, 3) for write in plugin.graph(number)])
    assert run(log(tmp_path, text=text)) == 0
    out = capsys.readouterr().out
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
def test_a_fifo_is_opened_once_and_loses_nothing(
    packed: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its first byte may come alone, and no second reader ever comes."""
    fifo = str(tmp_path / "run.log")
    os.mkfifo(fifo)
    text = gzip.compress(failing()) if packed else failing()
    thread = feeding(text[:1], text[1:90], text[90:], into=fifo)
    assert run(fifo) == 0
    thread.join(10)
    assert not thread.is_alive()
    assert "3 graphs (certain: headers): 2 lowered, 1 failed" in graphs_said(
        capsys.readouterr().out
    )


def test_the_pipe_of_a_process_substitution(capsys: pytest.CaptureFixture[str]) -> None:
    """``analyze <(cat log)`` is a pipe that has a name, ``/dev/fd/63``."""
    reading, writing = os.pipe()
    thread = feeding(failing(), into=writing)
    assert run(f"/dev/fd/{reading}") == 0
    thread.join(10)
    os.close(reading)
    assert "3 graphs (certain: headers)" in graphs_said(capsys.readouterr().out)


def test_fifos_that_are_written_one_after_the_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The writer opens the second when it has written the first."""
    first, second = str(tmp_path / "a.log"), str(tmp_path / "b.log")
    for path in (first, second):
        os.mkfifo(path)

    def write() -> None:
        for path in (first, second):
            Path(path).write_bytes(failing())

    threading.Thread(target=write, daemon=True).start()
    assert run(first, second) == 0
    assert capsys.readouterr().out.count("3 graphs (certain: headers)") == 2


def test_standard_input_that_does_not_block(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who starts us may have set its pipe so; that nothing is there yet is no end of the log."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    thread = feeding(failing()[:500], failing()[500:], into=writing)
    monkeypatch.setattr(sys, "stdin", os.fdopen(reading))
    assert run("-") == 0
    thread.join(10)
    assert "3 graphs (certain: headers)" in graphs_said(capsys.readouterr().out)


# How far it is


def test_a_terminal_sees_how_far_it_is_and_nothing_is_left_of_it(tmp_path: Path) -> None:
    path = log(tmp_path, text=failing() * 800)
    seen = in_terminal("analyze", path)
    drawn = re.findall(r"\[([#.]{20})\] +(\d+)% of ([\d.]+ MB)", seen)
    assert len(drawn) > 1, seen[:2000]
    assert drawn == sorted(drawn, key=lambda one: int(one[1]))
    last = seen.rindex("\r\x1b[K")
    assert "% of" not in seen[last:]
    assert seen[last:].count("2,400 graphs (certain: headers)") == 1
    width = max(len(part.split("\n")[0]) for part in seen[:last].split("\r\x1b[K"))
    assert width < 80


def in_terminal(*arguments: str) -> str:
    """What a terminal of 80 columns is sent by ``graphbreak``."""
    pid, terminal = pty.fork()
    if not pid:
        os.environ.update(TERM="xterm", COLUMNS="80", NO_COLOR="1")
        os.execv(sys.executable, [sys.executable, "-m", "pytest_graphbreak", *arguments])
    seen = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # Linux tells so that the other side is closed
            break
        if not part:
            break
        seen += part
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    return seen.decode()


# Whose files are quoted


def test_only_files_of_the_checkout_are_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log names a file of this machine; who runs ``analyze`` may mean it, and says so."""
    for name in ("here", "private"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "settings.py").write_text(f'TOKEN = "of {name}"\n')
    text = b"".join(
        dynamo(f"{number}/0", "load", str(tmp_path / name / "settings.py"), 1)
        + broke_at(f"{number}/0", tmp_path / name / "settings.py")
        for number, name in enumerate(("here", "private"))
    )
    path = log(tmp_path, text=text)
    monkeypatch.chdir(tmp_path / "here")
    assert run(path, "--json", "report.json", "--markdown", "report.md") == 0
    written = capsys.readouterr().out + Path("report.json").read_text()
    assert "of here" in written + Path("report.md").read_text()
    assert "of private" not in written + Path("report.md").read_text()
    assert run(path, "--root", str(tmp_path / "private")) == 0
    out = capsys.readouterr().out
    assert "of private" in out
    assert "of here" in out
    assert run(path, "--root", path) == 2
    assert capsys.readouterr().err == f"graphbreak analyze: --root {path}: is no directory\n"


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


def test_reasons_are_cut_where_they_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = dynamo("0/0") + broke("0/0", 12, "y = " + "x + " * 30_000, "why " * 30_000)
    page, report = tmp_path / "report.md", tmp_path / "report.json"
    assert run(log(tmp_path, text=text), "--markdown", str(page), "--json", str(report)) == 0
    for said in (capsys.readouterr().out, page.read_text()):
        assert "more characters)" in said
        assert max(map(len, said.split("\n"))) < 1000
    (found,) = entries(report)[0]["breaks"]
    assert len(found["reason"]) == 4000


@pytest.mark.parametrize("kind", WORST)
def test_no_log_takes_longer_than_in_proportion_to_its_size(kind: str, tmp_path: Path) -> None:
    """A quadratic reader takes sixteen times as long for four times as much."""
    small, large = (
        partial(read, log(tmp_path, f"{size}.log", WORST[kind](size).encode()), Places(tmp_path))
        for size in (20_000, 80_000)
    )
    assert not grows(small, large, 8)


@pytest.mark.parametrize("kind", WORST)
def test_no_log_takes_much_more_memory_than_its_size(kind: str, tmp_path: Path) -> None:
    """An expression that repeats a group keeps some 300 bytes for each character that it passes."""
    peaks, sizes = [], []
    for size in (40_000, 160_000):
        text = WORST[kind](size).encode()
        sizes.append(len(text))
        path = log(tmp_path, f"{size}.log", text)
        read(path, Places(tmp_path))  # what is loaded once is loaded now
        tracemalloc.start()
        try:
            read(path, Places(tmp_path))
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[1] - peaks[0] < 10 * (sizes[1] - sizes[0])


def test_what_a_run_did_besides_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Several processes, a log that ends too soon, graphs that only gather."""
    first, second = (Writer(Style(rank=f"[rank{number}]: ")) for number in (0, 1))
    gather = first.graph(2, name="ReplicateShardedData.4")
    writes = [
        *(*first.graph(1), *gather, *second.graph(3)),
        *second.graph(4)[:8],
    ]
    assert run(log(tmp_path, text=join(writes))) == 0
    out = capsys.readouterr().out
    assert "2 processes\n" in out
    said = graphs_said(out)
    assert "4 graphs (certain: headers): 3 lowered" in said
    assert "1 cut off by the end of the log" in said
    assert "1 only gather sharded tensors" in said


def test_a_device_that_compiled_nothing_has_no_graphs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin = Writer()
    assert run(log(tmp_path, text=join([plugin.note(1, "the device is open")]))) == 0
    assert graphs_said(capsys.readouterr().out).split() == ["tt", "0", "graphs"]
