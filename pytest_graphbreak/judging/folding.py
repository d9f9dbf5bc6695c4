"""What follows from what in one record: the break or recompile behind a graph, a break or a place.

``Folding`` says which break a thing is a consequence of, to report one cause once, and
``series_of`` which recompiles are one, with those that they cause in turn. ``cause_keys``
attributes each graph of a test to one cause at one place: one that follows from a break is counted
for the break, a device graph for the cause of its FX graph. Data in, data out.

A function is named here by its file and name, whatever the line (``_function_of``). Both
``Folding`` and ``_BreaksAndRecompiles`` find breaks by functions, for different questions.
``Folding`` asks which *change* to report a thing below, of the new breaks only, and takes a break
for the consequence of another one. ``_BreaksAndRecompiles`` counts the graphs of *all* breaks of a
record, each break by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from pytest_graphbreak.judging import guards
from pytest_graphbreak.layers.dynamo.messages import LIMIT
from pytest_graphbreak.model.items import Break, Eager, Frame, Graph, GraphName, Item, Recompile
from pytest_graphbreak.model.layers import DESCRIPTIONS, EXPECTED, LAYERS
from pytest_graphbreak.model.record import Record

Function = tuple[str, ...]
"""A function as file and name."""


def _function_of(where: Frame) -> Function:
    return where.key[:2]


class Folding:
    """The breaks of a record by the functions they run through, to report one cause once.

    If a frame breaks, the frames around it are skipped, compiled separately, recompiled, or break
    as well although they were traced before; on a device, the values between them become graphs.
    All of this disappears with the break, and needs no advice of its own.

    ``breaks`` are in the order in which they happened; ``record`` has the graphs of Dynamo. Each
    method returns the break that something is a consequence of, or None.
    """

    def __init__(self, record: Record, breaks: Sequence[Break]) -> None:
        self._leading: list[Break] = []
        """The breaks that follow from no other."""
        self._stacks: list[set[Function]] = []
        """The functions that each of these, or a follower of it, runs through."""
        self._followers: dict[int, Break] = {}
        """The leading break of each other one, by the ``id`` of that."""
        for graph_break in breaks:
            leading = (earlier for earlier in self._leading if _break_follows(graph_break, earlier))
            head = next(leading, None)
            if head is None:
                self._leading.append(graph_break)
                self._stacks.append(_functions(graph_break))
            else:
                self._followers[id(graph_break)] = head
                self._stacks[self._leading.index(head)] |= _functions(graph_break)
        self._causes = {graph.name: graph.cause for graph in record.graphs_of("dynamo")}
        entries = (name for name, cause in self._causes.items() if cause == "entry")
        self._entries = {_frame_number(name) for name in entries}

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
            here = _function_of(graph.where)
            breaks = (leading for leading in self._leading if leading.stack)
            called = (leading for leading in breaks if _function_of(leading.stack[0]) == here)
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
        return next((head for stack, head in pairs if _function_of(where) in stack), None)


def _functions(graph_break: Break) -> set[Function]:
    return set(map(_function_of, (*graph_break.stack, graph_break.where)))


def _break_follows(graph_break: Break, earlier: Break) -> bool:
    """Return whether two breaks are of one disabled function, or one caused the other."""
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
        _function_of(frame) == _function_of(here) and 0 < here.line < frame.line
        for frame in earlier.stack[:-1]
    )


def _frame_number(graph: str) -> str:
    """Return Dynamo's number of a frame: ``2`` of ``2/1``, with a round of the test (``#2``)."""
    number, _, compilation = graph.partition("/")
    return f"{number}#{compilation.partition('#')[2]}"


# Recompiles that are one thing: a loop that compiles at each step.


class RecompileSeries(Struct):
    """Recompiles of one function that fail one guard, with whatever values.

    ``followers`` are the recompiles of functions that it calls and that were therefore recompiled
    with it, by function.
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
        calls = ((recompile.layer, *_function_of(frame)) for frame in recompile.stack)
        caller = next((latest[call] for call in calls if call in latest), None)
        function = (recompile.layer, *_function_of(recompile.where))
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
    """Return whether a value that a break left in the caller is behind it, or the same change."""
    if guards.LEFT.search(recompile.reason):
        return True
    match, of_caller = guards.TENSOR.match(recompile.reason), guards.TENSOR.match(caller.reason)
    return match is not None and of_caller is not None and match["what"] == of_caller["what"]


# The cause that each graph is counted for.

Key = tuple[str, ...]
"""The identity of a cause: kind, layer and place."""


def kind_of(item: Item) -> str:
    """Return ``break``, ``eager``, ``recompile``, or the cause of a graph."""
    return item.cause if isinstance(item, Graph) else type(item).__name__.lower()


def key_of(item: Item) -> Key:
    """Return the key of the cause that an item is by itself."""
    kind = kind_of(item)
    # The first line of an intended graph is no identity, since it is often edited.
    place = _function_of(item.where) if kind in EXPECTED else item.where.key
    return (kind, item.layer, *place)


def cause_keys(record: Record) -> dict[GraphName, Key]:
    """Return the key of the cause of each graph of a record."""
    happened = _BreaksAndRecompiles(record)
    names: dict[GraphName, Key] = {}
    # From the user's code down, since a device graph may have the cause of its FX graph.
    for graph in sorted(record.graph_list, key=lambda graph: LAYERS.index(graph.layer)):
        key = happened.cause_of(graph) or _source(graph, names) or key_of(graph)
        names[graph.layer, graph.name] = key
    return names


class _BreaksAndRecompiles:
    """The breaks and recompiles of a record, by what graphs know of them."""

    def __init__(self, record: Record) -> None:
        self._frames: dict[Key, Key] = {}
        """The key of the first break that runs through each line of code."""
        self._functions: dict[Function, Key] = {}
        """The same of each function, for graphs of the function that begin at another line."""
        self._reasons: dict[str, Key] = {}
        """The same by the reason of the break, for graphs that know no more of it."""
        self._recompiles = {name: key_of(item) for name, item in record.recompile_of.items()}
        for item in record.breaks:
            key = key_of(item)
            self._reasons.setdefault(item.reason, key)
            for frame in (item.where, *reversed(item.stack)):
                self._frames.setdefault(frame.key, key)
                self._functions.setdefault(_function_of(frame), key)

    def cause_of(self, graph: Graph) -> Key | None:
        """Return the break or the recompile that made a graph."""
        cause = graph.meaning
        key = None
        if cause.explained_by == "break":
            # A frame that called the one that broke continues after its call; functions that it
            # called are compiled from their first line.
            key = self._frames.get(graph.where.key)
            key = key or self._functions.get(_function_of(graph.where))
            key = key or self._reasons.get(graph.reason)
        if key is None and cause.kind == "repeat":
            key = self._recompiles.get((graph.layer, graph.name))
        return key


def _source(graph: Graph, names: dict[GraphName, Key]) -> Key | None:
    """Return the cause of the graph in a layer above from which this one was lowered.

    ``sources`` name graphs of any layer above, so the nearest layer that has the name is taken. A
    graph that is expected there is no cause: this one is then counted for itself.
    """
    cause, has_above = graph.meaning, DESCRIPTIONS[graph.layer].above is not None
    if not (has_above and (cause.is_expected or cause.falls_with == "sources")):
        return None
    above = LAYERS[: LAYERS.index(graph.layer)]
    for name in graph.sources:
        keys = (names.get((upper, name)) for upper in reversed(above))
        key = next((key for key in keys if key is not None), None)
        if key is not None and key[0] not in EXPECTED:
            return key
    return None
