"""Record and budget in, verdict out. Pure: no files, no pytest, no torch.

The verdicts and their order are those of README.md, "What the gate says"; the first that
holds is the verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Map
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from pytest_graphbreak.baseline.model import Expected
from pytest_graphbreak.config.ini import OPS
from pytest_graphbreak.judging.causes import is_lowered
from pytest_graphbreak.judging.difference import NONE, diff
from pytest_graphbreak.judging.functions import called_less
from pytest_graphbreak.model.budget import PLACES_LAYER, Cap
from pytest_graphbreak.model.differences import FAILING, MEANINGS, STRICT, Difference
from pytest_graphbreak.model.layer import UNKNOWN, Versions, same_minor
from pytest_graphbreak.model.layers import DESCRIPTIONS, made_by
from pytest_graphbreak.model.record import Graph, Record
from pytest_graphbreak.model.report import TestReport


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the comparison of a record with its budget says.

    ``changes`` are all differences, also where another verdict came first. ``unseen`` are layers
    that a budget speaks of and that were not there; ``foreign`` is the profile
    whose plain values were used because this one was never recorded.
    """

    name: str
    changes: tuple[Difference, ...] = ()
    unseen: tuple[str, ...] = ()
    foreign: str | None = None

    @property
    def fails(self) -> bool:
        return self.name in FAILING

    @property
    def over(self) -> tuple[Difference, ...]:
        return self._totals("over")

    @property
    def lost(self) -> tuple[Difference, ...]:
        return self._totals("lost")

    @property
    def fewer(self) -> tuple[Difference, ...]:
        return self._totals("improved")

    @property
    def swapped(self) -> tuple[Difference, ...]:
        """The places that are new where no count grew."""
        if self.name not in STRICT:
            return ()
        return tuple(
            one
            for one in self.changes
            if one.is_new and one.verdict and one.parent is None and not one.unsure
        )

    @property
    def worse(self) -> tuple[Difference, ...]:
        """The numbers for which a test is red."""
        return (*self.over, *self.lost)

    @property
    def by_marker(self) -> tuple[Difference, ...]:
        """The numbers that exceed the marker, which no update of a baseline changes."""
        return tuple(step for step in self.worse if step.by == "marker")

    @property
    def acceptable(self) -> bool:
        """Whether an update of the baseline accepts any of it."""
        return len(self.by_marker) < len(self.worse) or self.name in ("new", *STRICT)

    @property
    def ops(self) -> tuple[Difference, ...]:
        """The captured operations that differ now, either way, where they can be compared."""
        return tuple(one for one in self.changes if one.kind == "ops")

    def _totals(self, verdict: str) -> tuple[Difference, ...]:
        return tuple(one for one in self.changes if one.total and one.verdict == verdict)

    @property
    def shrunk(self) -> bool:
        """Whether all that is lost are captured operations; an update writes that."""
        return self.name == "lost" and all(
            one.kind in ("ops", "work", "execution") for one in self.lost
        )

    @property
    def emptied(self) -> bool:
        """Whether a layer that had graphs has none."""
        return any(one.kind == "graph" and not one.after for one in self.lost)

    @property
    def needs_prune(self) -> bool:
        """Whether compiled code is gone, which an update writes only together with a prune."""
        return self.emptied or (self.name == "lost" and not self.shrunk)


