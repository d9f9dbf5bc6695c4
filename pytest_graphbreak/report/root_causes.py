"""The causes of failed tests, each once: 220 tests broken by one ``print`` are one finding.

Tests are given as in a report; tests that this process judged come with their verdict. The summary
of a run, ``check``, the comment, the page and the annotations all use the result.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pytest_graphbreak.judging.verdict import Verdict, verdict_of
from pytest_graphbreak.model.differences import LISTS, Difference, Item
from pytest_graphbreak.model.layers import DESCRIPTIONS
from pytest_graphbreak.model.record import NOWHERE, Break, Frame, Graph, Recompile, Record
from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.report.headline import NAMES
from pytest_graphbreak.report.view import growth, weight
from pytest_graphbreak.text.output import plural

# Changes that are reported separately, each with what happened and its consequences.


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A change at a place; ``items`` are what happened there, ``below`` its consequences.

    A change in which something disappeared has no items.
    """

    change: Difference
    items: tuple[Item, ...] = ()
    below: tuple[Occurrence, ...] = ()

    @property
    def first(self) -> Item:
        return self.items[0]

    @property
    def where(self) -> Frame:
        return self.change.where

    @property
    def stack(self) -> tuple[Frame, ...]:
        """The calls that lead to the place, from the outermost to the place."""
        match self.items:
            case (Break() | Graph() as item, *_):
                return (*item.stack[:-1], item.where)
            case (Recompile() as item, *_):
                return (*item.stack, item.where)
        return (self.where,)

    @property
    def is_entry(self) -> bool:
        """Whether it is a function that was compiled when it was called."""
        change = self.change
        layer = DESCRIPTIONS[change.layer] if change.layer and change.kind == "graph" else None
        return layer is not None and layer.above is None and layer.cause(change.cause).is_plain

    def with_it(self, kind: str) -> list[Occurrence]:
        return [one for one in self.below if one.change.kind == kind and one.items]


def occurrences(
    changes: Sequence[Difference],
    record: Record,
    wanted: Callable[[Difference], bool] | None = None,
) -> list[Occurrence]:
    """Return the changes that are reported separately, in the order of the report."""
    below: dict[int, list[Occurrence]] = {}
    found = []
    # Consequences of a change come after it.
    for number, change in reversed([*enumerate(changes)]):
        if change.total or change.kind not in LISTS or (wanted and not wanted(change)):
            continue
        one = Occurrence(change, change.found(record), tuple(reversed(below.get(number, []))))
        if change.parent is None:
            found.append(one)
        else:
            below.setdefault(change.parent, []).append(one)
    return found[::-1]


def reported(verdict: Verdict, record: Record) -> list[Occurrence]:
    """Return what a failure reports: layers with a worse number or, without any, all layers."""
    layers = _layers(verdict)

    def wanted(change: Difference) -> bool:
        return change.kind in ("break", "eager") or not layers or change.layer in layers

    return occurrences(verdict.changes, record, wanted)


def _layers(verdict: Verdict) -> set[str]:
    return {one.layer for one in verdict.worse if one.layer}


@dataclass(slots=True)
class RootCause:
    """A reason for which tests failed.

    ``found`` is what happened in the first of ``tests``. It is None if nothing that happened
    explains the failure; then ``words`` say what is known, and ``function`` is a function that is
    no longer compiled. ``tests`` are the names of the failed tests, the most urgent first, and
    ``graphs`` is how many graphs above the limit they make together.
    """

    found: Occurrence | None = None
    words: str = ""
    function: Frame = NOWHERE
    tests: list[str] = field(default_factory=list)
    graphs: int = 0

    @property
    def where(self) -> Frame:
        """The place; ``NOWHERE`` for a cause without one."""
        return self.function if self.found is None else self.found.where

    @property
    def stack(self) -> tuple[Frame, ...]:
        """The calls that lead to the place in the first test, from the outermost to the place."""
        return (self.where,) if self.found is None else self.found.stack


@dataclass(frozen=True, slots=True)
class RootCauses:
    """The causes of failed tests: ``places`` in the source, and causes ``without`` a place.

    The causes of most tests come first. A test with two places is listed at both, and counted once
    in ``red``, the number of failed tests, and in ``explained``, the number of those with a place.
    """

    places: tuple[RootCause, ...] = ()
    without: tuple[RootCause, ...] = ()
    red: int = 0
    explained: int = 0

    @property
    def all(self) -> tuple[RootCause, ...]:
        return (*self.places, *self.without)

    @property
    def firsts(self) -> tuple[str, ...]:
        """The first test of each cause; their failures explain all of the others."""
        return tuple(dict.fromkeys(cause.tests[0] for cause in self.all))


