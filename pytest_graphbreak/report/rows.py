"""The rows of a test on the page: what cut it apart, was compiled again, or left the compiler.

A row is a finding, with a count for each run: ``was``, the count in the baseline of that run (None
if there is no baseline, or if baselines do not have this kind), and ``now``, that was seen.
``html`` makes a ``Rows`` for each test, and one ``Shared`` for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from pytest_graphbreak.judging import guards
from pytest_graphbreak.judging.attribution import Key, cause_keys, key_of
from pytest_graphbreak.judging.difference import observed_changes
from pytest_graphbreak.judging.finding import GONE, Finding
from pytest_graphbreak.judging.findings import finding_of_place, findings_of_changes
from pytest_graphbreak.judging.measured import cause_of, place_of
from pytest_graphbreak.model.budget import Values, writable
from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.model.items import NOWHERE, Break, Eager, Frame, Graph, Recompile
from pytest_graphbreak.model.layers import JUDGED, reason_key
from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.report.checkout import CheckoutSources
from pytest_graphbreak.text.safe import printable


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
            file, function, code = map(clean, (where.file, where.function, where.code))
            frame = {"file": file, "line": where.line, "function": function, "code": code}
            if excerpt is not None:
                frame |= {"first": excerpt[0], "source": [clean(line) for line in excerpt[1]]}
            self.frames.append(frame)
        return self._frames[where]

    def text(self, text: str) -> int:
        """Return the number of a text."""
        if text not in self._texts:
            self._texts[text] = len(self.texts)
            self.texts.append(clean(text))
        return self._texts[text]


def clean(text: str) -> str:
    return text if text.isprintable() else printable(text)


class Rows:
    """The rows of one test, of all runs.

    For each run, ``add_baseline`` comes before ``add_seen``, and ``of_graph`` after both.

    In a row, ``at``, ``stack`` and ``raised`` are numbers of frames, ``reason``, ``more`` and
    ``try`` numbers of texts (``Shared``); ``counts`` has a ``was_and_now`` for each run.
    """

    def __init__(self, runs: int, shared: Shared) -> None:
        self.rows: list[Plain] = []
        self.shared = shared
        self._runs = runs
        # All three have numbers of rows, places in ``rows``.
        self._index: dict[tuple[str, ...], int] = {}
        """By ``_key``: it joins what a baseline and several runs have of one place."""
        self._of_cause: dict[tuple[int, Key], int] = {}
        """By run and cause: the row of the graphs that a break or a recompile made."""
        self._of_graph: dict[tuple[int, str, str], int] = {}
        """By run, layer and name of a graph: the row of the recompile that made this graph."""
        self._causes: dict[int, Mapping[tuple[str, str], Key]] = {}
        """The cause of each graph of a run (``cause_keys``)."""

    def add_baseline(self, run: int, values: Values | None) -> None:
        """Add the places of the baseline of this run, including those that are gone."""
        if values is None:
            return
        for kind, places in (("break", values.breaks), ("eager", values.eager)):
            for place in places:
                finding = finding_of_place(GONE, kind, place)
                reason = reason_key(place.layer, writable(finding.reason))
                row = self._row(finding, (kind, *place_of(finding.where), *reason))
                row["counts"][run]["was"] = place.count

    def add_seen(self, run: int, test: TestReport) -> None:
        """Add what was seen in this run."""
        record = test.record
        self._causes[run] = cause_keys(record)
        for finding in _with_consequences(findings_of_changes(observed_changes(record), record)):
            key = _key(finding)
            row, index = self._row(finding, key), self._index[key]
            self._describe(row, finding)
            _count(row["counts"][run], finding, test)
            for item in finding.items:
                if not isinstance(item, Eager):  # what runs eagerly is the cause of no graph
                    self._of_cause.setdefault((run, key_of(item)), index)
                if isinstance(item, Recompile):
                    self._of_graph[run, item.layer, item.graph] = index

    def of_graph(self, run: int, graph: Graph) -> int | None:
        """Return the row that says why this graph exists, or None for a graph that is intended.

        A recompile names its graph. Any other graph is found by its cause.
        """
        number = self._of_graph.get((run, graph.layer, graph.name))
        if number is None:
            cause = self._causes[run].get((graph.layer, graph.name), ())
            number = self._of_cause.get((run, cause))
        return number

    def _row(self, finding: Finding, key: tuple[str, ...]) -> Plain:
        if key not in self._index:
            self._index[key] = len(self.rows)
            self.rows.append(
                {
                    "kind": clean(finding.kind),
                    "layer": finding.layer,
                    "id": clean(finding.id) or None,
                    "reason": self.shared.text(finding.reason),
                    "at": self.shared.frame(finding.where),
                    "counts": [was_and_now(None, 0) for _ in range(self._runs)],
                    "stack": [],
                    "more": [],
                    "graphs": [],
                    "try": None,
                }
            )
        return self.rows[self._index[key]]

    def _describe(self, row: Plain, finding: Finding) -> None:
        """Set what a run knows of a place and a baseline does not: its line, and how to fix it."""
        if finding.where != NOWHERE:
            row["at"] = self.shared.frame(finding.where)
        row["try"] = self.shared.text(finding.fix[0]) if finding.fix else None
        row["graphs"] += map(clean, finding.recompiled_graphs)
        calls = [frame for frame in finding.stack if frame not in (NOWHERE, finding.where)]
        row["stack"] = list(map(self.shared.frame, calls)) or row["stack"]
        if finding.is_of(Break):
            breaks = (item for item in finding.items if isinstance(item, Break))
            texts = chain(*((item.explanation, *item.hints) for item in breaks))
            row["more"] = [self.shared.text(text) for text in filter(None, texts)]
            if finding.raising_line != NOWHERE:
                row["raised"] = self.shared.frame(finding.raising_line)


def _with_consequences(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield findings, each followed by its consequences."""
    for finding in findings:
        yield finding
        yield from _with_consequences(finding.below)


def _key(finding: Finding) -> tuple[str, ...]:
    """Return the key of the row of a finding, which is the same in each run."""
    place = ("", "") if finding.where == NOWHERE else place_of(finding.where)
    if finding.is_of(Break) or finding.is_of(Eager):
        # As in ``add_baseline``, whose row it joins.
        return (finding.kind, *place, *reason_key(finding.layer, writable(finding.reason)))
    return (
        "graph",
        finding.kind,
        finding.layer or "",
        guards.kind(finding.items[0].reason),
        *place,
    )


def was_and_now(was: int | None, now: int) -> Plain:
    """Return the two counts of a cell: that of the baseline, None if there is none, and now."""
    return {"was": was, "now": now}


def _count(pair: Plain, finding: Finding, test: TestReport) -> None:
    pair["now"] += finding.count
    if finding.seconds is not None:
        pair["seconds"] = round(pair.get("seconds", 0.0) + finding.seconds, 3)
    if pair["was"] is None:
        pair["was"] = _baseline_count(finding, test)


def _baseline_count(finding: Finding, test: TestReport) -> int | None:
    """Return how often the baseline has something that it does not name as a place, if known."""
    values, layer, item = test.baseline, finding.layer or "", finding.items[0]
    if values is None:
        return None
    if isinstance(item, Recompile):  # a baseline has their number, but not which ones
        return None if values.recompiles.get(layer) else 0
    if not isinstance(item, Graph):
        return 0
    if layer not in JUDGED and layer not in values.graphs:
        return None
    causes = values.causes_of(layer)
    if causes is None:
        return None
    return sum(cause.count for cause in causes if cause.key == cause_of(item).key)
