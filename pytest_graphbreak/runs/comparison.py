"""The result of ``compare``: the data for reports and for other commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from msgspec import to_builtins

from pytest_graphbreak.judging.attribution import How, PlacedCause, Step
from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.model.layers import LAYERS
from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.runs.union import SeenTest

Where = Literal["before", "after"]

Alike = Literal["file", "function", "place", "line"]
"""The part in which two places differ that may be the same."""


@dataclass(frozen=True, slots=True)
class ComparedSide:
    """One of the two sets of runs.

    ``versions`` are those of torch, torch_xla, Python and the platform, ``packages`` those of the
    packages that own places; if machines differ, all versions are listed. ``problems`` say what is
    missing.
    """

    reports: tuple[str, ...]
    profiles: tuple[str, ...]
    versions: Mapping[str, str]
    packages: Mapping[str, str]
    tests: int
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Package:
    """The package that owns a place; its version is None on a side where no report has it."""

    name: str
    before: str | None
    after: str | None

    @property
    def moved(self) -> bool:
        return self.before is not None and self.after is not None and self.before != self.after


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of a change on one test: how often its place counts, and graphs by layer.

    ``graphs`` is the difference in graphs, without zeros. ``times`` counts breaks, frames or
    recompiles at the place, or graphs with this cause, before and after.
    """

    nodeid: str
    profile: str
    times: tuple[int, int]
    graphs: Mapping[str, int]


@dataclass(slots=True)
class CauseChange:
    """A cause at one place that changed in one way, with all tests in which it did.

    ``step`` is that of the first of these tests. ``with_it`` is what came or went with a break:
    frames that are skipped because of it, and code that is compiled again or as a whole.
    """

    step: Step
    package: Package | None = None
    effects: list[Effect] = field(default_factory=list)
    with_it: dict[tuple[object, ...], CauseChange] = field(default_factory=dict)

    @property
    def how(self) -> How:
        return self.step.how

    @property
    def cause(self) -> PlacedCause:
        """The cause as it is now, or as it was if it is gone."""
        return self.step.cause

    @property
    def kind(self) -> str:
        return self.cause.kind

    @property
    def where(self) -> Frame:
        return self.cause.where

    @property
    def graphs(self) -> dict[str, int]:
        """The nonzero differences in graphs over all tests, by layer, including ``with_it``."""
        changes = (self, *self.with_it.values())
        total = Counter[str]()
        for effect in (effect for change in changes for effect in change.effects):
            total.update(effect.graphs)
        return {layer: total[layer] for layer in LAYERS if total[layer]}

    @property
    def growth(self) -> int:
        """The difference in graphs on the layer where it is largest."""
        return max(self.graphs.values(), key=abs, default=0)


@dataclass(frozen=True, slots=True)
class PossibleMove:
    """A place that is gone and a new one that may be the same; ``why`` says what suggests it."""

    before: CauseChange
    after: CauseChange
    why: Alike


@dataclass(frozen=True, slots=True)
class Pair:
    """A test that both sides measured. Counts are (before, after) by layer that both observed.

    ``profile`` is the one it is listed under, ``cpu`` or ``xla-cpu -> cpu`` if the sides differ.
    ``moved`` says whether anything changed, even if only a reason.
    """

    nodeid: str
    profile: str
    before: SeenTest
    after: SeenTest
    layers: tuple[str, ...]
    graphs: Mapping[str, tuple[int, int]]
    recompiles: Mapping[str, tuple[int, int]]
    ops: Mapping[str, tuple[int, int]]
    executions: Mapping[str, tuple[int, int]]
    reads: Mapping[str, tuple[int, int]]
    changes: tuple[CauseChange, ...] = ()

    @property
    def growth(self) -> int:
        """The difference in graphs on the layer where it is largest."""
        return max((after - before for before, after in self.graphs.values()), key=abs, default=0)

    @property
    def emptied(self) -> tuple[str, ...]:
        """The layers that had graphs and have none now."""
        return tuple(
            layer for layer, (before, after) in self.graphs.items() if before and not after
        )

    @property
    def moved(self) -> bool:
        counts = (self.graphs, self.recompiles, self.ops, self.executions, self.reads)
        steps = (step for count in counts for step in count.values())
        return bool(self.changes) or any(before != after for before, after in steps)


