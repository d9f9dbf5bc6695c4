"""The report as one page: every test as strips of graphs, with what separates them.

This module makes the data (``page_data``); ``page.js`` shows it. The page is one file that loads
nothing from elsewhere. Its content security policy contains the hashes of its one style and its one
script, so a browser runs nothing else, whatever the data contains; the script inserts text only as
text.
"""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Final

from pytest_graphbreak.config.typed import Typed
from pytest_graphbreak.model.budget import Values
from pytest_graphbreak.model.differences import BY_VERDICT, VerdictKind
from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.model.items import Graph
from pytest_graphbreak.model.layers import BY_NAME, EXPECTED, JUDGED
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.report.checkout import CheckoutSources
from pytest_graphbreak.report.root_causes import headline, root_causes
from pytest_graphbreak.report.rows import Rows, Shared, clean, was_and_now
from pytest_graphbreak.report.runs import NO_NOTES, CheckNotes, ProfileRun, test_name
from pytest_graphbreak.report.standing import (
    NAMED,
    ORDER,
    Move,
    acceptable,
    count_standings,
    is_red,
    moves,
    standing,
    weight,
)
from pytest_graphbreak.text.safe import script_json

MOST_STEPS: Final = 200
"""The number of steps (``graph_budget.steps``) that a page shows of one test."""
MOST_GRAPHS: Final = 400
"""The number of graphs of one layer that a page lists for one test; a real test had 343."""
MOST_PASSED: Final = 500
"""The number of passed tests that a page lists, most graphs first; the rest are counted. With all
of them the page of 50,000 tests had 31 MB."""
MOST_CAUSES: Final = 100
"""The number of causes of failed tests that a page shows; the rest are counted."""


def render(
    runs: Sequence[ProfileRun], root: Path | None = None, notes: CheckNotes = NO_NOTES
) -> str:
    """Return the page. ``root`` is a checkout to take source excerpts from, or None."""
    return _fill(page_data(runs, CheckoutSources(root), notes))


def page_data(
    runs: Sequence[ProfileRun], sources: CheckoutSources, notes: CheckNotes = NO_NOTES
) -> Plain:
    """Return everything that the page shows, in the same order.

    Each test is JSON text already, since all of them as data would take a gigabyte.
    """
    shared, accept = Shared(sources), _accept_commands(runs, notes)
    ordered, unlisted = _ordered(runs)
    tests = [script_json(_test(nodeid, here, shared, accept)) for nodeid, here in ordered]
    return {
        "verdicts": list(ORDER),
        "kinds": {name: _kind(name) for name in ORDER},
        **cause_kinds(),
        "runs": [_run(run) for run in runs],
        # Of two runs of one profile, the page compares the second with the first, number 0.
        **({"before": 0} if len(runs) == 2 and runs[0].profile == runs[1].profile else {}),
        **({"unlisted": unlisted} if unlisted else {}),
        "noVerdict": notes.no_verdict,
        "beside": {
            "problems": [clean(text) for text in notes.problems],
            "missing": [clean(text) for text in notes.missing],
        },
        "causes": _causes(runs, [nodeid for nodeid, _ in ordered], shared),
        "frames": shared.frames,
        "texts": shared.texts,
        "tests": tests,  # as JSON texts, not as data
    }


def _ordered(
    runs: Sequence[ProfileRun],
) -> tuple[list[tuple[str, list[TestReport | None]]], int]:
    """Return the tests, the most urgent first, each in every run, and how many are left out."""
    by_nodeid: dict[str, list[TestReport | None]] = {}
    for number, run in enumerate(runs):
        for test in run.tests:
            by_nodeid.setdefault(test.nodeid, [None] * len(runs))[number] = test
    ordered = sorted(by_nodeid.items(), key=lambda item: min(map(weight, filter(None, item[1]))))
    passing = [
        nodeid
        for nodeid, here in ordered
        if not any(standing(test) in NAMED or is_red(test) for test in filter(None, here))
    ]
    unlisted = set(passing[MOST_PASSED:])
    return [item for item in ordered if item[0] not in unlisted], len(unlisted)


