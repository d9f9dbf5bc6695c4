"""What ``compare`` finds out: the data, for reports and for other commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pytest_graphbreak.model.layers import LAYERS
from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.runs.union import SeenTest

How = Literal["new", "gone", "more", "fewer", "reworded", "reason"]
"""How a cause moved. ``reworded``: another torch says it in other words. ``reason``: the same torch
gives another reason at the same place."""

Where = Literal["before", "after"]

Alike = Literal["file", "function", "place", "line"]
"""What differs between two places that may be the same."""


def together(graphs: Iterable[Mapping[str, int]]) -> Counter[str]:
    """Graphs by layer, added up."""
    total = Counter[str]()
    for one in graphs:
        total.update(one)
    return total


@dataclass(frozen=True, slots=True)
class ComparedSide:
    """One of the two sets of runs.

    ``versions`` are those of torch, torch_xla, Python and the platform, ``packages`` those of the
    packages that own places; machines that differ are reported in full. ``problems``
    say what is missing of it.
    """

    reports: tuple[str, ...]
    profiles: tuple[str, ...]
    versions: Mapping[str, str]
    packages: Mapping[str, str]
    tests: int
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Package:
    """The package that owns a place; a version is None on a side of which no report has it."""

    name: str
    before: str | None
    after: str | None

    @property
    def moved(self) -> bool:
        return self.before is not None and self.after is not None and self.before != self.after


@dataclass(frozen=True, slots=True)
class Effect:
    """What a change does to one test: how often its place counts, and graphs by layer.

    ``graphs`` has what it made more or less, no zeros. ``times`` are breaks, frames or recompiles
    at the place, or graphs of this cause, before and after.
    """

    nodeid: str
    profile: str
    times: tuple[int, int]
    graphs: Mapping[str, int]


@dataclass(slots=True)
class CauseChange:
    """One cause at one place, moved in one way, with all tests in which it did.

    ``where``, ``reason`` and ``id`` are those of now, and those of before where it is gone;
    ``was_reason`` and ``was_id`` those of before where it was there, too. ``with_it`` is what came
    or went with a break: frames that are skipped for it, what is compiled again or whole again.
    """

    kind: str
    layer: str
    how: How
    where: Frame
    reason: str = ""
    id: str | None = None
    was_reason: str = ""
    was_id: str | None = None
    stack: tuple[Frame, ...] = ()
    package: Package | None = None
    effects: list[Effect] = field(default_factory=list)
    with_it: dict[tuple[object, ...], CauseChange] = field(default_factory=dict)

    @property
    def graphs(self) -> dict[str, int]:
        """Graphs more or less in all tests, by layer, with what came or went with it; no zeros."""
        changes = (self, *self.with_it.values())
        total = together(effect.graphs for change in changes for effect in change.effects)
        return {layer: total[layer] for layer in LAYERS if total[layer]}

    @property
    def growth(self) -> int:
        """Graphs more or less on the layer where that is most."""
        return max(self.graphs.values(), key=abs, default=0)


@dataclass(frozen=True, slots=True)
class PossibleMove:
    """A place that is gone and a new one that may be the same; ``why`` says what suggests it."""

    before: CauseChange
    after: CauseChange
    why: Alike


@dataclass(frozen=True, slots=True)
class Pair:
    """A test that both sides measured. Counts are before and after, by layer that both observed.

    ``profile`` is how it is filed, ``cpu`` or ``xla-cpu -> cpu`` where the two sides differ.
    ``moved`` says whether anything of it changed, even if only a reason.
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
        """Graphs more or less on the layer where that is most."""
        return max((after - before for before, after in self.graphs.values()), key=abs, default=0)

    @property
    def emptied(self) -> tuple[str, ...]:
        """The layers that had graphs and have none."""
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

    ``maybe`` is a test of the same name in another file, which the other side has alone.
    """

    nodeid: str
    profile: str
    side: Where
    maybe: str | None = None


@dataclass(frozen=True, slots=True)
class Unequal:
    """A test that both sides have and that cannot be compared."""

    nodeid: str
    profile: str
    why: str


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A setting of torch that tests began with and that differs on the other side.

    ``before`` and ``after`` are its values in words, None where it was the default.
    """

    name: str
    before: str | None
    after: str | None


@dataclass(slots=True)
class Comparison:
    """All that differs of two sets of reports: either side may have any number of them.

    - ``changes``: each a cause at one place (``kind``: ``break``, ``eager``, ``recompile``, or the
      cause of a graph), ``how`` it moved (``new``, ``gone``, ``more``, ``fewer``; ``reworded`` and
      ``reason`` where only the words did), and its ``effects``: the tests, with the graphs that it
      made more or less in each;
    - ``moved``: pairs of a change that is gone and one that is new which may be one and the same;
    - ``pairs``: the tests that both sides measured, those that moved first, each with its counts;
    - ``once``: the tests that only one side has;
    - ``unequal``: those that cannot be compared, and why;
    - ``layers``: those that only one side observed in some tests and that had graphs there;
    - ``settings``: those of torch that tests began with and that differ, each with its tests;
    - ``before`` and ``after``: what either side is: profiles, versions, what is missing of it.
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

    def of(self, *hows: How) -> list[CauseChange]:
        return [change for change in self.changes if change.how in hows]
