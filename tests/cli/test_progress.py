"""The bar of long work."""

from __future__ import annotations

import io

import pytest

from pytest_graphbreak.cli.messages import Progress
from tests.text.tools import Terminal

pytestmark = pytest.mark.once


def test_a_bar_moves_with_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    out = Terminal()
    with Progress(out) as progress:
        for done, most in ((0, 1), (1, 2), (1, 4), (3, 4)):  # it found more to do on the way
            progress.step(done, most, "a\x1b[31m patch with a long name, longer than the line is")
    _, *lines, last = out.getvalue().split("\r\x1b[K")
    assert last == ""
    assert [line.count("#") for line in lines] == [0, 10, 10, 15]
    assert all(len(line) < 60 and "\x1b" not in line for line in lines)
    assert lines[-1].startswith(f"[{'#' * 15}.....] run 4: a")


def test_a_bar_moves_with_what_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("pytest_graphbreak.cli.messages.EVERY", -1.0)
    out = Terminal()
    with Progress(out) as progress:
        progress.move("run.log", 512, 1024)
        progress.move("-", 2048, None)
    assert out.getvalue().split("\r\x1b[K")[1:] == [
        f"[{'#' * 10}{'.' * 10}]  50% of 1.0 kB  run.log",
        "2.0 kB read  -",
        "",
    ]


@pytest.mark.parametrize("out", [io.StringIO(), Terminal()])
def test_elsewhere_a_line_for_each_step(out: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    progress = Progress(out)
    progress.step(0, 1, "one")
    progress.step(0, 1, "two")
    progress.clear()
    assert out.getvalue() == "[1] one\n[2] two\n"
