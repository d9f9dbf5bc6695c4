"""What one run gained over another: the rule of what is better, for ``fix`` and for ``prove``.

There are two questions. ``no_gain`` asks whether a patch is worth having: something has to be
better, and nothing worse. ``worse`` asks only whether something is worse: ``Search`` also keeps a
patch that is no gain yet, where its break is gone and another one is uncovered.

What a program compiles grows with each call of some patches, until the recompile limit: such a run
is no gain, however few graphs it makes. So its calls are made again (``Trial.rounds``).
"""

from __future__ import annotations

from pytest_graphbreak.model.items import Break, Eager, Graph
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.repair.trial import Trial
from pytest_graphbreak.text.numbers import plural


def no_gain(before: Trial, after: Trial, *, all_compiled: bool = False) -> str:
    """Return why a run is not better than another, or an empty text: the first rule that says so.

    Better is one with fewer graphs, with code compiled that had left the compiler, or with fewer
    breaks or recompiles, if nothing else is worse (``worse``) and it is steady.
    """
    old, new = before.record, after.record
    if why := _worse(old, new, all_compiled=all_compiled) or _unsteady(before, after):
        return why
    counts = (graph_count, eager_count, lambda record: len(fixable(record)), recompile_count)
    if any(count(new) < count(old) for count in counts):
        return ""
    breaks = f"{len(fixable(old))} -> {len(fixable(new))}"
    counts_now = f"{graph_count(old)} -> {graph_count(new)}, {breaks}"
    return f"neither graphs nor breaks got fewer ({counts_now})"


def worse(before: Trial, after: Trial) -> str:
    """Return what is worse in a run than in another, or an empty text."""
    was_steady = not _unsteady(before, before)  # else being unsteady is nothing new
    return _worse(before.record, after.record) or (_unsteady(before, after) if was_steady else "")


def _unsteady(before: Trial, after: Trial) -> str:
    """Return how a program goes on when its calls are made again, or an empty text."""
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
    """Return what is worse in a record; where ``all_compiled``, no code can have been taken out."""
    old, new = graph_count(before), graph_count(after)
    lost_before, lost = _left_dynamo(before), _left_dynamo(after)
    if not new and old:
        return "nothing is compiled"
    if len(lost) > len(lost_before):
        item = next((item for item in lost if item not in lost_before), lost[0])
        return f"{item.where.function} leaves the compiler: {item.reason}"
    # Of fewer operations some may have been taken out of the compiler, to have no break there.
    for count in () if all_compiled else (_ops, _ops_of_models):
        # By more than a third: a patch itself, such as torch.where, changes how many there are.
        if 3 * count(after) < 2 * count(before):
            return f"less is compiled ({count(before)} -> {count(after)} operations)"
    came_back = len(lost) < len(lost_before) and _ops(after) > _ops(before)
    for layer in dict.fromkeys((*before.layers, *after.layers)):
        was, is_now = before.graphs.get(layer, 0), after.graphs.get(layer, 0)
        # Code that left the compiler made none; a device below must not pay for it.
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
    """Return whether code was compiled again, by Dynamo or below it.

    What is compiled again without Dynamo is not meant: no remedy reaches it.
    """
    return bool(record.graphs.get("dynamo")) and bool(recompile_count(record))


def recompile_count(record: Record) -> int:
    repeats = [graph for graph in record.graph_list if graph.cause == "recompile"]
    return max(len(record.recompile_list), len(repeats))


def eager_count(record: Record) -> int:
    return len(_left_dynamo(record))


def _left_dynamo(record: Record) -> tuple[Eager, ...]:
    """Return code that is not compiled at all; a fallback of inductor is in a graph."""
    return tuple(item for item in record.eager if item.layer == "dynamo")


def _ops(record: Record) -> int:
    """Return the operations in graphs of Dynamo; what was compiled again counts once."""
    return sum(graph.ops or 0 for graph in _compiled_once(record))


def _ops_of_models(record: Record) -> int:
    """Return the operations without those of torch's own code alone, such as an optimizer's."""
    return sum(graph.ops or 0 for graph in _compiled_once(record) if graph.functions)


def _compiled_once(record: Record) -> list[Graph]:
    graphs = [graph for graph in record.graph_list if graph.layer == "dynamo"]
    return [graph for graph in graphs if graph.cause != "recompile"]
