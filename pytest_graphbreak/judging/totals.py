"""The numbers of a whole test that are others than were recorded, or than a cap allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pytest_graphbreak.baseline.model import Expected
from pytest_graphbreak.model.budget import BaselinePlace, Cap
from pytest_graphbreak.model.differences import Difference
from pytest_graphbreak.model.layers import JUDGED
from pytest_graphbreak.model.record import Break, Eager, Record
from pytest_graphbreak.model.versions import Versions


def totals(before: Expected, after: Record) -> Iterator[Difference]:
    """Every number that the baseline speaks of and that is another one now."""
    values = before.values
    judged = before.judged(after.layers)
    for kind, was, now in (
        ("graph", values.graphs, after.graphs),
        ("recompile", values.recompiles, after.recompiles),
    ):
        for layer in judged:
            if was.get(layer, 0) != now.get(layer, 0):
                yield _total(kind, layer, was.get(layer, 0), now.get(layer, 0))
    places: Sequence[BaselinePlace]
    items: Sequence[Break | Eager]
    for kind, places, items in (
        ("break", values.breaks, after.breaks),
        ("eager", values.eager, after.eager),
    ):
        known = sum(item.layer in judged for item in places)
        seen = sum(item.layer in judged for item in items)
        if known != seen:
            yield _total(kind, None, known, seen)


def captured(
    before: Expected, after: Record, versions: Versions, packages: Mapping[str, str]
) -> Iterator[Difference]:
    """The captured operations that are others now, by layer, where both are known."""
    ops = after.ops
    for layer in before.judged(after.layers):
        recorded = before.values.ops.get(layer)
        comparable = recorded and layer in ops and before.counts_ops(layer, versions, packages)
        if recorded and comparable and recorded != ops[layer]:
            yield _total("ops", layer, recorded, ops[layer])


def limits(cap: Cap, after: Record) -> Iterator[Difference]:
    """Every number that passes the cap, and what it asked for and is not there."""
    for layer in after.layers:
        judged = layer in JUDGED or layer in cap.layers
        for kind, counts, limit in (
            ("graph", after.graphs, cap.graphs(layer)),
            ("recompile", after.recompiles, cap.recompiles if judged else None),
        ):
            if limit is not None and counts.get(layer, 0) > limit:
                yield _total(kind, layer, limit, counts[layer], cap.by)
    if cap.breaks is not None and len(after.breaks) > cap.breaks:
        yield _total("break", None, cap.breaks, len(after.breaks), cap.by)
    # A cap of 0 asks for no graph at all, so none is no loss there.
    limits = {layer: limit for layer in after.layers if (limit := cap.graphs(layer))}
    if after.frames.attempted and not any(after.graphs.values()) and limits:
        layer = next(iter(limits))
        yield _total("graph", layer, limits[layer], 0, cap.by)
    # But code that the compiler tried and gave up on is: nothing was to be compiled anew.
    if left := forbidden(cap, after):
        yield _total("eager", None, 0, len(left), cap.by)


def forbidden(cap: Cap, after: Record) -> tuple[Eager, ...]:
    return tuple(item for item in after.eager if cap.graphs(item.layer) == 0)


def _total(
    kind: str, layer: str | None, before: int, after: int, by: str = "baseline"
) -> Difference:
    return Difference(kind, layer, total=True, before=before, after=after, by=by)
