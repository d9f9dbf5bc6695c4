"""The bar of long work."""

from __future__ import annotations

import io
import re
import time

import pytest

from pytest_graphbreak.cli.messages import Progress

pytestmark = pytest.mark.once


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_moves_with_the_work_and_with_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr("pytest_graphbreak.cli.messages._TICK", 0.01)
    out = Terminal()
    progress = Progress(out)
    for done, most in ((0, 1), (1, 2), (1, 4), (3, 4)):  # it found more to do on the way
        progress.step(done, most, "a\x1b[31m patch with a long name, longer than the line is")
    drawn = len(out.getvalue())
    until = time.monotonic() + 10
    while len(out.getvalue()) < drawn + 200:  # nobody makes a step
        assert time.monotonic() < until
        time.sleep(0.01)
    progress.clear()
    lines = out.getvalue().split("\r\x1b[K")
    assert lines[-1] == ""
    steps = [line for line in dict.fromkeys(lines) if line]
    assert [line.count("#") for line in steps] == [0, 10, 10, 15]
    assert all(len(line) < 60 and "\x1b" not in line for line in steps)
    assert re.match(r"\[#{15}\.{5}\] run 4, 0 s: a", steps[-1])
    time.sleep(0.05)
    assert out.getvalue().endswith("\r\x1b[K")  # it stays away


@pytest.mark.parametrize("out", [io.StringIO(), Terminal()])
def test_elsewhere_a_line_for_each_step(out: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    progress = Progress(out)
    progress.step(0, 1, "one")
    progress.step(0, 1, "two")
    progress.clear()
    assert out.getvalue() == "[1] one\n[2] two\n"
