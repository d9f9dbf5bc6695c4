"""Record and budget in, verdict out. Pure: no files, no pytest, no torch.

The verdicts and their order are those of README.md, "What the gate says"; the first that
holds is the verdict.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as Map
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from pytest_graphbreak.baseline.model import Expected
from pytest_graphbreak.config.ini import OPS
from pytest_graphbreak.judging.causes import Moved, compare, place_of
from pytest_graphbreak.model.budget import BaselinePlace, Cap
from pytest_graphbreak.model.layers import JUDGED, made_by
from pytest_graphbreak.model.record import Break, Eager, Record
from pytest_graphbreak.model.versions import UNKNOWN, Versions, same_minor

FAILING: Final = ("error", "over", "lost", "new")
"""Verdicts that fail a gated test."""

STRICT: Final = ("improved", "changed")
"""Verdicts that fail a gated test under ``graph_budget_strict``."""

NONE: Final[Map[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Step:
    """One count that is not what it was: ``what`` is graphs, recompiles, ops, breaks or eager.

    ``layer`` is None for ``breaks`` and ``eager``, which are places of all
    layers. ``by`` says whose number ``allowed`` is: ``baseline``, or that of ``Cap.by``.
    """

    what: str
    layer: str | None
    allowed: int
    measured: int
    by: str

    @property
    def growth(self) -> int:
        return self.measured - self.allowed


@dataclass(frozen=True, slots=True)
class Held:
    """How many captured operations a function holds: ``name`` is ``file::qualified.name``."""

    name: str
    was: int
    measured: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the comparison of a record with its budget says.

    ``over``, ``lost`` and ``fewer`` hold every count that moved that way, also
    where another verdict came first. ``added``, ``gone`` and ``matched`` are the
    breaks by place, against the baseline; ``left`` is code that left the
    compiler and had not before. ``ops`` are the captured operations that are
    others now, either way, where they can be compared. ``causes`` are the graphs of
    each layer against those of the baseline, where it knows their causes, and
    ``functions`` those that hold fewer operations, where operations are lost; ``recaused``
    says whether causes that can be compared are others. ``unseen`` are layers
    that a budget speaks of and that were not there; ``foreign`` is the profile
    whose plain values were used because this one was never recorded.
    """

    name: str
    over: tuple[Step, ...] = ()
    lost: tuple[Step, ...] = ()
    fewer: tuple[Step, ...] = ()
    added: tuple[Break, ...] = ()
    gone: tuple[BaselinePlace, ...] = ()
    matched: tuple[Break, ...] = ()
    left: tuple[Eager, ...] = ()
    returned: tuple[BaselinePlace, ...] = ()
    reworded: tuple[tuple[BaselinePlace, Break], ...] = ()
    ops: tuple[Step, ...] = ()
    causes: tuple[Moved, ...] = ()
    functions: tuple[Held, ...] = ()
    recaused: bool = False
    unseen: tuple[str, ...] = ()
    foreign: str | None = None

    @property
    def fails(self) -> bool:
        return self.name in FAILING

    @property
    def shrunk(self) -> bool:
        """Whether all that is lost are captured operations; an update writes that."""
        return self.name == "lost" and all(step.what == "ops" for step in self.lost)

    @property
    def emptied(self) -> bool:
        """Whether a layer that had graphs has none; an update never writes that."""
        return any(step.what == "graphs" and not step.measured for step in self.lost)

    @property
    def moved(self) -> bool:
        """Whether a place, reason, cause or what is captured is another one than was recorded."""
        places = self.added or self.gone or self.left or self.returned or self.reworded
        return bool(places or self.ops or self.recaused)


