"""What child processes did, taken apart and named: records in, records out."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from pytest_graphbreak.model.layers import LAYERS
from pytest_graphbreak.model.merging import Placed
from pytest_graphbreak.model.record import Frames, Graph, LineRuns, Record


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
        breaks=tuple(replace(item, process=process) for item in record.breaks),
        eager=tuple(replace(item, process=process) for item in record.eager),
        recompile_list=tuple(replace(item, process=process) for item in record.recompile_list),
        graph_list=tuple(replace(graph, process=process) for graph in record.graph_list),
        execution_list=tuple(replace(item, process=process) for item in record.execution_list),
        read_list=tuple(replace(item, process=process) for item in record.read_list),
        errors=errors,
        notes=notes,
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
