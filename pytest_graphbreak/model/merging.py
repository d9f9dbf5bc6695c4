"""Merging of records: of one layer, of all layers, and of all processes.

An observer makes a record of its layer (``record_of``), and ``measuring.measure`` one of all layers
(``merge``) when the window of a test closes. A child process writes its record again after each
compilation, so this record grows over several tests: ``added_since`` takes what came in one window,
``of_process`` marks it with the name of the process (``number_names``), and ``merge`` adds it.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from pytest_graphbreak.model.differences import LISTS
from pytest_graphbreak.model.items import Break, BreakReason, Eager, Graph, LineRuns, Recompile
from pytest_graphbreak.model.layers import LAYERS
from pytest_graphbreak.model.record import Frames, Record

_NO_FRAMES: Final = Frames()


def record_of(
    layer: str, *, graphs: int = 0, recompiles: int = 0, frames: Frames = _NO_FRAMES, **lists: Any
) -> Record:
    """Return a record of what was observed on one layer, with repeated places merged.

    ``lists`` are fields of a ``Record`` that are lists, such as ``breaks``, each as any iterable.
    """
    fields: dict[str, Any] = {name: tuple(items) for name, items in lists.items()}
    record = Record(
        layers=(layer,),
        graphs={layer: graphs},
        recompiles={layer: recompiles},
        frames=frames,
        **fields,
    )
    return merge([record])


def merge(records: Sequence[Record]) -> Record:
    """Merge records: add up counts, concatenate lists, and keep each place once.

    Settings are left out, since they belong to no single process or layer.
    """

    def gather(name: str) -> Iterator[Any]:
        return (item for record in records for item in getattr(record, name))

    def counts(name: str) -> dict[str, Any]:
        return _sums(getattr(record, name) for record in records)

    layers = {*gather("layers")}
    return Record(
        layers=tuple(layer for layer in LAYERS if layer in layers),
        graphs=_positive(counts("graphs")),
        recompiles=_positive(counts("recompiles")),
        frames=Frames(
            sum(record.frames.attempted for record in records),
            sum(record.frames.compiled for record in records),
        ),
        breaks=once_each_place(gather("breaks")),
        eager=once_each_place(gather("eager")),
        recompile_list=tuple(gather("recompile_list")),
        graph_list=tuple(gather("graph_list")),
        executions=counts("executions"),
        reads=counts("reads"),
        execution_list=once_each_place(gather("execution_list")),
        read_list=once_each_place(gather("read_list")),
        errors=tuple(dict.fromkeys(gather("errors"))),
        notes=tuple(dict.fromkeys(gather("notes"))),
    )


Placed = TypeVar("Placed", Break, Eager, LineRuns)


def once_each_place(items: Iterable[Placed]) -> tuple[Placed, ...]:
    """Return one item for each place, in order of first appearance, with counts added up."""
    seen: dict[tuple[str, ...], Placed] = {}
    for item in items:
        before = seen.get(item.key)
        seen[item.key] = item if before is None else _together(before, item)
    return tuple(seen.values())


def total_seconds(items: Iterable[Break | Eager | Recompile | Graph]) -> float | None:
    """Return the total seconds of items, or None if none is known."""
    seconds = [item.seconds for item in items if item.seconds is not None]
    return sum(seconds) if seconds else None


def round_seconds(seconds: float | None) -> float | None:
    """Return seconds as a record holds them, to the millisecond."""
    return None if seconds is None else round(seconds, 3)


def _together(first: Placed, second: Placed) -> Placed:
    """Merge two items of one place; the process is dropped if they come from different ones."""
    process = first.process if first.process == second.process else None
    both = replace(first, count=first.count + second.count, process=process)
    # Both are of one class; only mypy does not know it of the second.
    if isinstance(both, Break) and isinstance(second, Break):
        both = replace(both, also=_further(both, second))
    if not isinstance(both, LineRuns) and not isinstance(second, LineRuns):
        owner = both.owner if both.owner == second.owner else None
        return replace(both, seconds=total_seconds((first, second)), owner=owner)
    return both


def _further(first: Break, second: Break) -> tuple[BreakReason, ...]:
    """Return the reasons of two breaks at one place that are not the reason of the first."""
    reasons = {reason.reason: reason for reason in (*first.reasons, *second.reasons)}
    return tuple(reasons.values())[1:]  # the first stands in the break itself


def _positive(counts: Mapping[str, int]) -> dict[str, int]:
    return {layer: number for layer, number in counts.items() if number > 0}


def _sums(counts: Iterable[Mapping[str, int | None]]) -> dict[str, Any]:
    """Return the sums by layer; zeros are kept, since they show that a layer was counted.

    A sum is None if one of its numbers is not known.
    """
    total: dict[str, int | None] = {}
    for count in counts:
        for layer, number in count.items():
            before = total.get(layer, 0)
            total[layer] = None if before is None or number is None else before + number
    return {layer: total[layer] for layer in LAYERS if layer in total}


# Separating and naming the records of child processes.


def added_since(after: Record, before: Record | None) -> Record:
    """Return what was added to a growing record since ``before``."""
    if before is None:
        return after
    return replace(
        after,
        graphs=_positive(_grown(after.graphs, before.graphs)),
        recompiles=_positive(_grown(after.recompiles, before.recompiles)),
        frames=Frames(
            max(0, after.frames.attempted - before.frames.attempted),
            max(0, after.frames.compiled - before.frames.compiled),
        ),
        breaks=_later(after.breaks, before.breaks),
        eager=_later(after.eager, before.eager),
        recompile_list=_appended(after.recompile_list, before.recompile_list),
        graph_list=_appended(after.graph_list, before.graph_list),
        executions=_grown(after.executions, before.executions),
        reads=_grown(after.reads, before.reads),
        execution_list=_later(after.execution_list, before.execution_list),
        read_list=_later(after.read_list, before.read_list),
        errors=tuple(error for error in after.errors if error not in before.errors),
    )


Appended = TypeVar("Appended", Recompile, Graph)


def _appended(after: Iterable[Appended], before: Iterable[Appended]) -> tuple[Appended, ...]:
    """Return the new items, by layer.

    Each layer of each process goes on with a list of its own, and a record has these one after the
    other: of ``d1 x1`` before and ``d1 d2 x1 x2`` after, ``d2 x2`` are new.
    """
    earlier = Counter((item.layer, item.process) for item in before)
    appended = []
    for item in after:
        key = (item.layer, item.process)
        if earlier[key]:
            earlier[key] -= 1
        else:
            appended.append(item)
    return tuple(sorted(appended, key=lambda item: LAYERS.index(item.layer)))


def _later(after: Sequence[Placed], before: Sequence[Placed]) -> tuple[Placed, ...]:
    """Return the places that occurred more often, with how often and how long since ``before``."""
    earlier = {item.key: item for item in before}
    later = (_less(item, earlier[item.key]) if item.key in earlier else item for item in after)
    return tuple(item for item in later if item.count > 0)


def _less(item: Placed, earlier: Placed) -> Placed:
    added = replace(item, count=item.count - earlier.count)
    if isinstance(added, LineRuns) or isinstance(earlier, LineRuns):
        return added
    if added.seconds is None or earlier.seconds is None:
        return added
    return replace(added, seconds=round_seconds(added.seconds - earlier.seconds))


def _grown(after: Mapping[str, int | None], before: Mapping[str, int | None]) -> dict[str, Any]:
    """Return the growth of counts; zeros are kept, since they show that a layer was counted.

    It is None where one of the two is not known.
    """
    growth: dict[str, int | None] = {}
    for layer, count in after.items():
        was = before.get(layer, 0)
        growth[layer] = None if count is None or was is None else max(0, count - was)
    return growth


def of_process(record: Record, process: str) -> Record:
    """Return the record of a child process, marked with its name.

    An error in an idle child becomes a note, since the test lost nothing by it.
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


def number_names(names: Iterable[str], records: Sequence[Record]) -> list[str]:
    """Return a name for each process; processes of the same name are numbered by their records.

    Two of the name ``engine`` become ``engine`` and ``engine 2``. Process ids and start order are
    not used, since they change from run to run.
    """
    groups: dict[str, list[int]] = defaultdict(list)
    for position, name in enumerate(names):
        groups[name].append(position)
    unique = [""] * len(records)
    for name, positions in groups.items():
        positions.sort(key=lambda at: json.dumps(records[at].to_dict(), sort_keys=True))
        for number, position in enumerate(positions, 1):
            unique[position] = name if number == 1 else f"{name} {number}"
    return unique