@dataclass(frozen=True, slots=True)
class Once:
    """A test that one side has and the other does not.

    ``maybe`` is a test of the same name in another file that only the other side has.
    """

    nodeid: str
    profile: str
    side: Where
    maybe: str | None = None


@dataclass(frozen=True, slots=True)
class Unequal:
    """A test that both sides have but that cannot be compared."""

    nodeid: str
    profile: str
    why: str


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A setting of torch at the start of tests that differs on the other side.

    ``before`` and ``after`` are its values as text, None for the default.
    """

    name: str
    before: str | None
    after: str | None


@dataclass(slots=True)
class Comparison:
    """The differences between two sets of reports, each with any number of reports.

    - ``changes``: each a cause at one place (``kind``: ``break``, ``eager``, ``recompile``, or the
      cause of a graph), ``how`` it changed (``new``, ``gone``, ``more``, ``fewer``; ``reworded``
      and ``reason`` if only the words did), and its ``effects``: the tests, with the difference
      in graphs that it made in each;
    - ``moved``: pairs of a change that is gone and a new one that may be the same;
    - ``pairs``: the tests that both sides measured, with their counts, those that changed first;
    - ``once``: the tests that only one side has;
    - ``unequal``: the tests that cannot be compared, and why;
    - ``layers``: the layers that only one side observed in some tests and that had graphs there;
    - ``settings``: the settings of torch at the start of tests that differ, each with its tests;
    - ``before`` and ``after``: the two sides: profiles, versions, and what is missing.
    """

    before: ComparedSide
    after: ComparedSide
    changes: list[CauseChange] = field(default_factory=list)
    moved: list[PossibleMove] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    once: list[Once] = field(default_factory=list)
    unequal: list[Unequal] = field(default_factory=list)
    settings: dict[SettingChange, list[str]] = field(default_factory=dict)
    layers: dict[tuple[str, Where], list[str]] = field(default_factory=dict)

    @property
    def differs(self) -> bool:
        """Whether anything other than wording differs."""
        return bool(
            self.moved
            or self.once
            or self.unequal
            or self.layers
            or any(change.how != "reworded" for change in self.changes)
            or any(pair.moved and not pair.changes for pair in self.pairs)
        )


# A comparison as JSON (``comparison.json``): all keys are always present, with builtin types.

VERSION: Final = 1


def document(found: Comparison) -> Plain:
    """Return the whole comparison as plain data, with only those tests that changed."""
    return {
        "version": VERSION,
        "before": to_builtins(found.before),
        "after": to_builtins(found.after),
        "differs": found.differs,
        "compared": len(found.pairs),
        "changes": [_change(change) for change in found.changes],
        "moved": [
            {"why": pair.why, "before": _change(pair.before), "after": _change(pair.after)}
            for pair in found.moved
        ],
        "tests": [_pair(pair) for pair in found.pairs if pair.moved],
        "once": to_builtins(found.once),
        "layers": [
            {"layer": layer, "side": side, "tests": list(tests)}
            for (layer, side), tests in found.layers.items()
        ],
        "settings": [
            {**to_builtins(one), "tests": list(tests)} for one, tests in found.settings.items()
        ],
        "not_compared": to_builtins(found.unequal),
    }


def _change(change: CauseChange) -> Plain:
    """Return a change as plain data; ``was`` is its former id and reason, or None if it is new."""
    before, after = change.step.before, change.step.after
    return {
        "how": change.how,
        "kind": change.kind,
        "layer": change.cause.layer,
        "id": change.cause.id,
        "reason": change.cause.reason,
        "was": {"id": before.id, "reason": before.reason} if before and after else None,
        "where": _frame(change.where),
        "stack": [_frame(frame) for frame in change.cause.stack],
        "package": to_builtins(change.package),
        "graphs": change.graphs,
        "tests": to_builtins(change.effects),
        "with_it": [_change(item) for item in change.with_it.values()],
    }


def _frame(frame: Frame) -> Plain:
    return frame.to_dict() if frame.file else {}


def _pair(pair: Pair) -> Plain:
    """Return the counts before and after, by layer."""
    names = ("nodeid", "profile", "layers", "graphs", "recompiles", "ops", "executions", "reads")
    return {name: to_builtins(getattr(pair, name)) for name in names}
