"""Changes in passing tests as lines: each place once, however many tests have it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from pytest_graphbreak.judging.verdict import verdict_of
from pytest_graphbreak.model.differences import STRICT
from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.report import causes, explained
from pytest_graphbreak.report.lines import detail
from pytest_graphbreak.report.root_causes import Occurrence, RootCause, occurrences
from pytest_graphbreak.text.output import TextLine, plural

IN_FULL: Final = 10
"""The number of changes shown with source line and advice; the rest have what and where."""
MOST: Final = 100
"""The number of changes shown; with more, the rest are counted and accepting is not suggested."""


@dataclass(slots=True)
class PassingChange:
    """A place that appeared, disappeared or changed in passing ``tests``."""

    found: Occurrence
    tests: list[str] = field(default_factory=list)

    @property
    def is_new(self) -> bool:
        return bool(self.found.items) and not self.found.change.was

    def lines(self) -> list[TextLine]:
        """Return what changed and where and, if it is new, how to avoid it."""
        return explained.what(RootCause(self.found)) if self.is_new else causes.lines(self.found)


def changes(tests: Iterable[tuple[str, TestReport]]) -> list[PassingChange]:
    """Return the changes of passing tests, new ones first, then by number of tests.

    Each test comes with the name that it is listed by.
    """
    found: dict[Hashable, PassingChange] = {}
    for name, test in tests:
        if test.verdict not in STRICT or test.failed_by is not None or test.written:
            continue
        for one in occurrences(verdict_of(test).changes, test.record):
            change = one.change
            if not change.unsure:
                key = (change.kind, change.cause, change.was, bool(one.items), change.where.key)
                found.setdefault(key, PassingChange(one)).tests.append(name)
    return sorted(found.values(), key=lambda one: (not one.is_new, -len(one.tests)))


def lines(found: list[PassingChange]) -> Iterator[TextLine]:
    """Yield the changes below a title, if there are any."""
    if not found:
        return
    yield TextLine("What changed in tests that pass:", "title")
    several = len({name for one in found for name in one.tests}) > 1
    for number, one in enumerate(found[:MOST]):
        yield from one.lines() if number < IN_FULL else one.lines()[:2]
        if several:
            number_of = plural(len(one.tests), "test")
            yield detail(f"in {number_of}{'; one of them:' if len(one.tests) > 1 else ':'}")
            yield detail(one.tests[0], 4)
    if len(found) > MOST:
        rest = plural(len(found) - MOST, "more change")
        yield TextLine(f"... and {rest} (the JSON report has them all)", indent=2)
