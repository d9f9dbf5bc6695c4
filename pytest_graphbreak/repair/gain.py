"""What one run gained over another: the rule of what is better, for ``fix`` and for ``prove``.

There are two questions. ``no_gain`` asks whether a patch is worth having: something has to be
better, and nothing worse. ``worse`` asks only whether something is worse: ``Search`` also keeps a
patch that is no gain yet, where its break is gone and another one is uncovered.

A run is a ``Trial``, with the ``Record`` of what it compiled. With some patches a program compiles
more with each of its calls, until torch's recompile limit, and the few graphs of a short run are no
gain. So ``measure`` makes the calls of the program again, four times (``Trial.rounds``).

The items of a record that count here: a ``Break``; an ``Eager``, code that left the compiler and
runs as Python; and a ``Graph``, whose ``cause`` says why it is there. Where torch_xla cuts a graph
of Dynamo into pieces, its own graphs have the cause ``split``: that is repaired like a break.
"""

from __future__ import annotations

from pytest_graphbreak.model.items import Break, Eager, Graph
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.repair.trial import Trial
from pytest_graphbreak.text.numbers import plural


def no_gain(before: Trial, after: Trial, *, all_compiled: bool = False) -> str:
    """Return why a run is not better than another, or an empty text: the first rule that says so.

    Better is one with fewer graphs, with code compiled that had left the compiler, or with fewer
    breaks or recompiles, if nothing else is worse and what it compiles does not grow. With
    ``all_compiled`` it is known that the patch took no code out of the compiler.
    """
    old, new = before.record, after.record
    if why := _worse(old, new, all_compiled=all_compiled) or _growth(before, after):
        return why
    counts = (graph_count, eager_count, lambda record: len(fixable(record)), recompile_count)
    if any(count(new) < count(old) for count in counts):
        return ""
    breaks = f"{len(fixable(old))} -> {len(fixable(new))}"
    counts_now = f"{graph_count(old)} -> {graph_count(new)}, {breaks}"
    return f"neither graphs nor breaks got fewer ({counts_now})"


def worse(before: Trial, after: Trial) -> str:
    """Return what is worse in a run than in another, or an empty text."""
    if why := _worse(before.record, after.record):
        return why
    grew_before = _growth(before, before)
    return "" if grew_before else _growth(before, after)


def _growth(before: Trial, after: Trial) -> str:
    """Return how ``after`` goes on to compile when its calls are made again, or an empty text."""
    if not after.rounds.graphs:
        return ""
    four = "if the program runs four times as long"
    if limit := after.rounds.limit:
        return f"{plural(limit, 'function')} at the recompile limit {four}"
    if after.rounds.eager > before.rounds.eager:
        return f"code leaves the compiler {four}"
    if again := after.rounds.graphs[-1]:
        return f"still {plural(again, 'new graph')} at the end {four}"
    return ""


def _worse(before: Record, after: Record, *, all_compiled: bool = False) -> str:
    """Return what is worse in a record than in another, or an empty text."""
    old, new = graph_count(before), graph_count(after)
    lost_before, lost = _left_dynamo(before), _left_dynamo(after)
    if not new and old:
        return "nothing is compiled"
    if len(lost) > len(lost_before):
        item = next((item for item in lost if item not in lost_before), lost[0])
        return f"{item.where.function} leaves the compiler: {item.reason}"
    # Where far fewer operations are in graphs, code has left the compiler for its break to be gone.
    for count in () if all_compiled else (_ops, _ops_of_models):
        # A third fewer may come of the patch itself: torch.where changes how many there are.
        if 3 * count(after) < 2 * count(before):
            return f"less is compiled ({count(before)} -> {count(after)} operations)"
    came_back = len(lost) < len(lost_before) and _ops(after) > _ops(before)
    for layer in dict.fromkeys((*before.layers, *after.layers)):
        was, is_now = before.graphs.get(layer, 0), after.graphs.get(layer, 0)
        # Code that came back into the compiler makes new graphs of Dynamo, but a device below it
        # may not get more.
        if is_now > was and not (came_back and layer == "dynamo"):
            return f"the {layer} graphs got more ({was} -> {is_now})"
    return ""


def graph_count(record: Record) -> int:
    """Return the number of graphs of the deepest layer that made any."""
    return record.graphs.get(record.headline, 0)


def fixable(record: Record) -> list[Break]:
    """Return what can be fixed one by one: the breaks, and the cuts of xla graphs by place."""
    cuts: dict[tuple[str, ...], Break] = {}
    for graph in record.graph_list:
        if (graph.layer, graph.cause) == ("xla", "split"):
            cut = cuts.get(graph.where.key)
            count = cut.count + 1 if cut is not None else 1
            cuts[graph.where.key] = Break("xla", graph.reason, graph.where, count=count)
    return [*record.breaks, *cuts.values()]


def has_recompiles(record: Record) -> bool:
    """Return whether code was compiled again, in a program that Dynamo compiles.

    In any other program no remedy reaches what is compiled again.
    """
    return bool(record.graphs.get("dynamo")) and bool(recompile_count(record))


def recompile_count(record: Record) -> int:
    """Return how often code was compiled again. Not all of these have a graph, or a guard."""
    repeats = [graph for graph in record.graph_list if graph.cause == "recompile"]
    return max(len(record.recompile_list), len(repeats))


def eager_count(record: Record) -> int:
    """Return at how many places code left the compiler."""
    return len(_left_dynamo(record))


def _left_dynamo(record: Record) -> tuple[Eager, ...]:
    """Return the code that left the compiler. An ``Eager`` of inductor is within a graph."""
    return tuple(item for item in record.eager if item.layer == "dynamo")


def _ops(record: Record) -> int:
    """Return the operations in graphs of Dynamo; what was compiled again counts once."""
    return sum(graph.ops or 0 for graph in _compiled_once(record))


def _ops_of_models(record: Record) -> int:
    """Return the operations without those of torch's own code alone, such as an optimizer's."""
    return sum(graph.ops or 0 for graph in _compiled_once(record) if graph.functions)


def _compiled_once(record: Record) -> list[Graph]:
    """Return the graphs of Dynamo without those that compile the same code again."""
    graphs = [graph for graph in record.graph_list if graph.layer == "dynamo"]
    return [graph for graph in graphs if graph.cause != "recompile"]
