"""The report as one page: every test as strips of graphs, with what separates them.

This module makes the data (``page_data``); ``page.js`` shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from pytest_graphbreak import advice
from pytest_graphbreak.judging.attribution import Attribution, Key, key_of
from pytest_graphbreak.judging.causes import cause_of, place_of
from pytest_graphbreak.model.budget import Values
from pytest_graphbreak.model.differences import Item
from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.model.layers import BY_NAME, DESCRIPTIONS, EXPECTED, JUDGED
from pytest_graphbreak.model.record import NOWHERE, Frame, Graph
from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.report import explained
from pytest_graphbreak.report.frame import CheckoutSources, fill
from pytest_graphbreak.report.root_causes import headline, root_causes
from pytest_graphbreak.report.view import (
    NOTHING,
    ORDER,
    CheckNotes,
    Move,
    ProfileRun,
    counted,
    moves,
    named,
    standing,
    weight,
)
from pytest_graphbreak.text.safe import printable

MOST_STEPS: Final = 200
MOST_GRAPHS: Final = 400
"""The number of graphs of one layer that a page lists for one test; a real test had 343."""
MOST_CAUSES: Final = 100
"""The number of causes of failed tests that a page shows; the rest are counted."""


def render(
    runs: Sequence[ProfileRun], root: Path | None = None, notes: CheckNotes = NOTHING
) -> str:
    """Return the page. ``root`` is a checkout to take source excerpts from, or None."""
    return fill("page", "Graph budget", page_data(runs, CheckoutSources(root), notes))


def page_data(
    runs: Sequence[ProfileRun], sources: CheckoutSources, notes: CheckNotes = NOTHING
) -> Plain:
    """Return everything that the page shows, in the same order."""
    shared = Shared(sources)
    found: dict[str, list[TestReport | None]] = {}
    for number, run in enumerate(runs):
        for test in run.tests:
            found.setdefault(test.nodeid, [None] * len(runs))[number] = test
    ordered = sorted(found.items(), key=lambda item: _weight(item[1]))
    tests = [_test(nodeid, here, shared) for nodeid, here in ordered]
    return {
        "verdicts": list(ORDER),
        **cause_kinds(),
        "runs": [_run(run) for run in runs],
        "noVerdict": notes.no_verdict,
        "base": _clean(notes.base),
        "beside": {
            "problems": [_clean(text) for text in notes.problems],
            "missing": [_clean(text) for text in notes.missing],
            "loosened": [_clean(text) for text in notes.loosened],
        },
        "causes": _causes(runs, [nodeid for nodeid, _ in ordered], shared),
        "frames": shared.frames,
        "texts": shared.texts,
        "tests": tests,
    }


def _causes(runs: Sequence[ProfileRun], nodeids: Iterable[str], shared: Shared) -> Plain:
    """Return each cause of failed tests once; its tests are numbers of tests on the page."""
    order = {nodeid: number for number, nodeid in enumerate(nodeids)}
    tests = {named(test, run, runs): test for run in runs for test in run.tests}
    found = root_causes(tests.items())
    return {
        "headline": headline(found),
        "rest": max(len(found.all) - MOST_CAUSES, 0),
        "list": [
            {
                "title": explained.title(cause),
                "at": shared.frame(cause.where) if cause.where.file else None,
                "try": explained.to_do(cause),
                "first": _clean(cause.tests[0]),
                "graphs": cause.graphs,
                "red": len(cause.tests),
                "tests": list(dict.fromkeys(order[tests[name].nodeid] for name in cause.tests)),
            }
            for cause in found.all[:MOST_CAUSES]
        ],
    }


def cause_kinds() -> Plain:
    """Return the data on causes for the scripts of the pages."""
    return {
        "meant": list(EXPECTED),
        "again": [cause.name for cause in BY_NAME.values() if cause.kind == "repeat"],
        "plurals": {cause.name: cause.plural for cause in BY_NAME.values() if cause.plural},
    }


class Shared:
    """Frames and texts that many tests share; each is written once and referred to by number."""

    def __init__(self, sources: CheckoutSources) -> None:
        self.frames: list[Plain] = []
        self.texts: list[str] = []
        self._sources = sources
        self._frames: dict[Frame, int] = {}
        self._texts: dict[str, int] = {}

    def frame(self, where: Frame) -> int | None:
        """Return the number of a place, stored with its source excerpt, or None for no place."""
        if where == NOWHERE:
            return None
        if where not in self._frames:
            self._frames[where] = len(self.frames)
            excerpt = self._sources.excerpt(where)
            file, function, code = map(_clean, (where.file, where.function, where.code))
            found = {"file": file, "line": where.line, "function": function, "code": code}
            if excerpt is not None:
                found |= {"first": excerpt[0], "source": [_clean(one) for one in excerpt[1]]}
            self.frames.append(found)
        return self._frames[where]

    def text(self, text: str) -> int:
        """Return the number of a text."""
        if text not in self._texts:
            self._texts[text] = len(self.texts)
            self.texts.append(_clean(text))
        return self._texts[text]


def _weight(tests: Iterable[TestReport | None]) -> tuple[int, int, int, str]:
    return min(weight(test) for test in tests if test is not None)


def _run(run: ProfileRun) -> Plain:
    facts = run.reports[0].environment
    versions = {**facts.versions, "python": facts.python}
    shown = [f"{name.replace('_', '-')} {found}" for name, found in versions.items() if found]
    shown += [facts.platform] if facts.platform else []
    return {
        "label": _clean(run.label),
        "facts": [_clean(fact) for fact in shown],
        "counts": counted(run.tests),
        "reports": len(run.reports),
        "unmeasured": [_clean(name) for name in run.unmeasured],
        "stale": [_clean(name) for name in run.stale],
        "ungated": [_clean(name) for name in run.ungated],
    }


def _clean(text: str) -> str:
    return text if text.isprintable() else printable(text)


def _test(nodeid: str, here: Sequence[TestReport | None], shared: Shared) -> Plain:
    places = _Places(len(here), shared)
    runs = [
        None if test is None else _result(number, test, places) for number, test in enumerate(here)
    ]
    reference = next(number for number, test in enumerate(here) if test is not None)
    order = min(
        (number for number, test in enumerate(here) if test is not None),
        key=lambda number: weight(here[number]),  # type: ignore[arg-type]
    )
    return {
        "id": _clean(nodeid),
        "worst": order,
        "growth": _growth(here, reference),
        "runs": runs,
        "places": places.rows,
    }


def _growth(here: Sequence[TestReport | None], reference: int) -> int:
    """Return the largest growth in any run, compared with its baseline or else the first run."""
    first = here[reference]
    assert first is not None
    found = []
    for test in here:
        if test is None:
            continue
        for move in moves(test):
            was = move.was if move.was is not None else first.record.graphs.get(move.layer, 0)
            found.append(move.measured - was)
    return max(found, default=0)


def _result(number: int, test: TestReport, places: _Places) -> Plain:
    was = None if test.baseline is None else test.baseline
    places.add_baseline(number, was)
    places.add_found(number, test)
    return {
        "verdict": standing(test),
        "outcome": test.outcome,
        "failedBy": test.failed_by,
        "attempts": test.attempts,
        "layers": [_layer(number, move, test, places) for move in _all_moves(test)],
        "ran": list(_ran(test)),
        "steps": [
            [sum(counts.values()) for counts in (step.graphs, step.executions, step.reads)]
            for step in test.steps[:MOST_STEPS]
        ],
        "recompiles": sum(test.record.recompiles.values()),
        "breaks": _both(None if was is None else len(was.breaks), len(test.record.breaks)),
        "eager": _both(None if was is None else len(was.eager), len(test.record.eager)),
        "message": "\n".join(_clean(line) for line in (test.message or "").split("\n")),
        "notes": [_clean(note) for note in _notes(test)],
    }


def _ran(test: TestReport) -> Iterator[Plain]:
    """Yield runs and reads by layer, with those of the baseline if it has them."""
    known = test.baseline
    for word, after in (("executions", test.record.executions), ("reads", test.record.reads)):
        for layer, now in after.items():
            knows = known is not None and known.knows_runs(layer)
            was = getattr(known, word).get(layer, 0) if knows else None
            if now or was:
                yield {"name": f"{layer} {word}", **_both(was, now)}


def _both(was: int | None, now: int) -> Plain:
    return {"was": was, "now": now}


def _all_moves(test: TestReport) -> list[Move]:
    return moves(test) or [Move(layer, None, 0) for layer in test.record.layers[-1:]]


def _notes(test: TestReport) -> Iterator[str]:
    yield from test.record.errors
    if test.record.note:
        yield test.record.note
    if test.ungated is not None:
        yield f"not gated: {test.ungated}"
    if test.foreign:
        yield f"judged by the values of {test.foreign}; this profile was never recorded"
    around = {layer: count for layer, count in test.setup.graphs.items() if count}
    if around:
        listed = ", ".join(f"{count} {layer}" for layer, count in around.items())
        yield f"compiled around the test, by fixtures: {listed}"


def _layer(number: int, move: Move, test: TestReport, places: _Places) -> Plain:
    graphs = [graph for graph in test.record.graph_list if graph.layer == move.layer]
    return {
        "name": move.layer,
        "was": move.was,
        "now": move.measured,
        "graphs": [_graph(number, graph, places) for graph in graphs[:MOST_GRAPHS]],
    }


def _graph(number: int, graph: Graph, places: _Places) -> Plain:
    """Return a graph; ``place`` is the row that says why it exists, and empty keys are left out."""
    found = {
        "name": _clean(graph.name),
        "cause": _clean(graph.cause),
        "ops": graph.ops,
        "place": places.of_graph(number, graph),
        "at": places.shared.frame(graph.where),
        "from": [_clean(name) for name in graph.sources] or None,
        "inputs": graph.inputs,
        "outputs": graph.outputs,
        "cached": None if graph.cached in (None, "compiled") else _clean(graph.cached),
        "seconds": graph.seconds,
        "model": _clean(graph.owner) if graph.owner else None,
    }
    return {name: value for name, value in found.items() if value is not None}


class _Places:
    """The rows of "what cut it": one for each place and kind, with a count for each run.

    A count is a pair: the count in the baseline of that run (None if there is no baseline, or if
    baselines do not have this kind), and the count that was seen.
    """

    def __init__(self, runs: int, shared: Shared) -> None:
        self.rows: list[Plain] = []
        self.shared = shared
        self._runs = runs
        self._index: dict[tuple[str, ...], int] = {}
        self._rows: dict[tuple[int, Key], int] = {}
        self._recompiles: dict[tuple[int, str, str], int] = {}
        self._names: dict[int, Mapping[tuple[str, str], Key]] = {}

    def add_baseline(self, number: int, was: Values | None) -> None:
        """Add the places of the baseline of this run, including those that are gone."""
        if was is None:
            return
        for kind, places in (("break", was.breaks), ("eager", was.eager)):
            for known in places:
                file, _, function = known.where.partition("::")
                where = Frame(file, function, code=known.code)
                row = self._row(kind, known.layer, where, known.reason or kind, known.id)
                row["counts"][number]["was"] = known.count

    def add_found(self, number: int, test: TestReport) -> None:
        """Add what was seen in this run."""
        gated, record = test.baseline is not None, test.record
        self._names[number] = Attribution(record, record.layers).names
        for item in record.breaks:
            row = self._row("break", item.layer, item.where, item.reason, item.id)
            self._describe(row, item.where, advice.short(item))
            row["stack"] = self._calls(item.stack[:-1])
            said = filter(None, (item.explanation, *item.hints))
            row["more"] = [self.shared.text(text) for text in said]
            if item.raised != NOWHERE:
                row["raised"] = self.shared.frame(item.raised)
            _count(row, number, item.count, gated, item.seconds)
            self._explains(number, item, _key("break", item.layer, item.where, item.reason))
        for left in record.eager:
            row = self._row("eager", left.layer, left.where, left.reason)
            self._describe(row, left.where, advice.short(left))
            _count(row, number, left.count, gated, left.seconds)
        for recompile in record.recompile_list:
            row = self._row("recompile", recompile.layer, recompile.where, recompile.reason)
            self._describe(row, recompile.where, advice.short(recompile))
            row["stack"] = row["stack"] or self._calls(recompile.stack)
            row["graphs"].append(_clean(recompile.graph))
            key = _key("recompile", recompile.layer, recompile.where, recompile.reason)
            self._explains(number, recompile, key)
            self._recompiles[number, recompile.layer, recompile.graph] = self._index[key]
            # A baseline has the number of recompiles, but not which ones.
            was = test.baseline and test.baseline.recompiles.get(recompile.layer)
            _count(row, number, 1, gated and not was, recompile.seconds)
        for graph in record.graph_list:
            if self._is_cut(graph):
                row = self._row(
                    graph.cause, graph.layer, graph.where, graph.reason, key=_of_graph(graph)
                )
                self._describe(row, graph.where, advice.short(graph))
                row["stack"] = row["stack"] or self._calls(graph.stack[:-1])
                _count(row, number, 1, False, graph.seconds)
                self._explains(number, graph, _of_graph(graph))
                pair = row["counts"][number]
                pair["was"] = _recorded(graph, test) if pair["was"] is None else pair["was"]

    def _calls(self, frames: Sequence[Frame]) -> list[int | None]:
        """Return the calls that led to a place, outermost first."""
        return [self.shared.frame(frame) for frame in frames if frame != NOWHERE]

    def _explains(self, number: int, item: Item, key: tuple[str, ...]) -> None:
        self._rows.setdefault((number, key_of(item)), self._index[key])

    def of_graph(self, number: int, graph: Graph) -> int | None:
        """Return the row that says why this graph exists, or None for a graph that is intended."""
        made_for = self._names[number].get((graph.layer, graph.name), ())
        if self._is_cut(graph) and made_for == key_of(graph):  # of several reasons, its own
            return self._index.get(_of_graph(graph))
        of_name = self._recompiles.get((number, graph.layer, graph.name))
        return self._rows.get((number, made_for)) if of_name is None else of_name

    def _is_cut(self, graph: Graph) -> bool:
        """Return whether a graph shows something that no break and no recompile shows."""
        cause = DESCRIPTIONS[graph.layer].cause(graph.cause)
        return not (cause.is_expected or cause.explained_by)

    def _row(
        self,
        kind: str,
        layer: str,
        where: Frame,
        reason: str,
        id: str | None = None,
        key: tuple[str, ...] | None = None,
    ) -> Plain:
        key = key or _key(kind, layer, where, reason)
        if key not in self._index:
            self._index[key] = len(self.rows)
            self.rows.append(
                {
                    "kind": _clean(kind),
                    "layer": layer,
                    "id": _clean(id) if id else None,
                    "reason": self.shared.text(reason),
                    "at": self.shared.frame(where),
                    "counts": [_both(None, 0) for _ in range(self._runs)],
                    "stack": [],
                    "more": [],
                    "graphs": [],
                    "try": None,
                }
            )
        return self.rows[self._index[key]]

    def _describe(self, row: Plain, where: Frame, words: str | None) -> None:
        """Set what a run knows of a place and a baseline does not: its line, and how to fix it."""
        if where != NOWHERE:
            row["at"] = self.shared.frame(where)
        row["try"] = self.shared.text(words) if words else None


def _of_graph(graph: Graph) -> tuple[str, ...]:
    """Return the key of the row of a graph's cause; eager programs of JAX get no eager row."""
    return ("graph", graph.cause, graph.layer, graph.reason, *_identity(graph.where))


def _recorded(graph: Graph, test: TestReport) -> int | None:
    """Return how many graphs like this one the baseline has, or None if it has no causes."""
    if test.baseline is None:
        return None
    values = test.baseline
    if graph.layer not in JUDGED and graph.layer not in values.graphs:
        return None
    known = values.causes_of(graph.layer)
    if known is None:
        return None
    return sum(cause.count for cause in known if cause.key == cause_of(graph).key)


def _count(row: Plain, number: int, count: int, gated: bool, took: float | None) -> None:
    pair = row["counts"][number]
    pair["now"] += count
    if took is not None:
        pair["seconds"] = round(pair.get("seconds", 0.0) + took, 3)
    if gated and pair["was"] is None:
        pair["was"] = 0


def _identity(where: Frame) -> tuple[str, str]:
    return ("", "") if where == NOWHERE else place_of(where)


def _key(kind: str, layer: str, where: Frame, reason: str) -> tuple[str, ...]:
    if kind in ("break", "eager"):
        return (kind, *_identity(where))  # as in a baseline: only the place
    return (kind, layer, reason, *_identity(where))
