"""Runs of one profile, made of reports; and what a report is made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pytest_graphbreak.artifacts import incoming
from pytest_graphbreak.model.items import Frame
from pytest_graphbreak.model.layers import LAYERS
from pytest_graphbreak.report.checkout import ChangedLine, CheckoutLines
from pytest_graphbreak.report.runs import ProfileRun, runs_of
from tests.reports import Data
from tests.untrusted import at, spots


def as_runs(*reports: Data) -> list[ProfileRun]:
    return runs_of([incoming.parse(str(number), data) for number, data in enumerate(reports)])


class Edited(CheckoutLines):
    """A checkout in which each function begins at line 7, and these lines were edited."""

    def __init__(self, *lines: Frame) -> None:
        self._edited = [ChangedLine(line) for line in lines]

    def definition_of(self, function: Frame) -> Frame:
        return Frame(function.file, function.function, 7, "def forward(self, x):")

    def changed_lines(self, near: Sequence[Frame]) -> tuple[str, list[ChangedLine]]:
        return "abc1234", self._edited


def unlike_spots(report: Data) -> Iterator[tuple[Any, ...]]:
    """The spots of a report, but the first alone of those that the schema describes by one line:
    items of a list with the same keys, counts of several layers."""
    seen = set()
    for path in spots(report):
        place = tuple("*" if isinstance(key, int) or key in LAYERS else key for key in path)
        value = at(report, path)
        kind = (*place, type(value), *(sorted(value) if isinstance(value, dict) else ()))
        if kind not in seen:
            seen.add(kind)
            yield path
