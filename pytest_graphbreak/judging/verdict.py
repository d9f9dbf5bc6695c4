"""Computes the verdict from record and budget, without files, pytest or torch.

The verdicts and their order are those of README.md, "What the gate says"; the first that applies is
the verdict.
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
    """The result of comparing a record with its budget.

    ``changes`` are all differences, even if another verdict takes precedence. ``unseen`` are layers
    that the budget names and that were not observed; ``foreign`` is the profile whose plain values
    were used because this one was never recorded.
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
        """The new places in a test of which no count grew."""
        if self.name not in STRICT:
            return ()
        return tuple(
            one
            for one in self.changes
            if one.is_new and one.verdict and one.parent is None and not one.unsure
        )

    @property
    def worse(self) -> tuple[Difference, ...]:
        """The numbers because of which a test failed."""
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
        """The captured operations that differ now, in either direction, where comparable."""
        return tuple(one for one in self.changes if one.kind == "ops")

    def _totals(self, verdict: str) -> tuple[Difference, ...]:
        return tuple(one for one in self.changes if one.total and one.verdict == verdict)

    @property
    def shrunk(self) -> bool:
        """Whether only captured operations are lost; an update writes that."""
        return self.name == "lost" and all(
            one.kind in ("ops", "work", "execution") for one in self.lost
        )

    @property
    def is_unclear(self) -> bool:
        """Whether the counts mean a smaller program, or one of which a part runs uncompiled."""
        lost = self.shrunk and any(one.layer == PLACES_LAYER for one in self.lost)
        return lost or self.called_less or self.captures_less

    @property
    def captures_less(self) -> bool:
        """Whether Dynamo captures fewer operations, of what seems to be a smaller program."""
        return self.name == "changed" and any(
            one.layer == PLACES_LAYER and one.growth < 0 for one in self.ops
        )

    @property
    def called_less(self) -> bool:
        """Whether compiled functions are called less often, and only recompiles are gone.

        Either the test does less, or some calls run without the compiler.
        """
        return self.name == "improved" and any(
            one.kind == "execution" and _is_called_less(one, self.changes) for one in self.changes
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
    """Return the verdict on one record.

    ``expected`` is the baseline for this profile, or None; ``cap`` is that of the marker. With
    neither, the verdict is ``new`` under the gate if anything was attempted, and ``none``
    otherwise. ``versions`` are those of the compilers that made the record (``{"torch":
    "2.9.1"}``): reasons are compared only with a baseline of the same minor version, since ids
    change their meaning. Captured operations may fall by ``ops`` percent (None: they are not
    compared), and are compared only with the same versions of the ``packages`` that own the code.
    ``runs`` says whether executions and reads are compared with the baseline.
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
    """Yield the changes, each with the verdict that it leads to by itself."""
    known = {} if expected is None else expected.causes_with
    named = expected is not None and bool(expected.values.functions)
    shrunk: set[str | None] = set()
    for one in changes:
        if one.kind == "ops":
            graphs = record.graphs.get(one.layer or "", 0)
            lost = ops is not None and _is_lost(one, changes, graphs, ops, named, record)
            shrunk.update((one.layer,) if lost else ())
            yield replace(one, verdict="lost" if lost else "changed")
        elif one.kind in _RUNS and one.total and one.growth < 0 and one.layer in shrunk:
            yield one  # less is captured, so less of it runs
        elif one.total:
            found = _of_total(one, changes, ops)
            if found == "lost" and record.only_compiled and _runs_less(one, changes):
                found = "changed"
            if record.calls_plain and _is_called_less(one, changes):
                found = "lost"
            yield replace(one, verdict=found)
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
    """Return the verdict that a number leads to, for all but captured operations."""
    if one.kind in _RUNS and _follows(one, changes):
        return None
    if one.kind == "work":
        return "lost" if _has_left(one, changes, ops) else None
    if one.growth > 0:
        return "lost" if one.kind == "eager" else "over"
    if one.kind == "execution":
        # Fewer runs are an improvement only if they do as much.
        work = [item for item in changes if (item.kind, item.layer) == ("work", one.layer)]
        if work and work[0].growth >= 0:
            return "improved"
        return "lost" if work and _has_left(work[0], changes, ops) else "changed"
    return "lost" if one.kind == "graph" and not one.after else "improved"


def _has_left(work: Difference, changes: Sequence[Difference], percent: float | None) -> bool:
    """Return whether code left the compiler, with operations that no longer run.

    A graph of Dynamo runs completely or not at all. Lazy tensors also record operations that only
    made a value to be read, such as a printed mean; these disappear with a read or with a graph. If
    neither disappeared, the same percentage may be missing as of captured operations.
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
    one: Difference,
    changes: Sequence[Difference],
    graphs: int,
    percent: float,
    named: bool,
    record: Record,
) -> bool:
    """Return whether code left the compiler, with the operations that its ``graphs`` lack.

    ``named`` says whether the baseline names functions. If all of these are compiled, nothing new
    broke, and they are called equally often or by compiled functions only, by the source of the
    test (``only_compiled`` of the ``record``), the program became smaller; if unknown, ``percent``
    may be missing.
    """
    was = _missed(one, changes, graphs)
    fused = one.layer is not None and not DESCRIPTIONS[one.layer].fewer
    if was is None or one.after >= was or fused:
        return False
    if record.calls_plain:
        return True
    if named and _is_traced(one, changes):
        functions = [item for item in changes if item.kind == "function"]
        if any(_has_gone(item, functions, was - one.after) for item in functions):
            return True
        left = any(item.kind in ("break", "eager") and item.is_new for item in changes)
        if not left and (record.only_compiled or not called_less(functions)):
            return False
    return one.after < was - was * percent / 100


