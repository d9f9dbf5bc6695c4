"""The changes that an update of baselines made, or would make, and their texts.

``plan`` makes a ``Change`` of each entry that was measured or removed, ``update`` a ``FileChange``
of each file, and ``Changes`` of all. The summary of a run shows them, and ``graphbreak accept``
before it asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Literal

from msgspec import Struct

from pytest_graphbreak.model.budget import Values
from pytest_graphbreak.model.layers import LAYERS

Kind = Literal["added", "changed", "unchanged", "ungated", "pruned", "kept"]
"""The kinds of changes.

``kept`` comes only from ``record``, which removes no entry: a test that got parameters keeps its
entry without a case, and no case is written beside it.
"""


class Change(Struct, frozen=True):
    """The change of one entry.

    ``profile`` is the profile of the values. ``old`` are the values that were expected before
    (None: none), ``new`` the values that are expected now (None: pruned).
    """

    kind: Kind
    nodeid: str
    path: Path
    profile: str
    old: Values | None
    new: Values | None

    def __str__(self) -> str:
        if self.kind not in ("added", "changed"):
            return self.nodeid
        return f"{self.nodeid}  {self.words}  ({self.profile})"

    @property
    def words(self) -> str:
        """The counts that changed, by layer; else what changed without them."""
        moved = ", ".join((*self._counts, *_place_counts(self.old, self.new or Values())))
        return moved or self._without_counts

    @property
    def _counts(self) -> Iterator[str]:
        old, new = self.old or Values(), self.new or Values()
        for what, was, now in (
            ("", old.graphs, new.graphs),
            (" recompiles", old.recompiles, new.recompiles),
            (" operations", *_both(old, new, "ops", {*old.ops} & {*new.ops})),
            *_both_runs(old, new),
        ):
            for layer in LAYERS:
                before, after = was.get(layer, 0), now.get(layer, 0)
                if before != after:
                    yield f"{layer}{what} {_step(self.old, before, after)}"

    @property
    def _without_counts(self) -> str:
        if self.old == self.new:
            return "measured by another version"
        return "no graphs" if self.old is None else "other places or reasons"


class FileChange(Struct, frozen=True):
    """A file before and after, and its entries; the text is None if there is no file."""

    path: Path
    old: str | None
    new: str | None
    entries: tuple[Change, ...] = ()


class Changes(Struct, frozen=True):
    """The changes that an update made, or would make; ``planned`` are all files it concerns."""

    planned: tuple[FileChange, ...] = ()

    @property
    def items(self) -> tuple[Change, ...]:
        """All entries."""
        return tuple(chain.from_iterable(file.entries for file in self.planned))

    @property
    def files(self) -> tuple[FileChange, ...]:
        """The files that differ."""
        return tuple(file for file in self.planned if file.new != file.old)

    def of_kind(self, *kinds: Kind) -> list[Change]:
        return [item for item in self.items if item.kind in kinds]


def _both(
    old: Values, new: Values, key: str, layers: Iterable[str]
) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Return counts before and after, for these layers."""
    was, now = getattr(old, key), getattr(new, key)
    before = {layer: was[layer] for layer in layers if layer in was}
    return before, {layer: now[layer] for layer in layers if layer in now}


def _both_runs(
    old: Values, new: Values
) -> Iterator[tuple[str, Mapping[str, int], Mapping[str, int]]]:
    """Yield executions and reads before and after, for layers where both are known.

    Only layers with the same number of graphs are included: with more or fewer graphs the runs
    change as well, and the number of graphs is told already.
    """
    layers = [
        layer
        for layer in LAYERS
        if old.knows_runs(layer) and new.knows_runs(layer)
        if old.graphs.get(layer) == new.graphs.get(layer)
    ]
    for key in ("executions", "reads"):
        yield f" {key}", *_both(old, new, key, layers)


def _step(before: Values | None, was: int, now: int) -> str:
    """Return a count before and after; for a new entry, the count alone."""
    return f"{now}" if before is None else f"{was} -> {now}"


def _place_counts(before: Values | None, new: Values) -> Iterator[str]:
    """Yield, in words, which numbers of places changed."""
    old = before or Values()
    for what, was, now in (("breaks", old.breaks, new.breaks), ("eager", old.eager, new.eager)):
        if len(was) != len(now):
            yield f"{what} {_step(before, len(was), len(now))}"
        elif was != now:
            yield f"other {what}"
