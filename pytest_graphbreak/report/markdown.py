"""The report as a comment on a pull request in GitHub's markdown, most important first.

    ### Graph budget: 3 tests are over their graph budget     _headline
    **1 place explains 3 red tests**                          _causes
    - cpu, torch 2.13: 3 over, 20 ok                          _environment, for each run
    **Stale baseline entries** ...                            _add_notices
    | verdict | test | graphs | graph breaks |                _table
    **What changed in tests that pass:** ...                  _passing_changes
    > tests/test_a.py::test_one on cpu                        _details, folded
    To accept these counts, in a checkout: ...                _next

``render`` is called by ``report`` and ``check`` of the command with ``--markdown``, and for the
step summary of a run on GitHub (``report.github``). The text is limited in bytes (GitHub accepts
65,536 characters in a comment and 1 MiB in a step summary) and states what it leaves out. So each
part is added to a ``BoundedText`` and has a share of the limit.

A ``ProfileRun`` is the report of one run, with its tests; ``CheckNotes`` is what ``check`` knows
besides, such as missing reports. What a test counts as, its standing, is a verdict or another word
for what is not judged (``report.standing``). A test has a row in the table if its standing is one
of ``NAMED``, and folded details if it is the first of a cause, or was not failed by the gate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pytest_graphbreak.judging.finding import Finding
from pytest_graphbreak.judging.findings import findings_of_record
from pytest_graphbreak.model.differences import FAILING
from pytest_graphbreak.model.layers import LAYERS
from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.report.counts import made_of
from pytest_graphbreak.report.lines import lines
from pytest_graphbreak.report.root_causes import (
    RootCauses,
    cause_lines,
    headline,
    passing_changes,
    passing_lines,
    root_causes,
)
from pytest_graphbreak.report.runs import NO_NOTES, CheckNotes, ProfileRun, test_name
from pytest_graphbreak.report.standing import (
    NAMED,
    REPORTED,
    UNGATED,
    UNJUDGED,
    acceptable,
    count_standings,
    is_red,
    moved_totals,
    moves,
    standing,
    standing_words,
    weight,
)
from pytest_graphbreak.report.unjudged import unjudged_lines
from pytest_graphbreak.text import safe
from pytest_graphbreak.text.files import PAGE_MARK
from pytest_graphbreak.text.numbers import plural
from pytest_graphbreak.text.output import TextLine, plain_text
from pytest_graphbreak.text.wrapping import wrap_line

COMMENT: Final = 64_000
"""Maximum bytes of a comment: below the limit in characters, with space for a greeting."""
SUMMARY: Final = 1_000_000
"""Maximum bytes of a step summary."""

MARK: Final = f"{PAGE_MARK} -->"
"""The first line, by which a bot finds its earlier comment."""

_WIDE: Final = 100
"""Columns of a line of advice: about as many as a comment shows without scrolling."""
_LONGEST_NAME: Final = 200
"""Characters of a node id, a label or a note, which is cut in its middle."""
_NAMES: Final = 10
"""The number of lines of one kind that are listed."""
_RUNS: Final = 20
"""The number of runs that are listed with their versions."""
_LONGEST_MESSAGE: Final = 6_000
"""Characters of one preformatted block."""
_UNFOLDED: Final = 20
"""The number of rows of the table that are not folded."""
_FOLD_END: Final = "\n</details>\n"
_RESERVE: Final = 700
"""Bytes reserved for the lines at the end: what was left out, what to do next."""


def render(runs: Sequence[ProfileRun], limit: int = COMMENT, notes: CheckNotes = NO_NOTES) -> str:
    """Return the comment for these runs, at most ``limit`` bytes of UTF-8 (``limit`` >= 4,000)."""
    rows = sorted(
        ((run, test) for run in runs for test in run.tests if standing(test) in NAMED),
        key=lambda pair: weight(pair[1]),
    )
    page = BoundedText(limit - _RESERVE)
    page.add(f"{MARK}\n### {_headline(runs, notes)}\n\n")
    failing = {
        test_name(test, run, runs): (run, test)
        for run, test in rows
        if is_red(test) or test.verdict in FAILING
    }
    causes = root_causes((name, test) for name, (_, test) in failing.items())
    page.add(_causes(causes, limit // 4))
    _add_list(page, _environment(runs), len(runs), "run", limit // 8)
    _add_notices(page, runs, notes, limit // 16)
    # The table may take half of the space; the rest is for the reasons of the first tests.
    shown = _table(page, rows, names_runs=len(runs) > 1, limit=limit // 2)
    page.add(
        _passing_changes(passing_changes((test_name(test, run, runs), test) for run, test in rows))
    )
    firsts = set(causes.firsts)
    folded = [
        pair for name, pair in failing.items() if name in firsts or pair[1].failed_by != "gate"
    ]
    left_out = _details(page, folded)
    if others := len(failing) - len(folded):
        verb = "is" if others == 1 else "are"
        page.add(f"\n{plural(others, 'more test')} {verb} red for the same causes.\n")
    page.add(_unjudged_block(runs))
    page.limit += _RESERVE
    page.add(_left_out(len(rows) - shown, left_out))
    page.add(_next(rows, notes))
    return page.text


class BoundedText:
    """Text that grows as long as it fits into ``limit`` bytes of UTF-8.

    A part that is too long is left out as a whole, and later, shorter ones may still fit.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self._parts: list[str] = []

    def add(self, text: str) -> bool:
        """Append the text if it fits, and return whether it did."""
        size = len(text.encode())
        if self.size + size > self.limit:
            return False
        self.size += size
        self._parts.append(text)
        return True

    @property
    def text(self) -> str:
        return "".join(self._parts)


