"""What makes tests red, each cause once: 220 tests that one ``print`` broke are one finding.

Pure: tests go in as a report has them; one that this process judged brings its verdict along. The
summary of a run, ``check``, the comment, the page and the annotations all tell what comes out.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from pytest_graphbreak.baseline.model import Expected
from pytest_graphbreak.judging.verdict import Verdict, judge
from pytest_graphbreak.model.record import NOWHERE, Break, Eager, Frame, Graph, Record
from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.report import regressions
from pytest_graphbreak.report.repeats import Repeats, series
from pytest_graphbreak.report.view import growth, weight
from pytest_graphbreak.text.numbers import plural

Item = Break | Eager | Repeats | Graph
"""What happened at a place."""


@dataclass(slots=True)
class RootCause:
    """One reason for which tests are red.

    ``item`` is what happened, as the first of ``tests`` has it. It is None where nothing that
    happened tells why; then ``words`` say what is known, and ``function`` is one that was compiled
    and is no longer. ``tests`` are the names of the red tests, the most urgent first, and
    ``graphs`` is how many graphs more than allowed they make together.
    """

    item: Item | None = None
    words: str = ""
    function: Frame = NOWHERE
    tests: list[str] = field(default_factory=list)
    graphs: int = 0

    @property
    def where(self) -> Frame:
        """The place; ``NOWHERE`` for a cause that has none."""
        return self.function if self.item is None else _where(self.item)

    @property
    def stack(self) -> tuple[Frame, ...]:
        """The calls that lead to the place in the first test, from the outermost to the place."""
        match self.item:
            case Break() | Graph() as item:
                return (*item.stack[:-1], item.where)
            case Repeats(first=first):
                return (*first.stack, first.where)
        return (self.where,)


@dataclass(frozen=True, slots=True)
class RootCauses:
    """What makes the tests of a run red: ``places`` in the source, and causes ``without`` one.

    What makes most tests red comes first. A test with two places is told at both, and is one of
    the ``red`` tests, and one of those that a place ``explained``.
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
        """The first test of each cause: who has read why these are red has read all of it."""
        return tuple(dict.fromkeys(cause.tests[0] for cause in self.all))


def by_nodeid(tests: Iterable[TestReport]) -> Iterator[tuple[str, TestReport]]:
    """The tests of one run with the names that they are told by."""
    return ((test.nodeid, test) for test in tests)


def root_causes(tests: Iterable[tuple[str, TestReport]]) -> RootCauses:
    """The causes of the red ones of these tests, each given with the name that it is told by."""
    found: dict[Hashable, RootCause] = {}
    names, explained = set[str](), set[str]()
    for name, test in sorted(filter(_is_red, tests), key=lambda pair: weight(pair[1])):
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
    """``2 places explain 218 of 220 red tests``; empty where no place explains any."""
    if not found.places:
        return ""
    places = plural(len(found.places), "place")
    verb = "explains" if len(found.places) == 1 else "explain"
    of = "" if found.explained == found.red else f"{found.explained:,} of "
    return f"{places} {verb} {of}{plural(found.red, 'red test')}"


def _is_red(pair: tuple[str, TestReport]) -> bool:
    return pair[1].failed_by == "gate"


def _causes(test: TestReport) -> dict[Hashable, RootCause]:
    """Why one test is red, by what the same cause of another test has in common with it."""
    if test.verdict == "error":
        return _by_words(
            f"could not see: {next(iter(test.record.errors), 'the reason is not known')}"
        )
    if test.verdict == "new":
        return _by_words("no baseline")
    record, verdict = test.record, _judged(test)
    found: dict[Hashable, RootCause] = {}
    for item in _items(verdict, record):
        found.setdefault(_key(item), RootCause(item))
    if not found and verdict.name == "lost":
        function = _unreached(test)
        words = "no longer reached" if function.file and record.graph_list else ""
        return _by_words(words or _counts_only(verdict, record), function)
    return found or _by_words(_counts_only(verdict, record))


def _by_words(words: str, function: Frame = NOWHERE) -> dict[Hashable, RootCause]:
    key = function.key if function.file else words
    return {key: RootCause(words=words, function=function)}


def _unreached(test: TestReport) -> Frame:
    """The function with the most operations of those that are not compiled any more."""
    before = {} if test.baseline is None else test.baseline.values.functions
    after = {name for graph in test.record.graph_list for name in graph.functions}
    gone = {name: count for name, count in before.items() if name not in after}
    if not gone:
        return NOWHERE
    # Of equal ones the first: a baseline has them in the same order in every run.
    file, _, function = max(gone, key=gone.__getitem__).partition("::")
    return Frame(file, function)


def _items(verdict: Verdict, record: Record) -> Iterator[Item]:
    """What the failure of a test tells as new and of itself, a break before all else."""
    found = regressions.found(verdict, record)
    yield from (item for item, _ in found.breaks)
    yield from found.graphs
    yield from series(found.recompiles)
    yield from found.eager
    functions = list(regressions.entries(verdict, record))
    for sign, graph, _ in functions:
        if sign == "+" or len(functions) == 1:  # of several, which one is new may not be known
            yield graph


def _where(item: Item) -> Frame:
    return item.first.where if isinstance(item, Repeats) else item.where


def _key(item: Item) -> Hashable:
    """The place, whatever happened there; what has none is known by its reason."""
    where = _where(item)
    return where.key if where.file else (type(item).__name__, item.reason)


def _counts_only(verdict: Verdict, record: Record) -> str:
    """What can be said of a test that is red by its counts alone."""
    if verdict.emptied:
        if record.attempted:
            return "no tensor operation was found to compile"
        return "nothing was compiled"
    for step in (*verdict.over, *verdict.lost):
        layer = f"{step.layer} " if step.layer else ""
        return f"{'more' if step.growth > 0 else 'fewer'} {layer}{step.what}, no place is known"
    if verdict.name == "lost":
        return "fewer captured operations"
    return f"{verdict.name}: another baseline would hold"


def _judged(test: TestReport) -> Verdict:
    """The verdict on a test, or what moved as its report has it: without captured operations."""
    if test.ruled is not None:
        verdict: Verdict = test.ruled
        return verdict
    verdict = judge(replace(test.record, errors=()), _expected(test), test.cap, ops=None)
    return replace(verdict, name=test.verdict)


def _expected(test: TestReport) -> Expected | None:
    known = test.baseline
    if known is None:
        return None
    own = test.foreign is None
    return Expected(
        known.values,
        profile=known.profile or "",
        versions={name: version for name, version in known.versions.items() if version},
        recorded=own,
        own=known.values.layers if own else frozenset(),
    )
