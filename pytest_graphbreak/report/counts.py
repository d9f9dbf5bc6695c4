"""Counts in words: of records as they are, and of a verdict as they changed.

Of records (all reports)::

    made_of           6 entries + 8 after a break (compiled 3, loaded 11)
    layer_counts      14 graphs = 6 entries + 8 after a break; 3 graph breaks, 0 recompiles
    graphs_and_breaks 2 dynamo graphs, 1 graph break

Of a verdict (a failure, around its places)::

    headline          graph budget: 2 dynamo graphs, the baseline allows 1 (+1)
    changed_counts    dynamo 1 -> 2 (1 entry, 1 after a break), breaks 0 -> 1

A step is a total that differs from the baseline, or exceeds a limit (``Difference``). A cause is
why a graph exists (``model.layers.GraphCause``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from pytest_graphbreak.judging.verdict import Verdict
from pytest_graphbreak.model.differences import Difference
from pytest_graphbreak.model.items import CACHED
from pytest_graphbreak.model.layers import BY_NAME, CAUSES, DESCRIPTIONS, JUDGED, GraphCause
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.text.numbers import noun, plural
from pytest_graphbreak.text.output import TextLine


def decomposition(layer: str, *records: Record) -> Counter[str]:
    """Return the number of graphs of a layer by cause, in the order of ``CAUSES``."""
    return _tally("cause", CAUSES[layer], layer, records)


def cache_counts(layer: str, *records: Record) -> Counter[str]:
    """Return how many graphs were compiled, loaded or found, in the order of ``CACHED``."""
    return _tally("cached", CACHED, layer, records)


def _tally(field: str, order: Iterable[str], layer: str, records: Iterable[Record]) -> Counter[str]:
    graphs = (graph for record in records for graph in record.graph_list if graph.layer == layer)
    counted = Counter(getattr(graph, field) for graph in graphs)
    return Counter({name: counted[name] for name in order if counted[name]})


def cached_text(counted: Mapping[str, int]) -> str:
    """Return `` (compiled 3, loaded 1)`` to follow a number; empty if all were compiled."""
    if not set(counted) - {"compiled"}:
        return ""
    return f" ({', '.join(f'{name} {count:,}' for name, count in counted.items())})"


def cause_words(counted: Mapping[str, int]) -> list[str]:
    """Return each number of graphs with its cause: ``2 entries``, ``1 after a break``."""
    return [
        BY_NAME.get(cause, GraphCause(cause)).count_words(count) for cause, count in counted.items()
    ]


def made_of(layer: str, *records: Record) -> str:
    """Return the causes of a layer's graphs and the origin of their code; empty if unknown."""
    parts = " + ".join(cause_words(decomposition(layer, *records)))
    return f"{parts}{cached_text(cache_counts(layer, *records))}"


def layer_counts(
    layer: str, records: Sequence[Record], *, logged: bool = True, places: bool = False
) -> str:
    """Return the counts of a layer: ``14 graphs = 6 entries + 8 after a break; 3 graph breaks``.

    ``logged`` is False if a log has no Dynamo graphs. With ``places``, only distinct places count.
    """
    breaks = [item.where.key for record in records for item in record.breaks if item.layer == layer]
    eager = [item.where.key for record in records for item in record.eager if item.layer == layer]
    if places:
        breaks, eager = [*dict.fromkeys(breaks)], [*dict.fromkeys(eager)]
    graphs = sum(record.graphs.get(layer, 0) for record in records)
    text = plural(graphs, "graph") if logged else "graphs not logged"
    if parts := made_of(layer, *records):
        text += f" = {parts}"
    if DESCRIPTIONS[layer].breaks:
        recompiles = sum(record.recompiles.get(layer, 0) for record in records)
        text += f"; {plural(len(breaks), 'graph break')}, {plural(recompiles, 'recompile')}"
        if eager:
            name = "eager place" if places or layer not in JUDGED else "eager function"
            text += f", {plural(len(eager), name)}"
    return text


def headline(verdict: Verdict, record: Record, budget: str = "the baseline") -> TextLine:
    """Return one line with the count that changed most, and whose limit it passed.

    ``budget`` names what stands for the baseline: ``--against`` if that is another run.
    """
    return first_line(_moved_most(verdict, record, budget))


def first_line(text: str) -> TextLine:
    """Return the first line of a failure."""
    return TextLine(text, "headline", head="graph budget: ")


def _moved_most(verdict: Verdict, record: Record, budget: str) -> str:
    if verdict.name == "new":
        return f"no baseline for this test ({graphs_and_breaks(record)})"
    if verdict.empties_a_layer:
        return _no_graph_any_more(verdict, record, budget)
    steps = verdict.over or verdict.lost or verdict.improved
    if not steps:
        return f"{verdict.name}, {graphs_and_breaks(record)}"
    # Operations that are missing follow from code that left the compiler, so any other step comes
    # first. Of steps that are equally large, the one on the deepest layer is shown.
    step = max(
        steps,
        key=lambda item: (item.kind != "ops", abs(item.growth), item.layer == record.headline),
    )
    sign = f"{step.growth:+d}"
    return f"{_amount(step)}, {_limit_words(step, budget)} {step.before} ({sign})"