def judge(
    record: Record,
    expected: Expected | None = None,
    cap: Cap | None = None,
    *,
    gate: bool = False,
    versions: Versions = UNKNOWN,
    packages: Map[str, str] = NONE,
    ops: float | None = OPS,
) -> Verdict:
    """The verdict on one record.

    ``expected`` is what the baseline says for this profile, or None; ``cap`` is
    the marker's. With neither, the verdict is ``new`` under the gate when
    anything was attempted, and ``none`` otherwise. ``versions`` are those of the compilers
    that made the record (``{"torch": "2.9.1"}``): reasons are compared only with a
    baseline of the same minor version, since ids change their meaning. Captured
    operations may fall by ``ops`` percent (None: they are not compared), and are
    compared only with the same versions of the ``packages`` that own the code, too.
    """
    if record.errors:
        return Verdict("error")
    if expected is None and cap is None:
        return Verdict("new" if gate and record.judged else "none", added=record.breaks)
    base = Verdict("ok")
    if expected is not None:
        base = _against_baseline(record, expected, versions)
        if ops is not None:
            steps = list(_ops(record, expected, versions, packages))
            base = _with_ops(base, record, expected, steps, ops)
    capped = Verdict("ok") if cap is None else _against_cap(record, cap)
    over = (*base.over, *capped.over)
    lost = (*base.lost, *capped.lost)
    if over:
        name = "over"
    elif lost:
        name = "lost"
    elif base.fewer:
        name = "improved"
    else:
        name = "changed" if base.moved else "ok"
    return replace(
        base,
        name=name,
        over=over,
        lost=lost,
        added=base.added if expected is not None else record.breaks,
        left=base.left if expected is not None else capped.left,
        unseen=tuple(dict.fromkeys((*base.unseen, *capped.unseen))),
        foreign=expected.profile if expected is not None and not expected.recorded else None,
    )


def _against_cap(record: Record, cap: Cap) -> Verdict:
    over: list[Step] = []
    for layer in record.layers:
        judged = layer in JUDGED or layer in cap.layers
        for what, counts, limit in (
            ("graphs", record.graphs, cap.graphs(layer)),
            ("recompiles", record.recompiles, cap.recompiles if judged else None),
        ):
            measured = counts.get(layer, 0)
            if limit is not None and measured > limit:
                over.append(Step(what, layer, limit, measured, cap.by))
    if cap.breaks is not None and len(record.breaks) > cap.breaks:
        over.append(Step("breaks", None, cap.breaks, len(record.breaks), cap.by))
    lost: tuple[Step, ...] = ()
    # A cap of 0 asks for no graph at all, so none is no loss there.
    limits = {layer: limit for layer in record.layers if (limit := cap.graphs(layer))}
    if record.attempted and not any(record.graphs.values()) and limits:
        layer = next(iter(limits))
        lost = (Step("graphs", layer, limits[layer], 0, cap.by),)
    # But code that the compiler tried and gave up on is: nothing was to be compiled anew.
    left = tuple(item for item in record.eager if cap.graphs(item.layer) == 0)
    if left:
        lost = (*lost, Step("eager", None, 0, len(left), cap.by))
    unseen = tuple(layer for layer in cap.layers if layer not in record.layers)
    return Verdict("ok", over=tuple(over), lost=lost, left=left, unseen=unseen)


def _against_baseline(record: Record, expected: Expected, versions: Versions) -> Verdict:
    places = _compare_places(record, expected, versions)
    over: list[Step] = []
    lost: list[Step] = []
    fewer: list[Step] = []
    for step in _steps(record, expected):
        if step.growth > 0:
            (lost if step.what == "eager" else over).append(step)
        elif step.growth < 0:
            emptied = step.what == "graphs" and step.measured == 0
            (lost if emptied else fewer).append(step)
    layers = expected.judged(record.layers)
    causes = [moved for layer in layers if (moved := compare(record, expected, layer))]
    return replace(
        places,
        over=tuple(over),
        lost=tuple(lost),
        fewer=tuple(fewer),
        causes=tuple(causes),
        # Another version may cut the same code at other lines.
        recaused=any(
            moved.differs
            and same_minor(made_by(moved.layer, versions), expected.causes_with.get(moved.layer))
            for moved in causes
        ),
    )