def _accept_commands(
    runs: Sequence[ProfileRun], notes: CheckNotes
) -> Mapping[tuple[int, str], str]:
    """Return the command that accepts a test, where one can, by number of the run and node id."""
    return {
        (number, test.nodeid): f"{notes.accept} --tests {shlex.quote(test.nodeid)}"
        if notes.accept
        else Typed().accept(report.path or report.name, nodeid=test.nodeid)
        for number, run in enumerate(runs)
        for report in run.reports
        for test in report.tests
        if acceptable(test) and (run.profile, test.nodeid) not in notes.by_run
    }


def _causes(runs: Sequence[ProfileRun], nodeids: Iterable[str], shared: Shared) -> Plain:
    """Return each cause of failed tests once; its tests are numbers of tests on the page.

    ``nodeids`` are the tests on the page. No test with a cause is missing: ``_ordered`` leaves out
    only tests that are not red.
    """
    order = {nodeid: number for number, nodeid in enumerate(nodeids)}
    tests = {test_name(test, run, runs): test for run in runs for test in run.tests}
    causes = root_causes(tests.items())
    return {
        "headline": headline(causes),
        "rest": max(len(causes.findings) - MOST_CAUSES, 0),
        "list": [
            {
                "title": cause.generalize().title,
                "at": shared.frame(cause.where) if cause.where.file else None,
                "try": next(iter(cause.fix), None),
                "first": clean(cause.tests[0]),
                "graphs": cause.growth,
                "red": len(cause.tests),
                "tests": list(dict.fromkeys(order[tests[name].nodeid] for name in cause.tests)),
            }
            for cause in causes.findings[:MOST_CAUSES]
        ],
    }


