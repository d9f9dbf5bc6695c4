"""What was observed where nothing is judged: a script, a log, tests without gate or that failed.

- ``script_lines`` is the text of a script (``cli.run``); that of a log is made of the same parts
  (``logs.report``)::

      train.py   exit 0
        dynamo   6 graphs = 1 entry + 5 after a break; ...       counted_rows

        most frequent                                            found_lines
             4x  graph break  GB0124  Unsupported Tensor.item()

        dynamo graphs come from                                  home_lines
             2x  yolo/head.py:11 in Head.forward

        explain it: graphbreak explain branch                    pages

        try a fix: graphbreak fix train.py                       fix_commands

- ``unjudged_lines`` are of all tests of a run without the gate (summary, comment, ``report``).
- ``describe`` is the section of one test that failed by itself (``suite.reports``).

A ``Finding`` is what happened at one place (``judging.finding``). The home of a graph is the line
of source that it comes from, and its owner the model that was running.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import starmap
from typing import Final

from msgspec import structs

from pytest_graphbreak import advice
from pytest_graphbreak.config.typed import this_command
from pytest_graphbreak.judging.finding import Finding, distinct_findings
from pytest_graphbreak.judging.findings import findings_of_record
from pytest_graphbreak.model.items import Frame, Graph
from pytest_graphbreak.model.layers import JUDGED, LAYERS
from pytest_graphbreak.model.merging import total_seconds
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.report.counts import graphs_and_breaks, layer_counts, made_of
from pytest_graphbreak.report.lines import (
    MOST_PLACES,
    code,
    count_line,
    counted_lines,
    lines,
    measured_with,
    position,
)
from pytest_graphbreak.report.standing import tests_without_judgement, weight
from pytest_graphbreak.text import safe
from pytest_graphbreak.text.files import PAGE_MARK
from pytest_graphbreak.text.numbers import plural
from pytest_graphbreak.text.output import BLANK, TextLine, plain_text
from pytest_graphbreak.text.safe import cut

MOST: Final = 20
"""The number of entries of one section; the JSON report has all."""
MOST_REASONS: Final = 10
"""The number of reasons of several tests that are shown with their places."""
MOST_PAGES: Final = 3
"""The number of pages that are named by the commands that show them."""
_DEPTH: Final = 15
"""Columns before the source line of a home, which stands below its position."""

Homes = Mapping[str, Sequence[tuple[Frame, int]]]
"""By title, the homes of graphs and how many graphs come from each."""


def found_lines(findings: Sequence[Finding]) -> Iterator[TextLine]:
    """Yield the findings, most important first, with their models if there are several.

    ``findings_of_record`` has sorted them: by time, if one took at least a second, else by
    frequency. The first one shows which.
    """
    timed = bool(findings) and (findings[0].seconds or 0) >= 1
    with_owner = len({finding.owner for finding in findings}) > 1
    entries = [counted_lines(finding, with_owner=with_owner) for finding in findings]
    yield from section("most compile time" if timed else "most frequent", entries)


def models(record: Record, layer: str) -> dict[str, list[Graph]]:
    """Return the graphs of each model of a program; empty if there is only one model.

    A device graph has the owner of the FX graph that it was lowered from.
    """
    owners = {graph.name: graph.owner for graph in record.graph_list if graph.owner}
    groups: dict[str, list[Graph]] = {}
    for graph in record.graph_list:
        if graph.layer == layer:
            above = next((owners[name] for name in graph.sources if name in owners), None)
            groups.setdefault(graph.owner or above or "no model known", []).append(graph)
    return groups if len(groups) > 1 else {}


def homes_of(record: Record, layer: str) -> Homes:
    """Return the homes of the graphs of a layer, under one title, or one for each model."""
    graphs = [graph for graph in record.graph_list if graph.layer == layer]
    groups = {f"{layer} graphs come from": graphs}
    if by_model := models(record, layer):
        groups = {_model_title(layer, name, group): group for name, group in by_model.items()}
    return {
        title: Counter(graph.where for graph in group if graph.where.file).most_common()
        for title, group in groups.items()
    }


def _model_title(layer: str, name: str, graphs: Sequence[Graph]) -> str:
    """Return the title of a model: ``UNet: 5 dynamo graphs, 12.3 s``."""
    took = total_seconds(graphs)
    time = "" if took is None else f", {took:.1f} s"
    return f"{cut(name)}: {plural(len(graphs), f'{layer} graph')}{time}"


def home_lines(homes: Homes) -> Iterator[TextLine]:
    for title, places in homes.items():
        entries = [
            [
                count_line(count, cut(position(where))),
                *code(structs.replace(where, code=cut(where.code)), _DEPTH),
            ]
            for where, count in places
        ]
        yield from section(title, entries)


def section(title: str, entries: list[list[TextLine]], most: int = MOST) -> Iterator[TextLine]:
    """Yield a title and its entries, each of some lines; of more than ``most`` the rest is counted.

    Nothing is yielded without entries.
    """
    if not entries:
        return
    yield BLANK
    yield TextLine(title, indent=2)
    for entry in entries[:most]:
        yield from entry
    if len(entries) > most:
        yield TextLine(f"... and {len(entries) - most:,} more", indent=4)


def unjudged_lines(tests: Iterable[TestReport]) -> Iterator[TextLine]:
    """Yield the graphs and reasons of tests that were not judged, if there are any."""
    tests = tests_without_judgement(tests)
    if not tests:
        return
    records = [test.record for test in tests]
    yield TextLine(f"not judged: what {plural(len(records), 'test')} made, by cause")
    for layer in reversed(LAYERS):
        any_graph = any(record.graphs.get(layer) for record in records)
        if any_graph or (layer in JUDGED and any(layer in record.layers for record in records)):
            yield TextLine(layer_counts(layer, records, places=True), indent=2, head=f"{layer:<8} ")
    findings = findings_of_tests(tests)
    entries = [
        counted_lines(
            finding.generalize_if_shared(), after=f"   in {plural(len(finding.tests), 'test')}"
        )
        for finding in findings[:MOST_REASONS]
    ]
    yield from section("most frequent", entries)
    if len(findings) > MOST_REASONS:
        words = f"... and {plural(len(findings) - MOST_REASONS, 'more reason')} in the JSON report"
        yield TextLine(words, indent=4)


def findings_of_tests(tests: Iterable[TestReport]) -> list[Finding]:
    """Return each finding of tests that were not judged once, those of most tests first.

    The tests of a finding are named in the order of ``weight``, and the first one describes it.
    """
    urgent_first = sorted(tests_without_judgement(tests), key=weight)
    findings = distinct_findings(
        (
            (test.nodeid, finding)
            for test in urgent_first
            for finding in findings_of_record(test.record)
        ),
        lambda finding: finding.key,
    )
    return sorted(findings, key=lambda finding: (-len(finding.tests), -finding.count))


def describe(record: Record) -> list[TextLine]:
    """Return the record of a test that failed by itself, for the section below its traceback."""
    text = [TextLine(graphs_and_breaks(record))]
    for layer in record.layers:
        if parts := made_of(layer, record):
            text.append(TextLine(f"{layer}: {parts}", indent=2))
    for finding in findings_of_record(record)[:MOST_PLACES]:
        text += lines(finding)
    text += [TextLine(error, indent=2) for error in record.errors]
    text += measured_with(record)
    return text


def as_markdown(title: str, reports: Iterable[Iterable[TextLine]]) -> str:
    """Return reports as Markdown, for an issue or a pull request: the same lines, as text."""
    blocks = (safe.preformatted_block(plain_text(report)) for report in reports)
    return "\n\n".join((f"{PAGE_MARK} page -->\n# {title}", *blocks)) + "\n"


def script_lines(name: str, ended: str, record: Record) -> list[TextLine]:
    """Return the lines of a script. ``ended`` is how it ended: ``exit 0``."""
    findings = findings_of_record(record)
    return [
        TextLine(f"{name}   {ended}"),
        *starmap(counted_row, counted_rows(record)),
        *found_lines(findings),
        *home_lines(homes_of(record, record.headline)),
        *pages(findings),
        *fix_commands(name, record),
    ]


def counted_rows(record: Record) -> Iterator[tuple[str, str]]:
    """Yield the counts of each layer, deepest first, and why a count cannot be trusted."""
    for layer in reversed(LAYERS):
        if layer in record.layers and (layer in JUDGED or record.graphs.get(layer)):
            yield layer, layer_counts(layer, [record])
    if not record.layers:
        yield "graphs", "none: neither torch nor JAX was used"
    for error in record.errors:
        yield "error", f"could not see: {error}"
    if record.note:
        yield "note", record.note


def counted_row(label: str, text: str) -> TextLine:
    """Return a line of the table at the top of a report."""
    return TextLine(text, indent=2, head=f"{label:<8} ")


def pages(findings: Sequence[Finding]) -> Iterator[TextLine]:
    """Yield the commands that explain what was found; a finding with a ``fix`` needs none."""
    unadvised = (finding.items[0] for finding in findings[:MOST] if not finding.fix)
    topics = filter(None, dict.fromkeys(map(advice.topic, unadvised)))
    commands = [this_command().graphbreak("explain", topic) for topic in topics]
    if commands:
        yield BLANK
    for command in commands[:MOST_PAGES]:
        yield TextLine("explain it: ", indent=2, command=command)


def fix_commands(name: str, record: Record) -> Iterator[TextLine]:
    """Yield the commands that fix and reproduce what a script broke, if it did."""
    if name.endswith(".py") and any(item.layer == "dynamo" for item in record.breaks):
        yield BLANK
        for words, command in (("try a fix: ", "fix"), ("or make a script of it: ", "repro")):
            yield TextLine(words, indent=2, command=this_command().on_test(command, name))