def judge(
    record: Record,
    expected: Expected | None = None,
    cap: Cap | None = None,
    *,
    gate: bool = False,
    versions: Versions = UNKNOWN,
    packages: Map[str, str] = NONE,
    ops: float | None = OPS,
    runs: bool = True,
) -> Verdict:
    """The verdict on one record.

    ``expected`` is what the baseline says for this profile, or None; ``cap`` is
    the marker's. With neither, the verdict is ``new`` under the gate when
    anything was attempted, and ``none`` otherwise. ``versions`` are those of the compilers
    that made the record (``{"torch": "2.9.1"}``): reasons are compared only with a
    baseline of the same minor version, since ids change their meaning. Captured
    operations may fall by ``ops`` percent (None: they are not compared), and are
    compared only with the same versions of the ``packages`` that own the code, too. ``runs``:
    whether executions and reads are compared with the baseline.
    """
    if record.errors:
        return Verdict("error")
    if expected is None and cap is None:
        if gate and record.judged:
            return Verdict("new", diff(None, record))
        return Verdict("none")
    changes = _changes(record, expected, cap, versions, packages, ops, runs)
    meant = {one.verdict for one in changes}
    name = next((name for name in MEANINGS if name in meant), "ok")
    return Verdict(
        name,
        changes if name != "ok" else (),
        unseen=_unseen(record, expected, cap),
        foreign=expected.profile if expected is not None and not expected.recorded else None,
    )


def _changes(
    record: Record,
    expected: Expected | None,
    cap: Cap | None,
    versions: Versions,
    packages: Map[str, str],
    ops: float | None,
    runs: bool = False,
) -> tuple[Difference, ...]:
    compared = {"ops": ops is not None, "runs": runs}
    found = diff(expected, record, cap, versions=versions, packages=packages, **compared)
    return tuple(_meaning(found, record, expected, versions, ops))


def _unseen(record: Record, expected: Expected | None, cap: Cap | None) -> tuple[str, ...]:
    of_baseline = () if expected is None else expected.unseen(record.layers)
    of_cap = () if cap is None else (one for one in cap.layers if one not in record.layers)
    return tuple(dict.fromkeys((*of_baseline, *of_cap)))


def _meaning(
    changes: Sequence[Difference],
    record: Record,
    expected: Expected | None,
    versions: Versions,
    ops: float | None,
) -> Iterator[Difference]:
    """The changes, each with the verdict that it leads to by itself."""
    known = {} if expected is None else expected.causes_with
    named = expected is not None and bool(expected.values.functions)
    shrunk: set[str | None] = set()
    for one in changes:
        if one.kind == "ops":
            graphs = record.graphs.get(one.layer or "", 0)
            lost = ops is not None and _is_lost(one, changes, graphs, ops, named)
            shrunk.update((one.layer,) if lost else ())
            yield replace(one, verdict="lost" if lost else "changed")
        elif one.kind in _RUNS and one.total and one.growth < 0 and one.layer in shrunk:
            yield one  # less is captured, so less of it runs
        elif one.total:
            yield replace(one, verdict=_of_total(one, changes, ops))
        elif (
            (one.kind in ("break", "eager") and one.before is not None)
            or (one.kind == "function" and ops is not None)
            or (
                one.kind == "graph"
                and one.before is not None
                and one.layer is not None
                and not _is_lowered(one, record)
                and same_minor(made_by(one.layer, versions), known.get(one.layer))
            )
        ):
            yield replace(one, verdict="changed")
        else:
            yield one


def _is_lowered(change: Difference, record: Record) -> bool:
    found = change.found(record)
    return bool(found) and all(isinstance(one, Graph) and is_lowered(one) for one in found)


def _of_total(one: Difference, changes: Sequence[Difference], ops: float | None) -> str | None:
    """The verdict that a number leads to, of all but captured operations."""
    if one.kind in _RUNS and _follows(one, changes):
        return None
    if one.kind == "work":
        return "lost" if _has_left(one, changes, ops) else None
    if one.growth > 0:
        return "lost" if one.kind == "eager" else "over"
    if one.kind == "execution":
        # Fewer runs are better only where they do as much.
        work = [item for item in changes if (item.kind, item.layer) == ("work", one.layer)]
        if work and work[0].growth >= 0:
            return "improved"
        return "lost" if work and _has_left(work[0], changes, ops) else "changed"
    return "lost" if one.kind == "graph" and not one.after else "improved"