def _no_graph_any_more(verdict: Verdict, record: Record, budget: str) -> str:
    """Describe a layer that makes no graph any more, which is worse than any growth."""
    step = next(step for step in verdict.lost if step.kind == "graph" and not step.after)
    if step.by != "baseline":
        return f"no {step.layer} graph, {_limit_words(step, budget)} {step.before}"
    still = f" ({graphs_and_breaks(record)} still)" if any(record.graphs.values()) else ""
    return f"no {step.layer} graph any more, {_limit_words(step, budget)} {step.before}{still}"


def _limit_words(step: Difference, budget: str) -> str:
    if step.by == "baseline":
        return f"{budget} has" if step.growth < 0 else f"{budget} allows"
    option = "--max-compiled" if step.kind == "compiled" else "--max-graphs"
    return f"{option} allows" if step.by == "option" else f"the {step.by} allows"


def _amount(step: Difference) -> str:
    count, layer = step.after, step.layer
    if step.kind == "ops":
        return f"{count} {noun(count, 'captured operation')} in {layer} graphs"
    if step.kind == "compiled":
        return f"{count} {layer} {noun(count, 'graph')} compiled and not loaded"
    names = {"break": "graph break", "eager": "eager fallback"}
    return f"{count} {noun(count, names.get(step.kind, f'{layer} {step.kind}'))}"


def graphs_and_breaks(record: Record) -> str:
    """Return the graphs of each layer and the breaks: ``2 dynamo graphs, 1 graph break``."""
    counts = {layer: record.graphs.get(layer, 0) for layer in record.layers}
    graphs = {layer: count for layer, count in counts.items() if count}
    if counts and not graphs:
        graphs = {record.headline: 0}
    parts = [f"{count} {layer} {noun(count, 'graph')}" for layer, count in graphs.items()]
    if record.breaks:
        parts.append(f"{len(record.breaks)} {noun(len(record.breaks), 'graph break')}")
    return ", ".join(parts) or "nothing was compiled"


TOTAL_NAMES: Final = {
    "graph": "graphs",
    "recompile": "recompiles",
    "break": "breaks",
    "eager": "eager fallbacks",
    "execution": "executions",
    "read": "reads",
    "ops": "captured operations",
    "compiled": "graphs compiled, not loaded",
}
"""What a total of each kind counts."""


def changed_counts(
    verdict: Verdict,
    record: Record,
    fixtures: Mapping[str, int] = {},
    ops: Iterable[Difference] = (),
) -> Iterator[TextLine]:
    """Yield a line with the changed counts and their parts; counts that fell to zero come first.

    For example: ``dynamo 1 -> 4 (1 entry, 2 after a break, 1 called function), breaks 0 -> 1``.
    ``fixtures`` is how many of the graphs the test's fixtures made. The totals in ``ops`` are shown
    as captured operations.
    """
    steps = {
        (step.kind, step.layer, step.before, step.after): step
        # Where a baseline and a marker have the same numbers, the step of the baseline is kept.
        for step in sorted(
            (*verdict.worse, *verdict.improved), key=lambda item: item.by == "baseline"
        )
        if step.kind != "ops"
    }
    parts, explained = [], set[str | None]()
    for step in sorted(steps.values(), key=_order):
        parts.append(moved_count(step))
        if step.kind == "graph" and step.growth > 0 and step.layer not in explained:
            parts[-1] += _after_count(step.layer or "", record, fixtures)
            explained.add(step.layer)
    if verdict.name == "new":
        parts = [
            f"{layer} {count}{_after_count(layer, record, fixtures)}"
            for layer in record.layers
            if (count := record.graphs.get(layer, 0))
        ]
    parts += _operations(ops)
    if parts:
        yield TextLine(", ".join(parts), indent=2)


def _order(step: Difference) -> tuple[bool, bool]:
    """Sort counts that fell to zero first, and the baseline before a marker."""
    return step.kind != "graph" or step.after > 0, step.by != "baseline"


def moved_count(step: Difference) -> str:
    """Return a total before and after: ``dynamo recompiles 0 -> 2``."""
    name = "" if step.kind == "graph" else TOTAL_NAMES[step.kind]
    words = " ".join(filter(None, (step.layer, name)))
    if step.by == "marker":
        return f"{words} {step.after} where the marker allows {step.before or 0}"
    return f"{words} {step.before or 0} -> {step.after}"


def _after_count(layer: str, record: Record, fixtures: Mapping[str, int]) -> str:
    """Return what follows the number of a layer's graphs in a failure; empty if nothing is known.

    For example `` (1 entry, 2 after a break, 1 in the test's fixtures)``: the causes, which
    ``made_of`` joins by ``+``, and the share of the fixtures.
    """
    parts = cause_words(decomposition(layer, record))
    if count := fixtures.get(layer):
        parts.append(f"{count} in the test's fixtures")
    text = f" ({', '.join(parts)})" if parts else ""
    return text + cached_text(cache_counts(layer, record))


def _operations(steps: Iterable[Difference]) -> Iterator[str]:
    """Yield ``captured operations 12 -> 2 (dynamo)`` with the layers of these totals."""
    moved: dict[tuple[int | None, int], list[str]] = {}
    for step in steps:
        if step.kind == "ops":
            moved.setdefault((step.before, step.after), []).append(step.layer or "")
    for (before, after), layers in moved.items():
        yield f"captured operations {before} -> {after} ({', '.join(layers)})"
