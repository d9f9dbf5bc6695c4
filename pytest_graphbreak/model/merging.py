"""One record of several: of what a layer saw, of all layers, of all processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from pytest_graphbreak.model.layers import LAYERS
from pytest_graphbreak.model.record import Break, Eager, Frames, Graph, LineRuns, Recompile, Record


def record_of(
    layer: str,
    *,
    graphs: int = 0,
    recompiles: int = 0,
    attempted: int = 0,
    compiled: int = 0,
    breaks: Iterable[Break] = (),
    eager: Iterable[Eager] = (),
    recompile_list: Iterable[Recompile] = (),
    graph_list: Iterable[Graph] = (),
    errors: Iterable[str] = (),
    notes: Iterable[str] = (),
) -> Record:
    """Return what was observed of one layer. A place that is repeated is kept once."""
    return merge(
        [
            Record(
                layers=(layer,),
                graphs={layer: graphs},
                recompiles={layer: recompiles},
                frames=Frames(attempted, compiled),
                breaks=tuple(breaks),
                eager=tuple(eager),
                recompile_list=tuple(recompile_list),
                graph_list=tuple(graph_list),
                errors=tuple(errors),
                notes=tuple(notes),
            )
        ]
    )


def merge(records: Sequence[Record]) -> Record:
    """One record of all: counts added up, lists one after the other, a place once.

    What is said of settings is of no one process or layer, and is left out.
    """
    layers = {layer for record in records for layer in record.layers}
    return Record(
        layers=tuple(layer for layer in LAYERS if layer in layers),
        graphs=_sum(record.graphs for record in records),
        recompiles=_sum(record.recompiles for record in records),
        frames=Frames(
            sum(record.frames.attempted for record in records),
            sum(record.frames.compiled for record in records),
        ),
        breaks=_places(item for record in records for item in record.breaks),
        eager=_places(item for record in records for item in record.eager),
        recompile_list=tuple(item for record in records for item in record.recompile_list),
        graph_list=tuple(item for record in records for item in record.graph_list),
        executions=_known(record.executions for record in records),
        reads=_known(record.reads for record in records),
        execution_list=_places(item for record in records for item in record.execution_list),
        read_list=_places(item for record in records for item in record.read_list),
        errors=_once(error for record in records for error in record.errors),
        notes=_once(note for record in records for note in record.notes),
    )


Placed = TypeVar("Placed", Break, Eager, LineRuns)


def _places(items: Iterable[Placed]) -> tuple[Placed, ...]:
    """One item for each place, in order of first appearance, counts added up."""
    seen: dict[tuple[str, ...], Placed] = {}
    for item in items:
        known = seen.get(item.key)
        seen[item.key] = item if known is None else _together(known, item)
    return tuple(seen.values())


def _together(one: Placed, other: Placed) -> Placed:
    """One place that came up twice. In two processes: then it is that of neither."""
    process = one.process if one.process == other.process else None
    both = replace(one, count=one.count + other.count, process=process)
    if not isinstance(both, LineRuns) and not isinstance(other, LineRuns):
        known = [item.seconds for item in (one, other) if item.seconds is not None]
        owner = both.owner if both.owner == other.owner else None
        return replace(both, seconds=sum(known) if known else None, owner=owner)
    if isinstance(both, LineRuns) and isinstance(other, LineRuns):
        ops = None if both.ops is None or other.ops is None else both.ops + other.ops
        return replace(both, ops=ops)
    return both


def _once(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def _sum(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    return {layer: number for layer, number in _known(counts).items() if number}


def _known(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sums by layer; one that is zero says that it was counted, and is kept."""
    total: dict[str, int] = {}
    for count in counts:
        for layer, number in count.items():
            total[layer] = total.get(layer, 0) + number
    return {layer: total[layer] for layer in LAYERS if layer in total}