def _has_left(work: Difference, changes: Sequence[Difference], percent: float | None) -> bool:
    """Whether code left the compiler with operations that do not run any more.

    A graph of Dynamo is whole or is not run. Lazy tensors also note what only made a value to be
    read, such as the mean that was printed: it goes with a read, or with a graph. Where neither
    went, as much may be missing as of captured operations.
    """
    was = work.before or 0
    if work.layer == PLACES_LAYER:
        return work.after < was
    fewer = any(
        one.total and one.layer == work.layer and one.kind in ("graph", "read") and one.growth < 0
        for one in changes
    )
    return not fewer and percent is not None and work.after < was - was * percent / 100


def _is_lost(
    one: Difference, changes: Sequence[Difference], graphs: int, percent: float, named: bool
) -> bool:
    """Whether code left the compiler with the operations that its ``graphs`` lack.

    ``named``: the baseline names functions. Where all of these are compiled, called as often, and
    nothing new broke, the program is smaller; where that is not known, ``percent`` may be missing.
    """
    was = _missed(one, changes, graphs)
    if was is None or one.after >= was:
        return False
    if named and _is_traced(one, changes):
        functions = [item for item in changes if item.kind == "function"]
        if any(not item.after for item in functions):
            return True
        left = any(item.kind in ("break", "eager") and item.is_new for item in changes)
        if not (left or called_less(functions)):
            return False
    return one.after < was - was * percent / 100


def _missed(one: Difference, changes: Sequence[Difference], now: int) -> float | None:
    """How many operations there were to be, without graphs that were compiled again before.

    Such a graph holds what the first one held. None where graphs grew; there are ``now``.
    """
    grown = sum(item.growth for item in _counts(changes, "graph") if item.layer == one.layer)
    if grown > 0:
        return None
    gone = max((-item.growth for item in _counts(changes, "recompile")), default=0)
    graphs = now - grown
    return (one.before or 0) * max(graphs - max(gone, 0), 1) / max(graphs, 1)


def _is_traced(one: Difference, changes: Sequence[Difference]) -> bool:
    """Whether what a layer lost is what Dynamo captures less, whose functions are known."""
    layer = one.layer
    while layer is not None and layer != PLACES_LAYER:
        layer = DESCRIPTIONS[layer].above
    return layer is not None and any(
        item.total and item.kind == "ops" and item.layer == layer and item.growth < 0
        for item in changes
    )


_RUNS: Final = ("execution", "read", "work")


def _follows(one: Difference, changes: Sequence[Difference]) -> bool:
    """Whether runs or reads differ because of other graphs or breaks, which are reported."""
    graphs = [item for item in _counts(changes, "graph") if item.layer == one.layer]
    if any(not item.after for item in graphs):
        return True
    more = (*graphs, *_counts(changes, "break"), *_counts(changes, "eager"))
    return one.growth > 0 and any(item.growth > 0 for item in more)


def _counts(changes: Sequence[Difference], kind: str) -> Iterator[Difference]:
    """The totals of one kind that are compared with a baseline."""
    return (one for one in changes if one.total and one.kind == kind and one.by == "baseline")


def verdict_of(test: TestReport) -> Verdict:
    """The verdict on a test of a report, with its changes.

    A report of an earlier version has none: they are worked out here, without captured operations,
    of which it does not say whether they can be compared.
    """
    if test.changes is not None:
        return Verdict(test.verdict, test.changes, test.unseen, test.foreign)
    if test.verdict in ("error", "none"):
        return Verdict(test.verdict)
    changes = _changes(test.record, _expected(test), test.cap, UNKNOWN, NONE, None)
    return Verdict(test.verdict, changes, test.unseen, test.foreign)


def _expected(test: TestReport) -> Expected | None:
    known = test.baseline
    if known is None:
        return None
    own = test.foreign is None
    return Expected(
        known,
        profile=known.profile or "",
        versions={name: version for name, version in known.versions.items() if version},
        recorded=own,
        own=known.layers if own else frozenset(),
    )
