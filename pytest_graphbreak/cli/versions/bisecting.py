"""Finds the commit or the release that changed a test."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from pytest_graphbreak.cli.elsewhere import ElsewhereError
from pytest_graphbreak.cli.versions.environment import SuiteRun
from pytest_graphbreak.model.record import Frame, Record
from pytest_graphbreak.model.report import RunReport, TestReport
from pytest_graphbreak.runs.union import MEASURED, level

GOOD, BAD, SKIP = "good", "bad", "skip"
MOST_NAMED: Final = 5
"""The number of tests that are named if an id matches several."""


class Bisectable(Protocol):
    """The candidates of a search, commits or releases, each identified by a name."""

    good: str
    bad: str
    names: list[str]
    """All candidates between both ends, oldest first."""

    def between(self, good: Sequence[str], bad: str, skipped: Collection[str]) -> list[str]:
        """Return those that may have changed the test before ``bad`` did, the best to try first.

        Raises ``ElsewhereError`` if they cannot be searched.
        """

    def before(self, name: str) -> str:
        """Return the predecessor of an answer."""

    def measure(self, name: str) -> SuiteRun:
        """Run the test on this candidate."""

    def status(self) -> str:
        """Return the progress of the run."""

    def title(self, name: str) -> str:
        """Return one line about a commit or a release."""

    def label(self, name: str) -> str:
        """Return a short name for it."""

    def difference(self, before: str, after: str, file: str) -> str:
        """Return the unified diff of a file, as records name it; empty if it is unchanged."""

    def changed(self, before: str, after: str) -> list[str]:
        """Return what else to name: the files of a commit, the packages installed along with it."""


@dataclass(frozen=True, slots=True)
class MeasuredEnd:
    """The measurement of one commit or release."""

    name: str
    report: RunReport
    test: TestReport
    path: Path

    @property
    def record(self) -> Record:
        return self.test.record


@dataclass(slots=True)
class BisectResult:
    """The result of a search: ``answers`` has one, or all candidates that are left.

    ``before`` and ``after`` were measured on either side of it, ``what`` differs between them
    (``ChangeDetector``). ``skipped`` are those that could not be tried, with the reason. ``end`` is
    the bad end, which may have changed further.
    """

    what: str
    before: MeasuredEnd
    after: MeasuredEnd
    end: MeasuredEnd
    answers: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)


OnBegin = Callable[[str, int], None]
"""Called with the name of the next candidate, and about how many steps are left after it."""
OnStep = Callable[[str, str, MeasuredEnd | None, str], None]
"""Called with each step: good, bad or skip; the name; the measurement; why it was skipped."""


def search(
    versions: Bisectable, begin: OnBegin, on_step: OnStep, differs: Callable[[str], None]
) -> BisectResult:
    """Search between both ends for what changed the test.

    ``differs`` is called with what differs between the ends (``ChangeDetector.what``). Raises
    ``ElsewhereError`` if an end cannot be measured, or if nothing changed.
    """
    going = _Bisection(versions, begin, on_step)
    good = going.end(versions.good, "--good")
    on_step(GOOD, versions.good, good, "")
    bad = going.end(versions.bad, "--bad")
    detector = ChangeDetector(good.record, bad.record)
    on_step(BAD if detector.what else GOOD, versions.bad, bad, "")
    if not detector.what:
        raise ElsewhereError(
            "the test is the same at --good and at --bad: there is nothing to find"
        )
    differs(detector.what)
    answers = going.narrowed(detector)
    before, after = going.sides(answers, detector)
    return BisectResult(detector.what, before, after, bad, answers, going.skipped)


class _Bisection:
    """The state of a search: what was measured, and what could not be."""

    def __init__(self, versions: Bisectable, begin: OnBegin, on_step: OnStep) -> None:
        self._versions = versions
        self._begin = begin
        self._on_step = on_step
        self._known: dict[str, MeasuredEnd] = {}
        self.skipped: dict[str, str] = {}

    def end(self, name: str, option: str) -> MeasuredEnd:
        """Measure one of the two ends. Raises ``ElsewhereError``."""
        self._begin(name, 0)
        run = self._versions.measure(name)
        side, why = _read(run, name)
        if side is None:
            raise ElsewhereError(f"{option} {name}: {why}", run.words)
        self._known[name] = side
        return side

    def narrowed(self, detector: ChangeDetector) -> list[str]:
        """Try all candidates; return the first bad one, after the skipped ones that precede it."""
        good, bad = [self._versions.good], self._versions.bad
        while True:
            left = self._versions.between(good, bad, self.skipped)
            untried = [name for name in left if name not in self.skipped]
            if not untried:
                return [*(name for name in self._versions.names if name in left), bad]
            name = untried[choice(len(untried), len(left) - len(untried))]
            side = self._try(name, max(0, len(untried).bit_length() - 1))
            if side is None:
                self._on_step(SKIP, name, None, self.skipped[name])
            elif detector(side.record):
                bad = name
                self._on_step(BAD, name, side, "")
            else:
                good.append(name)
                self._on_step(GOOD, name, side, "")

    def _try(self, name: str, steps: int) -> MeasuredEnd | None:
        self._begin(name, steps)
        side, why = _read(self._versions.measure(name), name)
        if side is None:
            self.skipped[name] = why
        else:
            self._known[name] = side
        return side

    def sides(
        self, answers: Sequence[str], detector: ChangeDetector
    ) -> tuple[MeasuredEnd, MeasuredEnd]:
        """Return the measurements on either side of an answer."""
        before = [self._versions.before(name) for name in answers]
        if len(answers) == 1 and before[0] not in self._known:
            self._try(before[0], 0)  # an ancestor of a good one
        known = [self._known[name] for name in before if name in self._known]
        good = self._known[self._versions.good]
        return (
            next((side for side in known if not detector(side.record)), good),
            self._known[answers[-1]],
        )


def choice(untried: int, skipped: int) -> int:
    """Return the index of the candidate to try, the best first; after skips one further away.

    Neighbours mostly fail together: this is the same bias as in ``git bisect skip`` (bisect.c).
    """
    return int(untried * random.Random(skipped).random() ** 1.5) if skipped else 0


def _read(run: SuiteRun, name: str) -> tuple[MeasuredEnd | None, str]:
    """Return the measurement of a run, or None and the reason if nothing was measured.

    Raises ``ElsewhereError`` if something else than intended was measured.
    """
    if run.outside:
        module, file = next(iter(run.outside.items()))
        raise ElsewhereError(
            f"{name}: the test imports {module} from {file}, and so from your checkout and not "
            "from the commit: each step would measure the same code. Uninstall it, or give the "
            "directory that it is to be imported from, from the root of the repository: "
            "--path DIR"
        )
    if run.report is None:
        return None, run.why
    tests = run.report.tests
    if len(tests) > 1:
        named = ", ".join(test.nodeid for test in tests[:MOST_NAMED])
        raise ElsewhereError(f"{len(tests)} tests have this id; give one of them: {named}")
    test = tests[0]
    if level(test) == MEASURED:
        return MeasuredEnd(name, run.report, test, run.path), ""
    if test.record.errors:
        return None, test.record.errors[0]
    return None, f"the test {_how(test)}"


def _how(test: TestReport) -> str:
    return {"failed": "fails by itself", "skipped": "is skipped", "crashed": "crashes"}.get(
        test.outcome, f"is {test.outcome}"
    )


# what changed


COUNTS: Final = "counts"
Place = tuple[str, str, str]
"""Layer, function and source line with normalised whitespace."""


def _counts(record: Record, layers: frozenset[str]) -> Hashable:
    """Return what a baseline limits: graphs, recompiles, graph breaks, and code left to eager."""
    return (
        tuple((layer, record.graphs.get(layer, 0)) for layer in sorted(layers)),
        tuple((layer, record.recompiles.get(layer, 0)) for layer in sorted(layers)),
        len(_of([(one.layer, one.where) for one in record.breaks], layers)),
        len(_of([(one.layer, one.where) for one in record.eager], layers)),
    )


def _places(record: Record, layers: frozenset[str]) -> Hashable:
    """Return where it breaks, where it leaves the compiler, and the causes of its graphs."""
    causes = Counter((graph.layer, graph.cause) for graph in record.graph_list)
    return (
        frozenset(_of([(one.layer, one.where) for one in record.breaks], layers)),
        frozenset(_of([(one.layer, one.where) for one in record.eager], layers)),
        frozenset((key, count) for key, count in causes.items() if key[0] in layers),
    )


def _ops(record: Record, layers: frozenset[str]) -> Hashable:
    return tuple(sorted((layer, ops) for layer, ops in record.ops.items() if layer in layers))


def _of(items: list[tuple[str, Frame]], layers: frozenset[str]) -> list[Place]:
    """Return the distinct places on these layers."""
    found = {(layer, where.function, " ".join(where.code.split())) for layer, where in items}
    return sorted(place for place in found if place[0] in layers)


_MEASURES: Final[dict[str, Callable[[Record, frozenset[str]], Hashable]]] = {
    COUNTS: _counts,
    "places": _places,
    "captured operations": _ops,
}
"""The measures that can change; the first that differs between both ends is searched for."""


class ChangeDetector:
    """Detects whether a record is still like that of the good end.

    ``what`` is what differs between both ends: counts, or else places, or else captured operations;
    empty if nothing does. Layers that one end did not observe are ignored.
    """

    def __init__(self, good: Record, bad: Record) -> None:
        self._good = good
        self._layers = frozenset(good.layers) & frozenset(bad.layers)
        self.what = next((name for name in _MEASURES if not self._alike(name, bad)), "")

    def __call__(self, record: Record) -> bool:
        """Return whether a record differs from that of the good end."""
        return bool(self.what) and not self._alike(self.what, record)

    def _alike(self, what: str, record: Record) -> bool:
        measure = _MEASURES[what]
        layers = self._layers & frozenset(record.layers)
        return measure(self._good, layers) == measure(record, layers)