def _steps(record: Record, expected: Expected) -> Iterator[Step]:
    """Every count that the baseline speaks of and that is another one now."""
    values = expected.values
    judged = expected.judged(record.layers)
    for what, was, measured in (
        ("graphs", values.graphs, record.graphs),
        ("recompiles", values.recompiles, record.recompiles),
    ):
        for layer in judged:
            if was.get(layer, 0) != measured.get(layer, 0):
                yield Step(what, layer, was.get(layer, 0), measured.get(layer, 0), "baseline")
    for what, places, found in (
        ("breaks", values.breaks, record.breaks),
        ("eager", values.eager, record.eager),
    ):
        allowed = sum(item.layer in judged for item in places)
        seen = sum(item.layer in judged for item in found)
        if allowed != seen:
            yield Step(what, None, allowed, seen, "baseline")


def _ops(
    record: Record, expected: Expected, versions: Versions, packages: Map[str, str]
) -> Iterator[Step]:
    """The captured operations that are others now, by layer, where both are known."""
    measured = record.ops
    for layer in expected.judged(record.layers):
        was = expected.values.ops.get(layer)
        comparable = was and layer in measured and expected.counts_ops(layer, versions, packages)
        if was and comparable and was != measured[layer]:
            yield Step("ops", layer, was, measured[layer], "baseline")


def _with_ops(
    base: Verdict, record: Record, expected: Expected, steps: list[Step], percent: float
) -> Verdict:
    """The comparison with captured operations: lost, where they fell and graphs did not grow."""
    moved = (*base.over, *base.fewer)
    graphs = {step.layer: step.growth for step in moved if step.what == "graphs"}
    recompiles = max((-step.growth for step in base.fewer if step.what == "recompiles"), default=0)
    lost = []
    for step in steps:
        grown = graphs.get(step.layer, 0)
        was = step.allowed
        if grown < 0:
            # A graph compiled again holds what the first one held: without it nothing is lost.
            before = record.graphs[step.layer or ""] - grown
            was = was * (before - min(recompiles, -grown)) // before
        if grown <= 0 and step.measured < was - was * percent / 100:
            lost.append(step)
    emptied = any(step.what == "graphs" for step in base.lost)
    held = _held(record, expected) if lost or emptied else ()
    return replace(base, lost=(*base.lost, *lost), ops=tuple(steps), functions=held)


def _held(record: Record, expected: Expected) -> tuple[Held, ...]:
    """The functions that hold fewer operations now, those that hold none first."""
    measured = record.functions
    found = [
        Held(name, was, measured.get(name, 0))
        for name, was in expected.values.functions.items()
        if measured.get(name, 0) < was
    ]
    return tuple(sorted(found, key=lambda item: (item.measured > 0, -item.was)))


def _key(item: Break | Eager) -> tuple[str, str, str]:
    """The identity of what broke, as ``BaselinePlace.key`` has it."""
    return (item.layer, *place_of(item.where))


def _compare_places(record: Record, expected: Expected, versions: Versions) -> Verdict:
    judged = expected.judged(record.layers)
    recorded = {item.key: item for item in expected.values.breaks if item.layer in judged}
    measured = {_key(item): item for item in record.breaks if item.layer in judged}
    eager = {item.key: item for item in expected.values.eager if item.layer in judged}
    eager_measured = {_key(item): item for item in record.eager if item.layer in judged}
    others = (item for item in record.breaks if item.layer not in judged)
    comparable = {
        layer
        for layer in judged
        if same_minor(made_by(layer, versions), made_by(layer, expected.breaks_with))
    }
    return Verdict(
        "ok",
        added=tuple(item for key, item in measured.items() if key not in recorded),
        matched=(*(item for key, item in measured.items() if key in recorded), *others),
        gone=tuple(item for key, item in recorded.items() if key not in measured),
        left=tuple(item for key, item in eager_measured.items() if key not in eager),
        returned=tuple(item for key, item in eager.items() if key not in eager_measured),
        reworded=tuple(
            (recorded[key], item)
            for key, item in measured.items()
            if item.layer in comparable and key in recorded and _reworded(recorded[key], item)
        ),
        unseen=expected.unseen(record.layers),
    )


def _reworded(known: BaselinePlace, item: Break) -> bool:
    # An entry written by hand may leave reason and id out: nothing to compare then.
    return (known.id is not None and known.id != item.id) or (
        known.reason is not None and known.reason != item.reason
    )
