"""What is put on pytest's report of a test: its entry, sections, and a coloured failure text.

``plugin`` calls ``attach`` where pytest makes a report, in the process of the test, and ``colour``
where a report is logged: in that process, and with xdist once more in the controller, which got
the text as plain lines.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import pytest
from msgspec.structs import replace

from pytest_graphbreak.suite.entry import ENTRY, FAILED_SUBTEST, RUNNING, entry_on
from pytest_graphbreak.suite.gate import GATE
from pytest_graphbreak.text.output import TextLine, plain_text, unpack
from pytest_graphbreak.text.terminal import columns, spans
from pytest_graphbreak.text.wrapping import wrap_line

if TYPE_CHECKING:
    from pytest_graphbreak.model.forms import Plain

_COLOUR: Final = re.compile(r"\x1b\[[\d;]*m")
# DEBUG    torch.__trace:_internal.py:1310
_EMPTY_TRACE: Final = re.compile(r"DEBUG +torch\.__trace:\S+:\d+ *$")


class GraphBudgetFailure(pytest.fail.Exception):  # type: ignore[misc, name-defined]
    """A failure that the gate caused, never one of the test itself."""


def attach(item: pytest.Item, call: pytest.CallInfo[Any], report: pytest.TestReport) -> None:
    """Put the plain dict of a test on its report, and state who failed the test.

    - Of a subtest, whose report is made while the call still runs: only whether one failed.
    - Of a phase that passed: the entry.
    - Of a phase that the test or the gate failed: the entry, with who failed it (``_attribute``).
    - Of a phase in which a block failed: the entry, with the failure of the block.
    """
    block = _entry_of_block(call)
    if block:
        report.graphbreak_block = True  # type: ignore[attr-defined]
        report.sections[:] = _without_trace(report.sections)
    if ENTRY not in item.stash:  # it is not measured
        return
    if call.when == "call" and item.stash.get(RUNNING, False):  # of a subtest
        item.stash[FAILED_SUBTEST] = item.stash.get(FAILED_SUBTEST, False) or report.failed
        return
    entry = item.stash[ENTRY]
    if report.failed and call.when in ("setup", "call"):
        _attribute(item, call, report, has_text=bool(block))
    if block and report.failed:
        entry.update(block, failed_by="gate")
    if item.config.getoption("tbstyle", default="auto") == "line":
        report.graphbreak_line = True  # type: ignore[attr-defined]
    # A copy, since the dict still grows: the tear-down adds what it compiled.
    report.graphbreak = dict(entry)  # type: ignore[attr-defined]


def _attribute(
    item: pytest.Item, call: pytest.CallInfo[Any], report: pytest.TestReport, *, has_text: bool
) -> None:
    """State who failed a phase, and add what was observed of a test that failed by itself.

    ``has_text`` is true if a block failed, whose own failure says what was observed.
    """
    entry = item.stash[ENTRY]
    if call.when == "call":
        ours = call.excinfo is not None and isinstance(call.excinfo.value, GraphBudgetFailure)
        entry["failed_by"] = "gate" if ours else "test"
        if ours:
            report.sections[:] = _without_trace(report.sections)
            return
    if "verdict" in entry and not has_text:
        if call.when == "call":
            # Its verdict was that of a test that passed: a unittest class holds back its failure
            # until the call is judged.
            entry.update(verdict="none", message=None)
        _add_section(item, call, report)


def colour(report: pytest.TestReport) -> None:
    """Colour and wrap the gate's failure text where it is printed.

    The text itself crosses processes as a plain str, and stays a str in junit.
    """
    data = entry_on(report)
    if report.when == "call" and data.get("failed_by") == "gate" and not data.get("block"):
        is_line = hasattr(report, "graphbreak_line")
        lines = unpack(data["lines"])
        report.longrepr = FailureText(lines, report.location, line=is_line)  # type: ignore[assignment]


def _entry_of_block(call: pytest.CallInfo[Any]) -> Plain:
    """Return the entry of a block, ``with graph_budget(...)`` or ``observe``, that failed."""
    watch = sys.modules.get("pytest_graphbreak.measuring.watch")
    error = call.excinfo.value if call.excinfo else None
    return error.entry if watch and isinstance(error, watch.BudgetExceeded) else {}


def _without_trace(sections: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return captured logs without the empty records of ``torch.__trace``.

    From 9.1 on, pytest listens to loggers that do not propagate, so a test that compiles fills its
    log with hundreds of them, which would hide the text of the gate above. On a terminal, pytest
    colours the level of each. A log that had nothing else is left out.
    """
    kept = []
    for name, text in sections:
        shown = _without_empty_records(text) if "log" in name else text
        if shown or not text:  # a section that was empty before stays
            kept.append((name, shown))
    return kept