def _has_gone(function: Difference, others: Sequence[Difference], fall: float) -> bool:
    """Return whether a function that is no longer reached took its operations with it.

    If fewer than these are missing, its code moved into another function that is still compiled,
    unless it was the outermost one, which holds what the others hold.
    """
    if function.after:
        return False
    held = function.before or 0
    around = any(one.after and (one.before or 0) > held for one in others)
    return fall >= held or not around


def _missed(one: Difference, changes: Sequence[Difference], now: int) -> float | None:
    """Return the expected number of operations, without those of graphs recompiled before.

    Such a graph holds the same as the first one. There are ``now`` graphs; if they grew, return
    None.
    """
    grown = sum(item.growth for item in _counts(changes, "graph") if item.layer == one.layer)
    if grown > 0:
        return None
    gone = max((-item.growth for item in _counts(changes, "recompile")), default=0)
    graphs = now - grown
    return (one.before or 0) * max(graphs - max(gone, 0), 1) / max(graphs, 1)


def _is_traced(one: Difference, changes: Sequence[Difference]) -> bool:
    """Return whether a layer lost what Dynamo captures less, whose functions are known."""
    layer = one.layer
    while layer is not None and layer != PLACES_LAYER:
        layer = DESCRIPTIONS[layer].above
    return layer is not None and any(
        item.total and item.kind == "ops" and item.layer == layer and item.growth < 0
        for item in changes
    )


_RUNS: Final = ("execution", "read", "work")


def _runs_less(one: Difference, changes: Sequence[Difference]) -> bool:
    """Return whether it is about runs of which Dynamo counts fewer, too."""
    return one.kind in _RUNS and any(
        item.total and item.growth < 0 and (item.kind, item.layer) == (one.kind, PLACES_LAYER)
        for item in changes
    )


def _is_called_less(one: Difference, changes: Sequence[Difference]) -> bool:
    """Return whether these are fewer runs of Dynamo's graphs, of which only recompiles are gone."""
    if (one.kind, one.layer) != ("execution", PLACES_LAYER) or not one.total or one.growth >= 0:
        return False
    graphs = sum(each.growth for each in _counts(changes, "graph") if each.layer == one.layer)
    recompiles = sum(each.growth for each in _counts(changes, "recompile"))
    others = (*_counts(changes, "break"), *_counts(changes, "eager"))
    return graphs == recompiles < 0 and not others


def _follows(one: Difference, changes: Sequence[Difference]) -> bool:
    """Return whether runs or reads differ because of other graphs or breaks, which are reported."""
    graphs = [item for item in _counts(changes, "graph") if item.layer == one.layer]
    if any(not item.after for item in graphs):
        return True
    more = (*graphs, *_counts(changes, "break"), *_counts(changes, "eager"))
    return one.growth > 0 and any(item.growth > 0 for item in more)


def _counts(changes: Sequence[Difference], kind: str) -> Iterator[Difference]:
    """Return the totals of one kind that are compared with a baseline."""
    return (one for one in changes if one.total and one.kind == kind and one.by == "baseline")


def verdict_of(test: TestReport) -> Verdict:
    """Return the verdict on a test of a report, with its changes.

    A report of an earlier version has no changes: they are computed here, without captured
    operations, since it does not say whether those can be compared.
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
