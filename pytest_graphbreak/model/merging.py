"""One record of several: of what a layer saw, of all layers, of all processes."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from pytest_graphbreak.model.differences import LISTS
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


# What child processes did, taken apart and named: records in, records out.


def since(after: Record, before: Record | None) -> Record:
    """What was added to a record that only grows."""
    if before is None:
        return after
    return replace(
        after,
        graphs=_less(after.graphs, before.graphs),
        recompiles=_less(after.recompiles, before.recompiles),
        frames=Frames(
            max(0, after.frames.attempted - before.frames.attempted),
            max(0, after.frames.compiled - before.frames.compiled),
        ),
        breaks=_later(after.breaks, before.breaks),
        eager=_later(after.eager, before.eager),
        recompile_list=after.recompile_list[len(before.recompile_list) :],
        graph_list=_later_graphs(after, before),
        executions=_grown(after.executions, before.executions),
        reads=_grown(after.reads, before.reads),
        execution_list=_later_runs(after.execution_list, before.execution_list),
        read_list=_later_runs(after.read_list, before.read_list),
        errors=tuple(error for error in after.errors if error not in before.errors),
    )


def _less(after: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    left = {layer: count - before.get(layer, 0) for layer, count in after.items()}
    return {layer: count for layer, count in left.items() if count > 0}


def _later_graphs(after: Record, before: Record) -> tuple[Graph, ...]:
    found = []
    for layer in LAYERS:
        known = sum(graph.layer == layer for graph in before.graph_list)
        found += [graph for graph in after.graph_list if graph.layer == layer][known:]
    return tuple(found)


def _later(after: Sequence[Placed], before: Sequence[Placed]) -> tuple[Placed, ...]:
    known = {item.key: item.count for item in before}
    left = [replace(item, count=item.count - known.get(item.key, 0)) for item in after]
    return tuple(item for item in left if item.count > 0)


def _grown(after: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    """The growth of counts of which zero says that there was something to count."""
    return {layer: max(0, count - before.get(layer, 0)) for layer, count in after.items()}


def _later_runs(after: Sequence[LineRuns], before: Sequence[LineRuns]) -> tuple[LineRuns, ...]:
    known = {item.key: item.ops for item in before}
    return tuple(
        item if item.ops is None else replace(item, ops=item.ops - (known.get(item.key) or 0))
        for item in _later(after, before)
    )


def of_process(record: Record, process: str) -> Record:
    """The record of a child, marked with its name.

    What kept an idle child from being watched is a note: its test lost nothing.
    """
    errors = tuple(f"in the process {process}: {error}" for error in record.errors)
    notes = tuple(f"in the process {process}: {note}" for note in (record.note,) if note)
    if errors and not record.active:
        notes, errors = (*notes, *errors), ()
    return replace(
        record,
        errors=errors,
        notes=notes,
        **{
            name: tuple(replace(item, process=process) for item in getattr(record, name))
            for name in LISTS.values()
        },
    )


def numbered(names: Iterable[str], records: Sequence[Record]) -> list[str]:
    """A name for each process: those of one name are numbered, by what they did.

    Not by their ids or by which was first, which change from run to run.
    """
    groups: dict[str, list[int]] = defaultdict(list)
    for position, name in enumerate(names):
        groups[name].append(position)
    found = [""] * len(records)
    for name, positions in groups.items():
        positions.sort(key=lambda at: json.dumps(records[at].to_dict(), sort_keys=True))
        for number, position in enumerate(positions, 1):
            found[position] = name if number == 1 else f"{name} {number}"
    return found