def _without_empty_records(log: str) -> str:
    lines = log.splitlines(keepends=True)
    return "".join(line for line in lines if not _EMPTY_TRACE.match(_COLOUR.sub("", line)))


def show_section(report: pytest.TestReport, words: str, config: pytest.Config) -> None:
    """Add a section to a failure; ``--show-capture=no`` hides those of the report itself."""
    add = getattr(report.longrepr, "addsection", None)
    if config.getoption("showcapture", default="all") == "no" and add is not None:
        add("graph budget", words)
    else:
        report.sections.append(("graph budget", words))


def _add_section(item: pytest.Item, call: pytest.CallInfo[Any], report: pytest.TestReport) -> None:
    """Add what a test that failed by itself compiled, and the kind of its compile failure."""
    from pytest_graphbreak.advice import triage
    from pytest_graphbreak.model.record import Record
    from pytest_graphbreak.report.unjudged import describe

    entry = item.stash[ENTRY]
    record = Record.from_dict(entry.get("record", {}))
    if not record.active and not record.errors:
        return
    words = plain_text(describe(record))
    if record.active and call.excinfo is not None:
        typed = item.config.stash[GATE].settings.typed
        again, tool = typed.test(entry["nodeid"]), typed.graphbreak()
        words = "\n".join((words, *triage.of_error(call.excinfo.value, again, tool)))
    report.sections[:] = _without_trace(report.sections)
    show_section(report, words, item.config)


# A failure as pytest shows it (``TestReport.longrepr``), and lines by pytest's writer.

Location = tuple[str, int | None, str]
"""pytest's ``TestReport.location``: file, 0-based line, name."""


class Crash:
    """The place and message that pytest's short summary shows on one line."""

    def __init__(self, location: Location, message: str) -> None:
        self.path = location[0]
        self.lineno = (location[1] or 0) + 1
        self.message = message

    def __str__(self) -> str:
        return f"{self.path}:{self.lineno}: {self.message}"


class FailureText:
    """The failure text as pytest shows it: coloured on a terminal, plain text elsewhere.

    With ``line`` (``--tb=line``), only pytest's own line of ``reprcrash`` is shown.
    """

    def __init__(
        self, lines: Sequence[TextLine], location: Location, *, line: bool = False
    ) -> None:
        self.lines = lines
        self.line = line
        self.message = plain_text(lines)
        self.reprcrash = Crash(location, self.message.partition("\n")[0])

    def __str__(self) -> str:
        return self.message

    def toterminal(self, tw: Any) -> None:
        if not self.line:
            write_lines(self.lines, tw)

    def shorten(self, first: str) -> None:
        """Show only three lines, and point to ``first``, a test whose failure shows the rest."""
        self.lines = list(pointing_to(self.lines, first))


def pointing_to(lines: Sequence[TextLine], first: str) -> Iterator[TextLine]:
    """Yield the headline of a failure, its first cause, and the test that shows the rest.

    The cause is named by its place, where it has one: its reason is in the other test.
    """
    yield lines[0]
    causes = [at for at, line in enumerate(lines) if line.kind in ("new", "lost")]
    for at in causes[:1]:  # a failure without places has none
        place = next((line.text for line in lines[at:] if line.kind == "place"), "")
        yield replace(lines[at], text=place or lines[at].text)
    others = f"and {len(causes) - 1} more, " if len(causes) > 1 else ""
    yield TextLine(f"{others}as in {first}", indent=6)


def write_lines(lines: Iterable[TextLine], tw: Any) -> None:
    """Write lines with pytest's writer, in its colours; in a file they are not wrapped."""
    width = columns(getattr(tw, "_file", None))
    for line in lines:
        for row in wrap_line(line.harmless(), width):
            for text, markup in spans(row, line.kind):
                tw.write(text, **dict.fromkeys(markup, True))
            tw.line()
