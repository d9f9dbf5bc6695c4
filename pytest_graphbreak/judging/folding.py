"""What follows from what in one record, so that a report names one cause once.

``Folding`` says which break a break, a recompile, a graph or an eager place is a consequence of.
``series_of`` says the same of recompiles: which are one thing that happened again and again, and
which follow from the recompile of a caller. ``sides`` makes a ``Folding`` of the new breaks, and
the functions of ``difference`` ask both where to put what they add. Data in, data out.

Stacks run from the outermost call inwards. ``Frame.function_key`` names a function, whatever the
line. For which cause each graph is counted is another question (``attribution``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from pytest_graphbreak.judging import guards
from pytest_graphbreak.layers.dynamo.messages import LIMIT
from pytest_graphbreak.model.items import Break, Eager, Frame, Graph, Recompile
from pytest_graphbreak.model.record import Record


class Folding:
    """The breaks of a record by the functions they run through.

    If a frame breaks, the frames around it are skipped, compiled separately, recompiled, or break
    as well although they were traced before; on a device, the values between them become graphs.
    All of this disappears with the break, and needs no advice of its own.

    ``breaks`` are in the order in which they happened; ``record`` has the graphs of Dynamo. Each
    method ``parent_of_...`` returns the break that something is a consequence of, or None.
    """

    def __init__(self, record: Record, breaks: Sequence[Break]) -> None:
        self._leading: list[Break] = []
        """The breaks that follow from no other."""
        self._stacks: list[set[tuple[str, str]]] = []
        """Of each leading break, the functions that it or one of its followers runs through."""
        self._followers: dict[int, Break] = {}
        """By the ``id`` of a break that follows from another one: the leading break."""
        for graph_break in breaks:
            heads = (earlier for earlier in self._leading if _break_follows(graph_break, earlier))
            head = next(heads, None)
            if head is None:
                self._leading.append(graph_break)
                self._stacks.append(_functions(graph_break))
            else:
                self._followers[id(graph_break)] = head
                self._stacks[self._leading.index(head)] |= _functions(graph_break)
        self._causes = {graph.name: graph.cause for graph in record.graphs_of("dynamo")}
        entries = (name for name, cause in self._causes.items() if cause == "entry")
        self._entries = {_frame_number(name) for name in entries}
        """The frames that were called, and not made by a break."""

    def parent_of_break(self, graph_break: Break) -> Break | None:
        """Return the earlier break without which this code would be traced as before."""
        return self._followers.get(id(graph_break))

    def parent_of_eager(self, eager: Eager) -> Break | None:
        """Return the break that runs through the skipped frame, or through its caller."""
        if LIMIT.search(eager.reason):  # recompiles reach a limit, and no break does
            return None
        called = self.break_through(eager.caller) if eager.caller.file else None
        return self.break_through(eager.where) or called

    def parent_of_recompile(self, recompile: Recompile) -> Break | None:
        """Return the break that runs through the function; entries have a reason of their own."""
        is_independent = (
            recompile.layer != "dynamo" or _frame_number(recompile.graph) in self._entries
        )
        return None if is_independent else self.break_through(recompile.where)

    def parent_of_graph(self, graph: Graph) -> Break | None:
        """Return the break, by the rule of the graph's cause (``GraphCause.falls_with``).

        By ``call``, the function that makes the graph called code that broke: it is the outermost
        frame of the break, and its ``sync`` computes what the eager code there left pending. By
        ``sources``, the break cut the sources off: since then they are graphs of their own.
        """
        rule = graph.meaning.falls_with
        if rule == "call":
            here = graph.where.function_key
            breaks = (leading for leading in self._leading if leading.stack)
            called = (leading for leading in breaks if leading.stack[0].function_key == here)
            return next(called, None)
        if rule == "sources":
            # A source that is an entry is compiled with or without the break. One that is not
            # known may be an entry.
            is_entry = any(
                name not in self._causes or _frame_number(name) in self._entries
                for name in graph.sources
            )
            return None if is_entry or not graph.sources else self.break_through(graph.where)
        return None

    def break_through(self, where: Frame) -> Break | None:
        """Return the first break that runs through the function of a place."""
        pairs = zip(self._stacks, self._leading, strict=True)
        return next((head for stack, head in pairs if where.function_key in stack), None)


def _functions(graph_break: Break) -> set[tuple[str, str]]:
    return {frame.function_key for frame in (*graph_break.stack, graph_break.where)}


def _break_follows(graph_break: Break, earlier: Break) -> bool:
    """Return whether a break follows from an earlier one.

    It does if both are calls of one function that is disabled (``torch.compiler.disable``), or if
    the earlier one caused it (``_traced_before``).
    """
    same = bool(graph_break.disabled.file) and graph_break.disabled.key == earlier.disabled.key
    return same or _traced_before(graph_break, earlier)


def _traced_before(graph_break: Break, earlier: Break) -> bool:
    """Return whether a break is in code that was traced without it until ``earlier`` appeared.

    This is so if a caller of the earlier break breaks on a line above the call: had it been able to
    break there by itself, it would have come first::

        def train(model):
            log()  # breaks second: until then it was in the graph
            model.step()  # what it calls breaks first
    """
    here = graph_break.where
    return any(
        frame.function_key == here.function_key and 0 < here.line < frame.line
        for frame in earlier.stack[:-1]
    )


def _frame_number(graph: str) -> str:
    """Return Dynamo's number of a frame: ``2#`` of ``2/1``, ``2#3`` of ``2/1#3``.

    The number after ``#`` counts how often compile ids began again, since Dynamo was reset.
    """
    number, _, compilation = graph.partition("/")
    return f"{number}#{compilation.partition('#')[2]}"


# Recompiles that are one thing: a loop that compiles at each step.


class RecompileSeries(Struct):
    """Recompiles of one function that fail one guard, with whatever values.

    ``followers`` are the recompiles of functions that were recompiled because this one calls them,
    by layer, file and function.
    """

    items: list[Recompile] = []
    followers: dict[tuple[str, ...], list[Recompile]] = {}


def series_of(recompiles: Iterable[Recompile]) -> list[RecompileSeries]:
    """Return the recompiles by function and guard, in order of first appearance.

    A function that is recompiled inside a call of a recompiled one is a follower of that one. A
    follower of a follower is one of the first caller: if ``a`` calls ``b``, which calls ``c``, and
    a new shape recompiles all three, the series of ``a`` has the followers ``b`` and ``c``.
    """
    # The recompile that a call of each function belongs to; for a follower, that of its caller.
    latest: dict[tuple[str, ...], Recompile] = {}
    groups: dict[tuple[str, ...], RecompileSeries] = {}
    of_item: dict[int, RecompileSeries] = {}
    for recompile in recompiles:
        calls = ((recompile.layer, *frame.function_key) for frame in recompile.stack)
        caller = next((latest[call] for call in calls if call in latest), None)
        function = (recompile.layer, *recompile.where.function_key)
        if caller is not None and _is_recompiled_with(recompile, caller):
            latest[function] = caller
            of_item[id(caller)].followers.setdefault(function, []).append(recompile)
            continue
        latest[function] = recompile
        key = (recompile.layer, *recompile.where.key, guards.kind(recompile.reason))
        of_item[id(recompile)] = group = groups.setdefault(key, RecompileSeries())
        group.items.append(recompile)
    return [*groups.values()]


def _is_recompiled_with(recompile: Recompile, caller: Recompile) -> bool:
    """Return whether a function is recompiled for the same reason as its caller.

    Its guard is on a value that a break left in the caller (``guards.LEFT``), or both guards are on
    the same property of a tensor: ``tensor 'x' size mismatch`` and ``tensor 'y' size mismatch``.
    """
    if guards.LEFT.search(recompile.reason):
        return True
    match, of_caller = guards.TENSOR.match(recompile.reason), guards.TENSOR.match(caller.reason)
    return match is not None and of_caller is not None and match["what"] == of_caller["what"]