_RED: Final = {
    "error": ("could not be measured", "could not be measured"),
    "over": ("test is over its graph budget", "tests are over their graph budget"),
    "lost": ("test lost compiled code", "tests lost compiled code"),
    "new": ("test has no baseline", "tests have no baseline"),
    "improved": (
        "test makes fewer graphs than its baseline",
        "tests make fewer graphs than their baselines",
    ),
    "changed": ("test differs from its baseline", "tests differ from their baselines"),
}
"""The words for one failed test, and for several, by verdict; the most urgent first."""


def _headline(runs: Sequence[ProfileRun], notes: CheckNotes) -> str:
    """Return the first line: the red tests by verdict, else how many tests were judged."""
    tests = [test for run in runs for test in run.tests]
    verdicts, red = count_standings(tests), Counter(test.verdict for test in tests if is_red(test))
    parts = [f"no verdict, {notes.no_verdict}"] if notes.no_verdict else []
    parts += [
        f"{count} {words[count > 1]}" for verdict, words in _RED.items() if (count := red[verdict])
    ]
    blind = sum(len(run.unmeasured) for run in runs)
    if blind:
        parts.append(f"{blind} not measured")
    total = sum(verdicts.values())
    if not parts:
        parts.append(f"{plural(total, 'test')}")
        others = verdicts.get(UNJUDGED, 0)
        words = "not judged" if others == total else "none over budget"
        if others and others < total:
            words += f", {others:,} not judged"
        parts.append(words if total else "so nothing was judged")
    if REPORTED in verdicts:
        parts.append(f"{verdicts[REPORTED]:,} without a baseline")
    if UNGATED in verdicts:
        parts.append(f"{verdicts[UNGATED]:,} not gated")
    return f"Graph budget: {', '.join(parts)}"


def _causes(causes: RootCauses, size: int) -> str:
    """Return each cause of failed tests once, as many as fit into ``size`` bytes."""
    if not causes.places:
        return ""
    rows: list[str] = []
    left_out = len(causes.findings)
    for cause in causes.findings:
        rows_of_cause = _wrapped(cause_lines(cause))
        size -= sum(len(safe.preformatted_block(row).encode()) for row in rows_of_cause)
        if size < 0:
            break
        rows += rows_of_cause
        left_out -= 1
    if left_out:
        rows.append(f"  ... and {plural(left_out, 'more cause')}")
    block = safe.preformatted_block("\n".join(rows))
    return f"**{headline(causes)}**\n\n{block}\n\n"


def _passing_changes(findings: Sequence[Finding]) -> str:
    """Return what changed in passing tests, each place once."""
    if not findings:
        return ""
    title, *rows = _wrapped(passing_lines(findings))
    block = _block("\n".join(rows))
    return f"\n**{title}**\n\n{block}\n"


def _wrapped(lines: Iterable[TextLine]) -> list[str]:
    return [str(row) for line in lines for row in wrap_line(line.harmless(), _WIDE)]


def _unjudged_block(runs: Sequence[ProfileRun]) -> str:
    """Return what tests made that were not judged, as on a terminal."""
    text = plain_text(unjudged_lines(test for run in runs for test in run.tests))
    return f"\n{_block(text)}\n" if text else ""


def _add_notices(
    page: BoundedText, runs: Sequence[ProfileRun], notes: CheckNotes, size: int
) -> None:
    """Add what is to be known besides the tests; each list takes at most ``size`` bytes."""
    for title, names in (
        ("Cannot be judged", list(notes.problems)),
        ("Missing", list(notes.missing)),
        ("Unmeasured", [name for run in runs for name in run.unmeasured]),
        ("Not gated", [name for run in runs for name in run.ungated]),
        ("Stale baseline entries", [name for run in runs for name in run.stale]),
    ):
        if names and page.add(f"\n**{title}**\n\n"):
            lines = (f"- {_code(name)}\n" for name in names[:_NAMES])
            _add_list(page, lines, len(names), "", size)


def _environment(runs: Sequence[ProfileRun]) -> Iterator[str]:
    for run in runs[:_RUNS]:
        versions = "".join(
            f", {name} {_code(version, 40)}" for name, version in run.versions.items()
        )
        yield f"- {_code(run.label)}{versions}: {standing_words(run.tests, 'no tests')}\n"