def by_nodeid(tests: Iterable[TestReport]) -> Iterator[tuple[str, TestReport]]:
    """Return the tests of one run with the names that they are listed by."""
    return ((test.nodeid, test) for test in tests)


def root_causes(tests: Iterable[tuple[str, TestReport]]) -> RootCauses:
    """Return the causes of those tests that failed; each test comes with its name in lists."""
    found: dict[Hashable, RootCause] = {}
    names, explained = set[str](), set[str]()
    red = (pair for pair in tests if pair[1].failed_by == "gate")
    for name, test in sorted(red, key=lambda pair: weight(pair[1])):
        names.add(name)
        more = max(growth(test), 0)
        for key, cause in _causes(test).items():
            known = found.setdefault(key, cause)
            known.tests.append(name)
            known.graphs += more
            if known.where.file:
                explained.add(name)
    ranked = sorted(found.values(), key=lambda cause: (-len(cause.tests), -cause.graphs))
    return RootCauses(
        places=tuple(cause for cause in ranked if cause.where.file),
        without=tuple(cause for cause in ranked if not cause.where.file),
        red=len(names),
        explained=len(explained),
    )


def headline(found: RootCauses) -> str:
    """Return ``2 places explain 218 of 220 red tests``, or an empty string without places."""
    if not found.places:
        return ""
    places = plural(len(found.places), "place")
    verb = "explains" if len(found.places) == 1 else "explain"
    of = "" if found.explained == found.red else f"{found.explained:,} of "
    return f"{places} {verb} {of}{plural(found.red, 'red test')}"


def _causes(test: TestReport) -> dict[Hashable, RootCause]:
    """Return why one test failed, by a key that is equal for the same cause in another test."""
    if test.verdict == "error":
        return _by_words(
            f"could not see: {next(iter(test.record.errors), 'the reason is not known')}"
        )
    if test.verdict == "new":
        return _by_words("no baseline")
    record, verdict = test.record, verdict_of(test)
    found: dict[Hashable, RootCause] = {}
    for one in _new(verdict, record):
        found.setdefault(_key(one), RootCause(one))
    if not found and verdict.name == "lost" and (gone := _gone_entry(verdict, record)).file:
        return _by_words("no longer compiled", gone)
    return found or _by_words(_counts_only(verdict, record))


def _by_words(words: str, function: Frame = NOWHERE) -> dict[Hashable, RootCause]:
    key = function.key if function.file else words
    return {key: RootCause(words=words, function=function)}


def _gone_entry(verdict: Verdict, record: Record) -> Frame:
    """Return the first function that was compiled when it was called, and is not any more."""
    entries = (one for one in reported(verdict, record) if one.is_entry and not one.items)
    return next((one.where for one in entries), NOWHERE)


def _new(verdict: Verdict, record: Record) -> Iterator[Occurrence]:
    """Yield what a test's failure reports as new and separately, breaks first."""
    found = [one for one in reported(verdict, record) if one.items and not one.change.was]
    several = sum(one.is_entry for one in found) > 1
    # A break in a function tells more than that the function is compiled.
    for one in sorted(found, key=lambda one: one.is_entry):
        if not (several and one.change.unsure):  # it may be unknown which of several is new
            yield one


def _key(one: Occurrence) -> Hashable:
    """Return the key of a place, whatever happened there; without a place, the reason."""
    where = one.where
    return where.key if where.file else (one.change.kind, one.change.reason)


def _counts_only(verdict: Verdict, record: Record) -> str:
    """Return what can be said of a test that failed only because of its counts."""
    if verdict.emptied:
        if record.frames.attempted:
            return "no tensor operation was found to compile"
        return "nothing was compiled"
    for step in verdict.worse:
        if step.kind in ("ops", "work"):
            continue
        layer, what = f"{step.layer} " if step.layer else "", NAMES.get(step.kind, step.kind)
        return f"{'more' if step.growth > 0 else 'fewer'} {layer}{what}, no place is known"
    if verdict.name == "lost":
        return "fewer captured operations"
    return f"{verdict.name}: another baseline would hold"
