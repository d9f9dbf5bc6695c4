"""Computes the verdict from record and budget, without files, pytest or torch.

The verdicts and their order are those of docs/explanation/counting.md; the first that applies is
the verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.baseline.model import Expected
from pytest_graphbreak.config.checkout import OPS
from pytest_graphbreak.judging.difference import diff
from pytest_graphbreak.judging.measured import values
from pytest_graphbreak.model.budget import PLACES_LAYER, Cap, writable
from pytest_graphbreak.model.differences import BY_CHANGE, FAILING, STRICT, Difference
from pytest_graphbreak.model.items import Graph
from pytest_graphbreak.model.layers import DESCRIPTIONS
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.model.versions import UNKNOWN_VERSIONS, Versions, made_by, same_minor


class Verdict(Struct, frozen=True):
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
    def improved(self) -> tuple[Difference, ...]:
        return self._totals("improved")

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
        by_baseline = any(step.by == "baseline" for step in self.worse)
        return by_baseline or self.name in ("new", *STRICT)

    @property
    def ops(self) -> tuple[Difference, ...]:
        """The totals of captured operations that differ now, more or fewer, where comparable."""
        return tuple(change for change in self.changes if change.kind == "ops")

    def _totals(self, verdict: str) -> tuple[Difference, ...]:
        return tuple(
            change for change in self.changes if change.total and change.verdict == verdict
        )

    @property
    def empties_a_layer(self) -> bool:
        """Whether a layer that had graphs has none."""
        return any(total.kind == "graph" and not total.after for total in self.lost)

    @property
    def needs_prune(self) -> bool:
        """Whether compiled code is gone, which an update writes only together with a prune.

        Captured operations alone may fall: any update writes that.
        """
        loses_code = any(total.kind != "ops" for total in self.lost)
        return self.empties_a_layer or (self.name == "lost" and loses_code)


def judge(
    record: Record,
    expected: Expected | None = None,
    cap: Cap | None = None,
    *,
    gate: bool = False,
    versions: Versions = UNKNOWN_VERSIONS,
    packages: Mapping[str, str] = {},
    ops: float | None = OPS,
    runs: str = "report",
) -> Verdict:
    """Return the verdict on one record.

    ``expected`` is the baseline for this profile, ``cap`` that of the marker. With neither, it is
    ``new`` under the gate if anything was attempted, else ``none``. Reasons are compared only with
    a baseline of the same minor ``versions`` of the compilers, since ids change their meaning.
    Captured operations may fall by ``ops`` percent (None: by any number), and are compared only
    with the same versions of the ``packages`` that own the code. ``runs`` is of ``checkout.RUNS``.
    """
    if record.errors:
        return Verdict("error")
    if expected is None and cap is None:
        is_new = gate and record.has_judged_layer
        return Verdict("new", diff(None, record)) if is_new else Verdict("none")
    unseen, foreign = _unseen_layers(record, expected, cap), _foreign(expected)
    # Most tests are as recorded, which is seen sooner than that nothing differs.
    if cap is None and expected is not None and expected.values == values(record):
        return Verdict("ok", (), unseen, foreign)
    compared = {"ops": ops is not None, "runs": runs != "off"}
    differences = diff(expected, record, cap, versions=versions, packages=packages, **compared)
    percent, fail_runs = ops or 0, runs == "fail"
    rules = _Rules(differences, record, expected, versions, percent=percent, fail_runs=fail_runs)
    changes = tuple(replace(change, verdict=rules.verdict(change)) for change in differences)
    name = _most_urgent(changes)
    return Verdict(name, changes if name != "ok" else (), unseen, foreign)


def _most_urgent(changes: Sequence[Difference]) -> str:
    """Return the most urgent verdict that one of the changes leads to."""
    verdicts = {change.verdict for change in changes}
    return next((name for name in BY_CHANGE if name in verdicts), "ok")


def _foreign(expected: Expected | None) -> str | None:
    """Return ``Verdict.foreign``."""
    return expected.profile if expected is not None and not expected.recorded else None


def _unseen_layers(record: Record, expected: Expected | None, cap: Cap | None) -> tuple[str, ...]:
    """Return ``Verdict.unseen``: what the baseline and the cap name, each layer once."""
    of_baseline = () if expected is None else expected.unseen_layers(record.layers)
    of_cap = () if cap is None else (layer for layer in cap.layers if layer not in record.layers)
    return tuple(dict.fromkeys((*of_baseline, *of_cap)))


class _Rules(Struct, frozen=True, dict=True):  # the dict is where cached properties are kept
    """The verdict that each of some changes leads to by itself.

    These are the rules of docs/explanation/counting.md, "Verdicts". Operations may fall by
    ``percent``; ``fail_runs`` says whether more runs or reads than in the baseline fail a test.
    """

    changes: Sequence[Difference]
    record: Record
    expected: Expected | None
    versions: Versions
    percent: float
    fail_runs: bool

    def verdict(self, change: Difference) -> str | None:
        """Return the verdict on a change, or None if it leads to none.

        A number that grew is ``over``, and one that fell ``improved``. The exceptions: more places
        that run without the compiler (``eager``) are ``lost`` code, and so is a layer without any
        graph left; operations, runs and reads have rules of their own.
        """
        if not change.total:
            return self._place_verdict(change)
        if change.kind == "ops":
            return "lost" if self._lost_ops(change.layer) else "changed"
        if change.kind in ("execution", "read"):
            return self._runs_verdict(change)
        if change.growth > 0:
            return "lost" if change.kind == "eager" else "over"
        return "lost" if change.kind == "graph" and not change.after else "improved"

    def _lost_ops(self, layer: str | None) -> bool:
        """Return whether code left the compiler, with operations that its graphs lack.

        On Dynamo's layer it did, by however little the number fell, if a recorded entry is gone:
        ``13 -> 12`` with ``Net.forward`` compiled no more. Else the number must have fallen by more
        than ``percent``, and graphs must not have grown: new graphs may hold the rest.
        """
        total = self._totals.get(("ops", layer))
        if total is None or layer is None or total.growth >= 0:
            return False
        if not DESCRIPTIONS[layer].fewer_is_lost:
            return False
        if layer == PLACES_LAYER and any(map(self._is_gone_entry, self.changes)):
            return True
        was = total.before or 0
        fell = total.after < was - was * self.percent / 100
        return fell and self._growth("graph", layer) <= 0

    def _runs_verdict(self, total: Difference) -> str | None:
        """Return the verdict on executions or reads; None where other numbers explain them.

        ``graph_budget_runs`` is about baselines: a limit in code holds in any case.
        """
        layer = total.layer
        if total.growth > 0:
            others = (("graph", layer), ("break", None), ("eager", None))
            if total.by == "baseline" and any(self._growth(*other) > 0 for other in others):
                return None
            return "over" if self.fail_runs or total.by != "baseline" else "changed"
        # Fewer runs are no improvement if the compiled code itself is gone.
        has_lost_all = self._growth("graph", layer) and not self.record.graphs.get(layer or "")
        return None if has_lost_all or self._lost_ops(layer) else "improved"

    def _place_verdict(self, change: Difference) -> str | None:
        """Return the verdict on a place: ``changed``, or ``lost`` for an entry that is gone.

        The number of what happened there is judged as a total. The causes of graphs are compared
        with a baseline of the same compiler only, and graphs that were lowered whole are as many as
        the layer above made.
        """
        if change.before is None:  # it may have been there before
            return None
        if change.kind in ("break", "eager"):
            return "changed"
        if change.kind != "graph":  # of recompiles, runs and reads, only numbers are in a baseline
            return None
        if self._is_gone_entry(change):
            return "lost" if self._growth("ops", change.layer) < 0 else "changed"
        layer = change.layer or ""
        recorded_with = None if self.expected is None else self.expected.causes_with(layer)
        same = same_minor(made_by(layer, self.versions), recorded_with)
        graphs = [item for item in change.items_of(self.record) if isinstance(item, Graph)]
        lowered = bool(graphs) and all(graph.is_lowered for graph in graphs)
        return "changed" if same and not lowered else None

    def _is_gone_entry(self, change: Difference) -> bool:
        """Return whether it is a recorded entry of which no graph is made any more."""
        if change.total or change.kind != "graph" or change.after or self.expected is None:
            return False
        name = writable(change.where.name)
        return name in self.expected.values.entries and name not in self._compiled_names

    @cached_property
    def _compiled_names(self) -> frozenset[str]:
        graphs = self.record.graphs_of(PLACES_LAYER)
        return frozenset(writable(graph.where.name) for graph in graphs)

    @cached_property
    def _totals(self) -> Mapping[tuple[str, str | None], Difference]:
        """The totals that are compared with a baseline, by kind and layer."""
        totals = (item for item in self.changes if item.total and item.by == "baseline")
        return {(total.kind, total.layer): total for total in totals}

    def _growth(self, kind: str, layer: str | None) -> int:
        """Return by how much a total grew; negative if it fell."""
        total = self._totals.get((kind, layer))
        return 0 if total is None else total.growth


def verdict_of(test: TestReport) -> Verdict:
    """Return the verdict on a test of a report, with its changes."""
    return Verdict(test.verdict, test.changes or (), test.unseen, test.foreign)
