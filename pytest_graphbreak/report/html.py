"""The report as one page: every test as strips of graphs, with what separates them.

This module makes the data (``page_data``); ``page.js`` shows it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from pytest_graphbreak import advice
from pytest_graphbreak.judging.attribution import Key, attributed, key_of, kind_of
from pytest_graphbreak.judging.causes import cause_of, place_of
from pytest_graphbreak.model.budget import Values
from pytest_graphbreak.model.differences import BY_VERDICT, VerdictKind
from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.model.layers import BY_NAME, DESCRIPTIONS, EXPECTED, JUDGED
from pytest_graphbreak.model.record import NOWHERE, Break, Eager, Frame, Graph, Recompile
from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.report import accepting, explained
from pytest_graphbreak.report.frame import CheckoutSources, fill
from pytest_graphbreak.report.root_causes import headline, root_causes
from pytest_graphbreak.report.view import (
    NAMED,
    NOTHING,
    ORDER,
    CheckNotes,
    Move,
    ProfileRun,
    acceptable,
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
    shared, accept = Shared(sources), _accepting(runs, notes)
    found: dict[str, list[TestReport | None]] = {}
    for number, run in enumerate(runs):
        for test in run.tests:
            found.setdefault(test.nodeid, [None] * len(runs))[number] = test
    ordered = sorted(found.items(), key=lambda item: _weight(item[1]))
    tests = [_test(nodeid, here, shared, accept) for nodeid, here in ordered]
    return {
        "verdicts": list(ORDER),
        "kinds": {name: _kind(name) for name in ORDER},
        **cause_kinds(),
        "runs": [_run(run) for run in runs],
        "noVerdict": notes.no_verdict,
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


def _accepting(runs: Sequence[ProfileRun], notes: CheckNotes) -> Mapping[int, str]:
    """Return the command that accepts a test, by the ``id`` of its entry, where one can."""
    return {
        id(test): f"{notes.accept} --tests {shlex.quote(test.nodeid)}"
        if notes.accept
        else accepting.command(shlex.quote(report.given or report.name), test.nodeid)
        for run in runs
        for report in run.reports
        for test in report.tests
        if acceptable(test)
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


def _kind(standing: str) -> Plain:
    """Return what the page needs to know of the verdict behind a standing."""
    kind = BY_VERDICT.get(standing, VerdictKind(standing))
    return {
        "named": standing in NAMED,
        "blind": kind.blind,
        "loses": kind.loses,
        "shrinks": kind.shrinks,
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


def _test(
    nodeid: str,
    here: Sequence[TestReport | None],
    shared: Shared,
    accept: Mapping[int, str],
) -> Plain:
    places = _Places(len(here), shared)
    runs = [
        None if test is None else _result(number, test, places, accept.get(id(test), ""))
        for number, test in enumerate(here)
    ]
    known = [(number, test) for number, test in enumerate(here) if test is not None]
    return {
        "id": _clean(nodeid),
        "worst": min(known, key=lambda one: weight(one[1]))[0],
        "growth": _growth([test for _, test in known]),
        "runs": runs,
        "places": places.rows,
    }


def _growth(tests: Sequence[TestReport]) -> int:
    """Return the largest growth in any run, compared with its baseline or else the first run."""
    first = tests[0].record.graphs
    return max(
        (
            move.measured - (first.get(move.layer, 0) if move.was is None else move.was)
            for test in tests
            for move in moves(test)
        ),
        default=0,
    )


def _result(number: int, test: TestReport, places: _Places, accept: str) -> Plain:
    was = test.baseline
    places.add_baseline(number, was)
    places.add_found(number, test)
    return {
        "verdict": standing(test),
        "outcome": test.outcome,
        "failedBy": test.failed_by,
        "attempts": test.attempts,
        "accept": _clean(accept),
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
    around = [f"{count} {layer}" for layer, count in test.setup.graphs.items() if count]
    if around:
        yield f"compiled around the test, by fixtures: {', '.join(around)}"


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
        for kind, places in ((Break, was.breaks), (Eager, was.eager)):
            for known in places:
                file, _, function = known.where.partition("::")
                where = Frame(file, function, code=known.code)
                item = kind(known.layer, known.reason or kind.__name__.lower(), where)
                row = self._row(item, known.id)
                row["counts"][number]["was"] = known.count

    def add_found(self, number: int, test: TestReport) -> None:
        """Add what was seen in this run."""
        record = test.record
        self._names[number] = attributed(record)
        graphs = filter(_is_cut, record.graph_list)
        items: tuple[_Seen, ...]
        items = (*record.breaks, *record.eager, *record.recompile_list, *graphs)
        for item in items:
            row = self._row(item, item.id if isinstance(item, Break) else None)
            self._describe(row, item)
            _count(row["counts"][number], item, test)
            index = self._index[_row_key(item)]
            if not isinstance(item, Eager):
                self._rows.setdefault((number, key_of(item)), index)
            if isinstance(item, Recompile):
                row["graphs"].append(_clean(item.graph))
                self._recompiles[number, item.layer, item.graph] = index

    def _calls(self, frames: Sequence[Frame]) -> list[int | None]:
        """Return the calls that led to a place, outermost first."""
        return [self.shared.frame(frame) for frame in frames if frame != NOWHERE]

    def of_graph(self, number: int, graph: Graph) -> int | None:
        """Return the row that says why this graph exists, or None for a graph that is intended."""
        made_for = self._names[number].get((graph.layer, graph.name), ())
        if _is_cut(graph) and made_for == key_of(graph):  # of several reasons, its own
            return self._index.get(_row_key(graph))
        of_name = self._recompiles.get((number, graph.layer, graph.name))
        return self._rows.get((number, made_for)) if of_name is None else of_name

    def _row(self, item: _Seen, id: str | None) -> Plain:
        key = _row_key(item)
        if key not in self._index:
            self._index[key] = len(self.rows)
            found = {
                "kind": _clean(kind_of(item)),
                "layer": item.layer,
                "id": _clean(id) if id else None,
                "reason": self.shared.text(item.reason),
                "at": self.shared.frame(item.where),
                "counts": [_both(None, 0) for _ in range(self._runs)],
            }
            self.rows.append({**found, "stack": [], "more": [], "graphs": [], "try": None})
        return self.rows[self._index[key]]

    def _describe(self, row: Plain, item: _Seen) -> None:
        """Set what a run knows of a place and a baseline does not: its line, and how to fix it."""
        if item.where != NOWHERE:
            row["at"] = self.shared.frame(item.where)
        words = advice.short(item)
        row["try"] = self.shared.text(words) if words else None
        if isinstance(item, Break):
            row["stack"] = self._calls(item.stack[:-1])
            said = filter(None, (item.explanation, *item.hints))
            row["more"] = [self.shared.text(text) for text in said]
            if item.raised != NOWHERE:
                row["raised"] = self.shared.frame(item.raised)
        elif not isinstance(item, Eager):
            stack = item.stack[:-1] if isinstance(item, Graph) else item.stack
            row["stack"] = row["stack"] or self._calls(stack)


_Seen = Break | Eager | Recompile | Graph


def _is_cut(graph: Graph) -> bool:
    """Return whether a graph shows something that no break and no recompile shows."""
    cause = DESCRIPTIONS[graph.layer].cause(graph.cause)
    return not (cause.is_expected or cause.explained_by)


def _recorded(item: _Seen, test: TestReport) -> int | None:
    """Return how often the baseline has an item that it does not name as a place, if known."""
    values = test.baseline
    if values is None:
        return None
    if isinstance(item, Recompile):  # a baseline has their number, but not which ones
        return None if values.recompiles.get(item.layer) else 0
    if not isinstance(item, Graph):
        return 0
    if item.layer not in JUDGED and item.layer not in values.graphs:
        return None
    known = values.causes_of(item.layer)
    if known is None:
        return None
    return sum(cause.count for cause in known if cause.key == cause_of(item).key)


def _count(pair: Plain, item: _Seen, test: TestReport) -> None:
    pair["now"] += item.count if isinstance(item, (Break, Eager)) else 1
    if item.seconds is not None:
        pair["seconds"] = round(pair.get("seconds", 0.0) + item.seconds, 3)
    if pair["was"] is None:
        pair["was"] = _recorded(item, test)


def _row_key(item: _Seen) -> tuple[str, ...]:
    """Return the key of the row of an item; eager programs of JAX get no eager row."""
    place = ("", "") if item.where == NOWHERE else place_of(item.where)
    if isinstance(item, (Break, Eager)):
        return (kind_of(item), *place)  # as in a baseline: only the place
    kinds = ("graph", item.cause) if isinstance(item, Graph) else ("recompile",)
    return (*kinds, item.layer, item.reason, *place)