def _code(text: str, most: int = _LONGEST_NAME) -> str:
    if len(text) > most:  # a node id tells most at its ends
        text = f"{text[: most // 2]}...{text[-(most // 2 - 3) :]}"
    return safe.markdown(text)


def _add_list(page: BoundedText, lines: Iterable[str], total: int, word: str, size: int) -> None:
    """Add as many lines as fit into ``size`` bytes, and how many more of ``total`` there are."""
    end, shown = page.size + size, 0
    for line in lines:
        if page.size + len(line.encode()) > end or not page.add(line):
            break
        shown += 1
    if shown < total:
        left_out = total - shown
        words = plural(left_out, f"more {word}") if word else f"{left_out:,} more"
        page.add(f"- and {words}\n")


def _table(
    page: BoundedText,
    rows: Sequence[tuple[ProfileRun, TestReport]],
    *,
    names_runs: bool,
    limit: int,
) -> int:
    """Add the table of tests, and return how many rows fit.

    The first rows are always visible; further ones are folded.
    """
    if not rows:
        return 0
    column, line = ("| run ", "|---") if names_runs else ("", "")
    head = f"\n| verdict {column}| test | graphs | graph breaks |\n|---{line}|---|---|---|\n"
    for number, (run, test) in enumerate(rows):
        row = _row(run if names_runs else None, test)
        if number == 0:
            row = head + row  # together, since there is no table without a row
        if page.size + len(row.encode()) > limit:
            if number > _UNFOLDED:
                page.add(_FOLD_END)
            return number
        if number == _UNFOLDED:
            page.add(f"\n<details><summary>{len(rows) - number:,} more</summary>\n{head}")
        page.add(row)
    if len(rows) > _UNFOLDED:
        page.add(_FOLD_END)
    return len(rows)


def _row(run: ProfileRun | None, test: TestReport) -> str:
    """Return the row of a test; ``run`` is None without a column of runs."""
    # **dynamo 1 → 3 (+2)**, and without stars what did not grow
    graphs = [
        f"{'**' if move.growth > 0 else ''}{str(move).replace('->', '→')}"
        f"{f' ({move.growth:+d})**' if move.growth > 0 else ''}"
        for move in moves(test)
    ]
    graphs += (words.replace("->", "→") for words in moved_totals(test))
    cells = [standing(test), _code(test.nodeid), ", ".join(graphs)]
    if run is not None:
        cells.insert(1, _code(run.label, 60))
    return f"| {' | '.join((*cells, _breaks(test)))} |\n"


def _breaks(test: TestReport) -> str:
    """Return the graph breaks of a test, ``0 → 1`` if the baseline has another number."""
    after = len(test.record.breaks)
    if test.baseline is None:
        return str(after or "")
    before = len(test.baseline.breaks)
    return str(after or "") if before == after else f"{before} → {after}"


def _details(page: BoundedText, failing: Sequence[tuple[ProfileRun, TestReport]]) -> int:
    """Add the reasons, folded by test, as long as they fit; return how many did not."""
    for number, (run, test) in enumerate(failing):
        title = f"{_code(test.nodeid)} on {_code(run.label, 60)}"
        body = _block("\n".join(_reasons(test)))
        if not page.add(f"\n<details><summary>{title}</summary>\n\n{body}\n{_FOLD_END}"):
            return len(failing) - number
    return 0


def _reasons(test: TestReport) -> Iterator[str]:
    """Yield the text that the failed test showed, or else its causes and breaks."""
    if test.message:
        yield test.message.rstrip()
        return
    record = test.record
    for layer in LAYERS:
        if parts := made_of(layer, record):
            yield f"{layer}: {parts}"
    yield from record.errors
    for finding in findings_of_record(record):
        yield plain_text(lines(finding))


def _block(text: str) -> str:
    """Return a preformatted block; of a long text the first lines, and how many more there are."""
    if len(text) > _LONGEST_MESSAGE:
        lines = text[:_LONGEST_MESSAGE].split("\n")
        left_out = len(text.split("\n")) - len(lines)
        text = "\n".join((*lines, f"... and {left_out} more lines" if left_out else "..."))
    return safe.preformatted_block(text)


def _left_out(rows: int, reasons: int) -> str:
    parts = [f"{plural(rows, 'more test')} moved"] if rows else []
    parts += [f"the reasons of {plural(reasons, 'test')}"] if reasons else []
    if not parts:
        return ""
    return f"\nLeft out for its length: {' and '.join(parts)}. The JSON reports hold all of it.\n"


def _next(rows: Iterable[tuple[ProfileRun, TestReport]], notes: CheckNotes) -> str:
    tests = (test for run, test in rows if (run.profile, test.nodeid) not in notes.by_run)
    if not any(map(acceptable, tests)):
        return ""
    if notes.accept:
        return f"\nTo accept these counts, in a checkout:\n\n```sh\n{notes.accept}\n```\n"
    return (
        "\nTo accept these counts, download the JSON reports of this run into a checkout "
        "and run `graphbreak accept REPORT.json...`.\n"
    )
