"""Measures what one run gained over another."""

from __future__ import annotations

from msgspec import structs

from pytest_graphbreak import advice
from pytest_graphbreak.model.record import Break, Eager, Graph, Record


def graphs(record: Record) -> int:
    """Return the number of graphs of the deepest layer that made any."""
    return record.graphs.get(record.headline, 0)


def places(record: Record) -> list[Break]:
    """Return what can be fixed one by one: the breaks, and the cuts of xla graphs by place."""
    cuts: dict[tuple[str, ...], Break] = {}
    for graph in record.graph_list:
        if (graph.layer, graph.cause) == ("xla", "split"):
            cut = cuts.get(graph.where.key)
            count = cut.count + 1 if cut is not None else 1
            cuts[graph.where.key] = Break("xla", f"split: {graph.reason}", graph.where, count=count)
    return [*record.breaks, *cuts.values()]


def better(before: Record, after: Record, *, may_leave: bool = False) -> bool:
    """Return whether there are fewer graphs, with no code lost, or code that is compiled again.

    Such code was compiled until the recompile limit, in however many graphs of Dynamo; a device
    below it must not make more: a loop as an operator may be cut into one for each round. If
    nothing is compiled, that is no gain, and a patch that takes code out of the compiler may take a
    third at most.
    """
    if not graphs(after) or eager(after) > eager(before):
        return False
    if may_leave and any(3 * ops(after) < 2 * ops(before) for ops in (_ops, _ops_of_models)):
        return False
    back = bool(_eager_places(before) - _eager_places(after)) and _limit_places(
        after
    ) <= _limit_places(before)
    if back and _ops(after) > _ops(before):
        return before.headline == "dynamo" or graphs(after) <= graphs(before)
    return not _dearer(before, after) and graphs(after) < graphs(before)


def cleaner(before: Record, after: Record, *, may_leave: bool = False) -> bool:
    """Return whether a record has fewer breaks in as many graphs, with no code lost.

    A break before the first operation makes no graph of its own, but counts for ``fullgraph``.
    Without a break or code that left the compiler nothing is lost, unless a patch ``may_leave`` it:
    there are fewer operators where one of them is a loop. Nor is it lost if Dynamo makes fewer
    graphs and the device below it as many.
    """
    unbroken = bool(graphs(after)) and not (places(after) or eager(after))
    fewer = any(after.graphs.get(x, 0) < before.graphs.get(x, 0) for x in _upper(before))
    no_loss = _ops(after) >= _ops(before) or (not may_leave and (unbroken or fewer))
    as_many = graphs(after) == graphs(before) and no_loss and not _dearer(before, after)
    return as_many and eager(after) <= eager(before) and len(places(after)) < len(places(before))


def no_worse(before: Record, after: Record) -> bool:
    """Return whether a record has no more graphs, and no more code that left the compiler.

    Where nothing was compiled no graph is too many: what a function calls is compiled by itself
    until the function can be.
    """
    return eager(after) <= eager(before) and graphs(after) <= (graphs(before) or graphs(after))


def no_gain(before: Record, after: Record) -> str:
    """Return by which rule a run is no gain over another."""
    if not graphs(after):
        return "nothing is compiled with it either"
    old, new = graphs(before), graphs(after)
    if eager(after) > eager(before):
        return f"more functions leave the compiler ({eager(before)} -> {eager(after)})"
    if new > old:
        return f"the graphs got more ({old} -> {new})"
    if dearer := [x for x in _upper(before) if after.graphs.get(x, 0) > before.graphs.get(x, 0)]:
        layer = dearer[0]
        return f"{layer} makes more graphs ({before.graphs.get(layer, 0)} -> {after.graphs[layer]})"
    if new == old and len(places(after)) >= len(places(before)):
        return f"neither graphs nor breaks got fewer ({old} -> {new}, {_breaks(before, after)})"
    ops = f"{_ops(before)} -> {_ops(after)}"
    return f"the graphs are fewer because operations are no longer compiled ({ops} of them)"


def _breaks(before: Record, after: Record) -> str:
    return f"{len(places(before))} -> {len(places(after))}"


def has_recompiles(record: Record) -> bool:
    """Return whether code was compiled again, by Dynamo or below it.

    What is compiled again without Dynamo is not meant: no remedy reaches it.
    """
    if not record.graphs.get("dynamo"):
        return False
    again = any(graph.cause == "recompile" for graph in record.graph_list)
    return bool(record.recompile_list) or again


def eager(record: Record) -> int:
    return len(_left_dynamo(record))


def _left_dynamo(record: Record) -> tuple[Eager, ...]:
    """Return code that is not compiled at all; a fallback of inductor is in a graph."""
    return tuple(item for item in record.eager if item.layer == "dynamo")


def _upper(record: Record) -> tuple[str, ...]:
    """Return all layers but the deepest, which must not pay for its gain."""
    return tuple(layer for layer in record.layers if layer != record.headline)


def _dearer(before: Record, after: Record) -> bool:
    """Return whether a layer above the deepest makes more graphs."""
    return any(after.graphs.get(x, 0) > before.graphs.get(x, 0) for x in _upper(before))


def _eager_places(record: Record) -> set[tuple[str, str]]:
    """Return where code left the compiler, whichever copy of a file it is in."""
    left = _left_dynamo(record)
    return {(item.where.function, " ".join(item.where.code.split())) for item in left}


def _limit_places(record: Record) -> set[tuple[str, str]]:
    """Return the places among these that were compiled again until the recompile limit."""
    limited = [item for item in _left_dynamo(record) if advice.name(item) == "limit"]
    return _eager_places(structs.replace(record, eager=tuple(limited)))


def _ops(record: Record) -> int:
    """Return the operations in graphs of Dynamo; what was compiled again counts once."""
    return sum(graph.ops or 0 for graph in _compiled_once(record))


def _ops_of_models(record: Record) -> int:
    """Return the operations without those of torch's own code alone, such as an optimizer's."""
    return sum(graph.ops or 0 for graph in _compiled_once(record) if graph.functions)


def _compiled_once(record: Record) -> list[Graph]:
    graphs = [graph for graph in record.graph_list if graph.layer == "dynamo"]
    return [graph for graph in graphs if graph.cause != "recompile"]