def _kind(name: str) -> Plain:
    """Return what the page needs to know of the verdict behind a standing."""
    kind = BY_VERDICT.get(name, VerdictKind(name))
    return {
        "named": name in NAMED,
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


def _run(run: ProfileRun) -> Plain:
    facts = run.reports[0].environment
    versions = {**facts.versions, "python": facts.python}
    shown = [f"{name.replace('_', '-')} {version}" for name, version in versions.items() if version]
    shown += [facts.platform] if facts.platform else []
    return {
        "label": clean(run.label),
        "facts": [clean(fact) for fact in shown],
        "counts": count_standings(run.tests),
        "reports": len(run.reports),
        "unmeasured": [clean(name) for name in run.unmeasured],
        "stale": [clean(name) for name in run.stale],
        "ungated": [clean(name) for name in run.ungated],
    }


def _test(
    nodeid: str,
    here: Sequence[TestReport | None],
    shared: Shared,
    accept: Mapping[tuple[int, str], str],
) -> Plain:
    places = Rows(len(here), shared)
    runs = [
        None if test is None else _result(number, test, places, accept.get((number, nodeid), ""))
        for number, test in enumerate(here)
    ]
    present = [(number, test) for number, test in enumerate(here) if test is not None]
    return {
        "id": clean(nodeid),
        "worst": min(present, key=lambda pair: weight(pair[1]))[0],
        "growth": _growth([test for _, test in present]),
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


def _result(number: int, test: TestReport, places: Rows, accept: str) -> Plain:
    was = test.baseline
    places.add_baseline(number, was)
    places.add_seen(number, test)
    return {
        "verdict": standing(test),
        "outcome": test.outcome,
        "failedBy": test.failed_by,
        "attempts": test.attempts,
        "accept": clean(accept),
        "layers": [
            _layer(number, move, test, places)
            # A test without graphs shows its deepest layer.
            for move in moves(test) or [Move(layer, None, 0) for layer in test.record.layers[-1:]]
        ],
        "ran": list(_runs_and_reads(test)),
        "steps": [
            [
                sum(filter(None, numbers.values()))
                for numbers in (step.graphs, step.executions, step.reads)
            ]
            for step in test.steps[:MOST_STEPS]
        ],
        "recompiles": sum(test.record.recompiles.values()),
        "breaks": was_and_now(None if was is None else len(was.breaks), len(test.record.breaks)),
        "eager": _eager(test.record, was),
        "message": "\n".join(clean(line) for line in (test.message or "").split("\n")),
        "notes": [clean(note) for note in _notes(test)],
    }


def _eager(record: Record, was: Values | None) -> Plain:
    """Return the numbers of places that left the compiler, of the layers that are compared."""
    if was is None:
        return was_and_now(None, len(record.eager))
    layers = JUDGED | was.layers
    return was_and_now(len(was.eager), sum(item.layer in layers for item in record.eager))


def _runs_and_reads(test: TestReport) -> Iterator[Plain]:
    """Yield runs and reads by layer, with those of the baseline if it has them."""
    baseline = test.baseline
    for word, after in (("executions", test.record.executions), ("reads", test.record.reads)):
        for layer, now in after.items():
            knows = baseline is not None and baseline.knows_runs(layer)
            was = getattr(baseline, word).get(layer, 0) if knows else None
            if now is not None and (now or was):
                yield {"name": f"{layer} {word}", **was_and_now(was, now)}


def _notes(test: TestReport) -> Iterator[str]:
    yield from test.record.errors
    if test.record.note:
        yield test.record.note
    if test.ungated is not None:
        yield f"not gated: {test.ungated}"
    if test.foreign:
        yield f"judged by the values of {test.foreign}; this profile has none of its own"
    compiled = [f"{count} {layer}" for layer, count in test.setup.graphs.items() if count]
    if compiled:
        yield f"compiled around the test, by fixtures: {', '.join(compiled)}"


def _layer(number: int, move: Move, test: TestReport, places: Rows) -> Plain:
    graphs = [graph for graph in test.record.graph_list if graph.layer == move.layer]
    return {
        "name": move.layer,
        "was": move.was,
        "now": move.measured,
        "graphs": [_graph(number, graph, places) for graph in graphs[:MOST_GRAPHS]],
    }


def _graph(number: int, graph: Graph, places: Rows) -> Plain:
    """Return a graph; ``place`` is the row that says why it exists, and empty keys are left out."""
    described = {
        "name": clean(graph.name),
        "cause": clean(graph.cause),
        "ops": graph.ops,
        "place": places.of_graph(number, graph),
        "at": places.shared.frame(graph.where),
        "from": [clean(name) for name in graph.sources] or None,
        "inputs": graph.inputs,
        "outputs": graph.outputs,
        "cached": None if graph.cached in (None, "compiled") else clean(graph.cached),
        "seconds": graph.seconds,
        "model": clean(graph.owner) if graph.owner else None,
    }
    return {name: value for name, value in described.items() if value is not None}


def _fill(data: Plain) -> str:
    """Return the page with its style, its script and data in it."""
    # The tests are JSON already, and are put between the brackets of an empty list at the end.
    others = {name: value for name, value in data.items() if name != "tests"}
    before_tests = script_json({**others, "tests": []}).removesuffix("]}")
    tests = ",".join(data["tests"])
    style = _asset("page.css")
    script = f'"use strict";\n(() => {{\n{_asset("shared.js")}\n{_asset("page.js")}}})();\n'
    return (
        _asset("frame.html")
        .replace("{{body}}", _asset("page.html"))
        .replace("{{style-hash}}", _hash(style))
        .replace("{{script-hash}}", _hash(script))
        .replace("{{title}}", "Graph budget")
        .replace("{{style}}", style)
        .replace("{{script}}", script)
        # The data comes last, so that nothing in it is replaced.
        .replace("{{data}}", f"{before_tests}{tests}]}}")
    )


def _asset(name: str) -> str:
    return (resources.files(__package__) / "assets" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
