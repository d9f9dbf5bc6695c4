"""Which graphs of a layer a baseline knows, which are new, and which of its causes are gone.

A baseline does not name graphs: it has their number, and the causes of those that are not plain.
So each observed graph claims one recorded cause. Of this entry, a graph of ``Net.forward`` after a
break claims the cause, the entry of ``Net`` the graph that is left over, and a third one is new::

    graphs: {dynamo: 2}
    causes:
      - {layer: dynamo, cause: break, where: "net.py::Net.forward", code: "y = self.head(x)"}

``sides`` asks once for each judged layer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct

from pytest_graphbreak.baseline.model import Expected
from pytest_graphbreak.judging.measured import cause_of
from pytest_graphbreak.model.budget import PLACES_LAYER, Cause, writable
from pytest_graphbreak.model.items import Graph
from pytest_graphbreak.model.layers import DESCRIPTIONS
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.versions import UNKNOWN_VERSIONS, Versions, made_by, same_minor


class MatchedGraphs(Struct, frozen=True):
    """The graphs of one layer, compared with those of the baseline.

    ``added`` are the new graphs, ``gone`` the causes that are gone, each with its recorded number
    and the number left. ``unsure`` is true if one more function is compiled and it is not known
    which of several was recorded; then all of them are in ``added``.
    """

    added: tuple[Graph, ...] = ()
    gone: tuple[tuple[Cause, int], ...] = ()
    unsure: bool = False


def match(
    record: Record, expected: Expected, layer: str, versions: Versions = UNKNOWN_VERSIONS
) -> MatchedGraphs | None:
    """Compare the graphs of a layer with the baseline; None if either side lacks causes.

    Graphs claim the causes that a baseline has (``_claim_graphs``). A baseline names no plain
    graph: what its number of graphs leaves over is plain, and the plain graphs that claimed nothing
    fill that. On a layer that compiles the user's code it is one at most, the only entry; below
    that it is as many graphs of the layer above as were lowered whole. Of ``graphs: {dynamo: 3}``
    with the cause ``break`` twice, one is left over: the entry.

    What varied in a recompile is compared only if the same minor version of the compiler recorded
    it (``versions`` are the current ones), since each version words guards differently.
    """
    recorded = expected.values.causes_of(layer)
    if recorded is None or not record.is_explained(layer):
        return None
    same_compiler = same_minor(made_by(layer, versions), expected.causes_with(layer))
    recompiles = record.recompile_of
    graphs = [(graph, cause_of(graph, recompiles)) for graph in record.graphs_of(layer)]
    remaining, unmatched = _claim_graphs(graphs, recorded, same_compiler=same_compiler)
    plain = [graph for graph in unmatched if graph.is_entry or graph.is_lowered]
    added = [graph for graph in unmatched if not (graph.is_entry or graph.is_lowered)]
    gone = [
        (cause, cause.count - remaining[cause.key]) for cause in recorded if remaining[cause.key]
    ]
    unnamed = expected.values.graphs.get(layer, 0) - sum(cause.count for cause in recorded)
    if unnamed and DESCRIPTIONS[layer].above is None:
        matched = _match_entry(plain, expected, layer)
    else:
        matched = MatchedGraphs(tuple(plain[unnamed:]))
    return MatchedGraphs((*added, *matched.added), (*gone, *matched.gone), matched.unsure)


def _match_entry(entries: Sequence[Graph], expected: Expected, layer: str) -> MatchedGraphs:
    """Compare the entries that claimed no cause with the only one that a baseline leaves over.

    Of several, the recorded one has a name of the baseline; without names nobody knows which it is,
    and all are added.
    """
    names = expected.values.entries if layer == PLACES_LAYER else ()
    recorded = next((graph for graph in entries if writable(graph.where.name) in names), None)
    if len(entries) == 1 and not names:
        recorded = entries[0]
    added = tuple(graph for graph in entries if graph is not recorded)
    if recorded is None and names:
        plain = next(cause.name for cause in DESCRIPTIONS[layer].causes if cause.is_plain)
        gone = Cause(layer, plain, where=names[0])
        return MatchedGraphs(added, gone=((gone, 0),))
    return MatchedGraphs(added, unsure=recorded is None and len(entries) > 1)


def _claim_graphs(
    graphs: Sequence[tuple[Graph, Cause]], recorded: Sequence[Cause], *, same_compiler: bool
) -> tuple[Counter[tuple[str, ...]], list[Graph]]:
    """Return the remaining number of each recorded cause, and the graphs that claim none.

    Each graph claims one of a recorded cause, in three rounds; who claims in an early round is out
    of the later ones, so an exact match is never taken by a loose one:

    1. the same cause at the same place, by the same guard, called by the same line;
    2. the same, called by whatever line, which an edit of the caller moves;
    3. the same cause at the same place, of the causes recorded without a guard; of all causes if
       ``same_compiler`` is false, since another version words guards in its own way.
    """
    remaining = Counter({cause.key: cause.count for cause in recorded})
    unguarded = [cause for cause in recorded if not (same_compiler and cause.guard)]
    rounds: Sequence[tuple[Callable[[Cause], tuple[str, ...]], Sequence[Cause]]] = (
        (lambda cause: cause.key, recorded),
        (lambda cause: cause.key[:-1], recorded),  # its last part is ``called``
        (lambda cause: cause.place, unguarded),
    )
    for identity, claimable in rounds:
        unclaimed = []
        for graph, cause in graphs:
            alike = (known for known in claimable if identity(known) == identity(cause))
            free = next((known for known in alike if remaining[known.key]), None)
            if free is None:
                unclaimed.append((graph, cause))
            else:
                remaining[free.key] -= 1
        graphs = unclaimed
    return remaining, [graph for graph, _ in graphs]
