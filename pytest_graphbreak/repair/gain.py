"""What a run gained over another: graphs, breaks, code that left the compiler."""

from __future__ import annotations

from msgspec import structs

from pytest_graphbreak.model.record import Break, Record


def graphs(record: Record) -> int:
    """Graphs of the deepest layer that made any."""
    return record.graphs.get(record.headline, 0)


def places(record: Record) -> list[Break]:
    """What can be fixed one by one: the breaks, and the cuts of xla graphs by their place."""
    found = list(record.breaks)
    cuts: dict[tuple[str, str, str], Break] = {}
    for graph in record.graph_list:
        if (graph.layer, graph.cause) != ("xla", "split"):
            continue
        key = (graph.where.file, graph.where.function, graph.where.code)
        old = cuts.get(key)
        if old is not None:
            cuts[key] = structs.replace(old, count=old.count + 1)
        else:
            cuts[key] = Break("xla", f"split: {graph.reason}", graph.where)
    return [*found, *cuts.values()]


def better(before: Record, after: Record, *, may_leave: bool = False) -> bool:
    """Whether a record is a gain: fewer graphs and no code lost, or code won back.

    Code that had left the compiler is won back if more is compiled than before,
    in however many graphs. Where nothing is compiled nothing is gained.
    """
    if not graphs(after) or eager(after) > eager(before):
        return False
    if may_leave and 2 * _ops(after) < _ops(before):
        return False
    if _left(before) - _left(after) and _ops(after) > _ops(before):
        return True
    dearer = any(after.graphs.get(one, 0) > before.graphs.get(one, 0) for one in _lower(before))
    return not dearer and graphs(after) < graphs(before)


def cleaner(before: Record, after: Record) -> bool:
    """Whether a record has fewer breaks in as many graphs, with no code lost.

    A break before the first operation makes no graph of its own, and is one for ``fullgraph``.
    """
    as_many = graphs(after) == graphs(before) and _ops(after) >= _ops(before)
    return as_many and eager(after) <= eager(before) and len(places(after)) < len(places(before))


def _lower(record: Record) -> tuple[str, ...]:
    """All layers but the deepest, which may not pay for what it gains."""
    return tuple(layer for layer in record.layers if layer != record.headline)


def recompiled(record: Record) -> bool:
    """Whether code was compiled again, by Dynamo or below it."""
    return bool(record.recompile_list) or any(
        graph.cause == "recompile" for graph in record.graph_list
    )


def eager(record: Record) -> int:
    return len(record.eager)


def _left(record: Record) -> set[tuple[str, str]]:
    """Where code left the compiler, whichever copy of a file it is in."""
    return {(item.where.function, " ".join(item.where.code.split())) for item in record.eager}


def _ops(record: Record) -> int:
    return sum(graph.ops or 0 for graph in record.graph_list if graph.layer == "dynamo")
