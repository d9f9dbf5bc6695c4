"""The totals of a test that differ from the recorded ones, or exceed a cap.

``difference`` puts them together: what differs from the baseline (``totals``, ``operations``,
``runs_and_reads``), and what exceeds a limit in code (``limits``). Each is a ``Difference`` with
``total=True``; one of breaks or eager places counts all layers and has the layer None. The other
functions are what caps need: which graphs were compiled, which runs are not known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from pytest_graphbreak.baseline.model import Expected
from pytest_graphbreak.model.budget import BaselinePlace, Cap
from pytest_graphbreak.model.differences import Difference
from pytest_graphbreak.model.items import Break, Eager, Graph
from pytest_graphbreak.model.layers import CAUSES, DESCRIPTIONS, JUDGED
from pytest_graphbreak.model.record import Record

_OUTSIDE: Final = "eager"
"""The cause of a graph that one operation makes where nothing was compiled around it."""


def totals(before: Expected, after: Record, judged: Sequence[str]) -> Iterator[Difference]:
    """Yield every number of the baseline that differs now, on the layers that it judges."""
    values = before.values
    for kind, was, now in (
        ("graph", values.graphs, after.graphs),
        ("recompile", values.recompiles, after.recompiles),
    ):
        for layer in judged:
            if was.get(layer, 0) != now.get(layer, 0):
                yield _total(kind, layer, was.get(layer, 0), now.get(layer, 0))
            elif kind == "graph" and (moved := _left_functions(before, after, layer)):
                yield _total("eager", layer, *moved)
    places: Sequence[BaselinePlace]
    items: Sequence[Break | Eager]
    for kind, places, items in (
        ("break", values.breaks, after.breaks),
        ("eager", values.eager, after.eager),
    ):
        recorded = sum(place.layer in judged for place in places)
        seen = sum(place.layer in judged for place in items)
        if recorded != seen:
            yield _total(kind, None, recorded, seen)


def _left_functions(before: Expected, after: Record, layer: str) -> tuple[int, int] | None:
    """Return the graphs of single operations, before and now, if they replaced functions.

    JAX compiles an operation outside of ``jax.jit`` by itself (``eager``). If somebody removes
    ``jit`` from a function of one operation, its graph is gone and one of the operation is new: the
    number of graphs stays, and there are fewer of functions. In any other case the result is None.
    """
    recorded = before.values.causes_of(layer)
    if _OUTSIDE not in CAUSES[layer] or recorded is None or not after.is_explained(layer):
        return None
    description = DESCRIPTIONS[layer]
    was = sum(cause.count for cause in recorded if cause.cause == _OUTSIDE)
    others = sum(cause.count for cause in recorded if not description.cause(cause.cause).is_plain)
    causes = [graph.cause for graph in after.graphs_of(layer)]
    now = causes.count(_OUTSIDE)
    functions = sum(description.cause(cause).is_plain for cause in causes)
    fewer = functions < before.values.graphs.get(layer, 0) - others
    return (was, now) if now > was and fewer else None


def operations(
    before: Expected, after: Record, comparable: Collection[str]
) -> Iterator[Difference]:
    """Yield the captured operations that differ now, by layer, where both sides have them."""
    ops = after.ops
    for layer in comparable:
        recorded = before.values.ops.get(layer)
        if recorded and layer in ops and recorded != ops[layer]:
            yield _total("ops", layer, recorded, ops[layer])


def runs_and_reads(before: Expected, after: Record, judged: Sequence[str]) -> Iterator[Difference]:
    """Yield the runs and reads that differ now, on layers of which both sides have runs."""
    for layer in judged:
        if layer not in after.executions or not before.values.knows_runs(layer):
            continue
        for kind, was, now in (
            ("execution", before.values.executions, after.executions),
            ("read", before.values.reads, after.reads),
        ):
            number = now.get(layer, 0)
            if number is not None and was.get(layer, 0) != number:
                yield _total(kind, layer, was.get(layer, 0), number)


def limits(cap: Cap, after: Record) -> Iterator[Difference]:
    """Yield every number that exceeds the cap.

    A limit above 0 also demands a graph, where one was attempted: a model that Dynamo gave up on as
    a whole must not pass for few graphs. Where no graph is allowed, no code may be left to eager
    after the compiler tried it: a reached recompile_limit is no steady state.
    """
    counts: Mapping[str, int | None]
    for layer in after.layers:
        judged = layer in JUDGED or layer in cap.layers
        executions, reads = cap.runs(layer)
        for kind, counts, limit in (
            ("graph", after.graphs, cap.graphs(layer)),
            ("recompile", after.recompiles, cap.recompiles if judged else None),
            ("execution", after.executions, executions),
            ("read", after.reads, reads),
        ):
            number = counts.get(layer, 0)
            if limit is not None and number is not None and number > limit:
                yield _total(kind, layer, limit, number, cap.by)
        count = len(compiled_graphs(after, layer))
        if cap.compiled is not None and count > cap.compiled:
            yield _total("compiled", layer, cap.compiled, count, cap.by)
    if cap.breaks is not None and len(after.breaks) > cap.breaks:
        yield _total("break", None, cap.breaks, len(after.breaks), cap.by)
    demanding = {layer: limit for layer in after.layers if (limit := cap.graphs(layer))}
    gave_up = after.frames.attempted and not any(after.graphs.values())
    if gave_up and demanding:  # said once, of the first layer
        layer, limit = next(iter(demanding.items()))
        yield _total("graph", layer, limit, 0, cap.by)
    if forbidden_code := forbidden_eager(cap, after):
        yield _total("eager", None, 0, len(forbidden_code), cap.by)


def compiled_graphs(record: Record, layer: str) -> tuple[Graph, ...]:
    """Return the graphs of a layer that were compiled, although a cache might have had them.

    If a layer below says whether its graphs were cached, it compiles the graphs of this one: then
    the compilations are counted there, and none here.
    """
    below = (name for name, layer_below in DESCRIPTIONS.items() if layer_below.above == layer)
    layers = {graph.layer for graph in record.graph_list if graph.cached is not None}
    if not layers.isdisjoint(below):
        return ()
    return tuple(graph for graph in record.graphs_of(layer) if graph.cached == "compiled")


def unknown_runs(record: Record, cap: Cap | None, expected: Expected | None = None) -> str:
    """Return why a limit on executions or reads cannot be judged; empty if all can.

    ``expected`` is a baseline of which more runs than recorded would fail the test.
    """
    for layer in record.layers:
        executions, reads = (None, None) if cap is None else cap.runs(layer)
        recorded = expected is not None and expected.values.knows_runs(layer)
        for words, counts, limit in (
            ("executions", record.executions, executions),
            ("reads", record.reads, reads),
        ):
            if counts.get(layer, 0) is None and (limit is not None or recorded):
                return (
                    f"the {layer} {words} of a process that lives on are not known: let the test "
                    "end its process"
                )
    return ""


def forbidden_eager(cap: Cap, after: Record) -> tuple[Eager, ...]:
    """Return the code that left the compiler on layers of which no graph is allowed."""
    return tuple(eager for eager in after.eager if cap.graphs(eager.layer) == 0)


def _total(
    kind: str, layer: str | None, before: int, after: int, by: str = "baseline"
) -> Difference:
    return Difference(kind, layer, total=True, before=before, after=after, by=by)
