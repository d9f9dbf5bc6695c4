"""Situations, each with what a red test says of it and with the same program after each fix.

A row is a program that is red under its marker, the lines after ``fix:`` that its failure has, all
of them and no other, and the ways to follow them: edits of the program, each of which makes it
green. A row without a way is one whose line says that nothing makes it fewer. The first line of a
family is followed by the examples of its page, in ``test_examples``; those of its ``lines`` here.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

Edits = tuple[tuple[str, str], ...]
"""Texts of a program, each once in it, and what takes their place."""


@dataclass(frozen=True)
class Situation:
    """A row of the table.

    ``said`` are the lines after ``fix:``, ``shown`` other texts of the failure. ``recorded`` are
    edits that make the program for which a baseline is recorded first; without them the marker of
    the program is its budget. ``compiles`` is whether the mended program still makes a graph that
    is counted.
    """

    name: str
    program: str
    said: tuple[str, ...] = ()
    ways: tuple[Edits, ...] = ()
    shown: tuple[str, ...] = ()
    recorded: Edits = ()
    compiles: bool = True

    def __str__(self) -> str:
        return self.name

    def edited(self, edits: Edits) -> str:
        """Return the program with edits. Raises ``ValueError`` for one that is not in it once."""
        text = self.program
        for old, new in edits:
            if text.count(old) != 1:
                raise ValueError(f"{self.name}: {old!r} is in the program {text.count(old)} times")
            text = text.replace(old, new)
        return text


_FIX = re.compile(r"^ +fix: (.+)$", re.MULTILINE)
Run = Callable[..., pytest.RunResult]
"""Writes a program and runs it, with more arguments of pytest."""


def follow(row: Situation, run: Run) -> None:
    """Check that a red test says what the row has, and that each way to follow it is green."""
    text = failure(row, run)
    assert set(_FIX.findall(text)) == set(row.said)
    for shown in row.shown:
        assert shown in text
    for edits in row.ways:
        with tempfile.TemporaryDirectory() as directory:
            report = Path(directory, "graphs.json")
            result = run(row.edited(edits), *_gate(row), f"--graph-budget-report={report}")
            result.assert_outcomes(passed=1)
            (entry,) = json.loads(report.read_text())["tests"]
        # A cap is met by a program that compiles nothing, which no advice is about.
        assert bool(entry["graphs"]) is row.compiles


def failure(row: Situation, run: Run) -> str:
    """Return what the red test shows."""
    if row.recorded:
        run(row.edited(row.recorded), "--graph-budget-record").assert_outcomes(passed=1)
    result = run(row.program, *_gate(row))
    result.assert_outcomes(failed=1)
    whole = str(result.stdout)
    return whole.partition("= FAILURES =")[2].partition("short test summary")[0]


def _gate(row: Situation) -> tuple[str, ...]:
    return ("--graph-budget",) if row.recorded else ()
