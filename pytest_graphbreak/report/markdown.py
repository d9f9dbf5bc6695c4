"""The report as a comment on a pull request: GitHub's markdown, most important first.

The text fits a limit in bytes (GitHub takes 65,536 characters in a comment and
1 MiB in a step summary) and says what it leaves out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pytest_graphbreak.record import LAYERS, Plain, Record, decomposition
from pytest_graphbreak.report import safe
from pytest_graphbreak.report.view import TOLD, Run, counted, moves, weight

COMMENT: Final = 64_000
"""Bytes of a comment: a byte is at least one character, and something is left for a greeting."""
SUMMARY: Final = 1_000_000
"""Bytes of a step summary."""

MARK: Final = "<!-- pytest-graphbreak -->"
"""The first line, by which a bot finds the comment that it wrote before."""

_FAILING: Final = ("error", "over", "lost", "new")
_WORDS: Final = {
    "error": ("could not be measured", "could not be measured"),
    "over": ("test is over its graph budget", "tests are over their graph budget"),
    "lost": ("test lost compiled code", "tests lost compiled code"),
    "new": ("test has no baseline", "tests have no baseline"),
}
_LONGEST_NAME: Final = 200
_LONGEST_MESSAGE: Final = 6_000
_UNFOLDED: Final = 20
"""Rows of the table that are seen at once."""
_FOLD_END: Final = "\n</details>\n"
_RESERVE: Final = 700
"""Bytes kept for the lines at the end: what was left out, what to do next."""


def render(runs: Sequence[Run], limit: int = COMMENT) -> str:
    """The comment for these runs, at most ``limit`` bytes of UTF-8 (``limit`` >= 4,000)."""
    told = sorted(
        ((run, test) for run in runs for test in run.tests if test["verdict"] in TOLD),
        key=lambda pair: weight(pair[1]),
    )
    page = _Page(limit - _RESERVE)
    page.add(f"{MARK}\n### {_headline(runs)}\n\n{_environment(runs)}\n")
    for title, names in (("Unmeasured", "unmeasured"), ("Stale baseline entries", "stale")):
        page.add(_names(title, [name for run in runs for name in getattr(run, names)]))
    # The table may take half: then there is room for the reasons of the first tests.
    shown = _table(page, told, len(runs) > 1, limit // 2)
    explained = _details(page, [pair for pair in told if pair[1]["verdict"] in _FAILING])
    page.reserve(_RESERVE)
    page.add(_left_out(len(told) - shown, explained))
    page.add(_next(told))
    return page.text


class _Page:
    """Text that grows while it fits."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self._parts: list[str] = []

    def add(self, text: str) -> bool:
        """Append if it fits; says whether it did."""
        size = len(text.encode())
        if self.size + size > self.limit:
            return False
        self.size += size
        self._parts.append(text)
        return True

    def reserve(self, size: int) -> None:
        self.limit += size

    @property
    def text(self) -> str:
        return "".join(self._parts)


def _headline(runs: Sequence[Run]) -> str:
    verdicts = counted(test for run in runs for test in run.tests)
    parts = [
        f"{verdicts[verdict]} {_WORDS[verdict][verdicts[verdict] != 1]}"
        for verdict in _FAILING
        if verdict in verdicts
    ]
    blind = sum(len(run.unmeasured) for run in runs)
    if blind:
        parts.append(f"{blind} not measured")
    if parts:
        return f"Graph budget: {', '.join(parts)}"
    total = sum(verdicts.values())
    return f"Graph budget: {total:,} {'test' if total == 1 else 'tests'}, none over budget"


def _environment(runs: Sequence[Run]) -> str:
    lines = []
    for run in runs:
        verdicts = counted(run.tests)
        parts = ", ".join(f"{count:,} {name}" for name, count in verdicts.items())
        torch = f", torch {safe.markdown(run.torch)}" if run.torch else ""
        lines.append(f"- {safe.markdown(_cut(run.label))}{torch}: {parts or 'no tests'}\n")
    most = 20
    if len(lines) > most:
        lines[most:] = [f"- and {len(lines) - most} more runs\n"]
    return "".join(lines)


def _cut(text: str, most: int = _LONGEST_NAME) -> str:
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-(most // 2 - 3) :]}"


def _names(title: str, names: list[str]) -> str:
    if not names:
        return ""
    most = 10
    listed = "".join(f"- {safe.markdown(_cut(name))}\n" for name in names[:most])
    more = f"- and {len(names) - most} more\n" if len(names) > most else ""
    return f"\n**{title}**\n\n{listed}{more}"


def _table(page: _Page, told: Sequence[tuple[Run, Plain]], many_runs: bool, limit: int) -> int:
    """The table of tests, as many rows as fit; returns how many.

    The first rows are there to be read; further ones are folded away.
    """
    if not told:
        return 0
    run, line = ("| run ", "|---") if many_runs else ("", "")
    head = f"\n| verdict {run}| test | graphs | breaking places |\n|---{line}|---|---|---|\n"
    page.add(head)
    for number, (at, test) in enumerate(told):
        row = _row(at if many_runs else None, test)
        if page.size + len(row.encode()) > limit:
            if number > _UNFOLDED:
                page.add(_FOLD_END)
            return number
        if number == _UNFOLDED:
            page.add(f"\n<details><summary>{len(told) - number:,} more</summary>\n{head}")
        page.add(row)
    if len(told) > _UNFOLDED:
        page.add(_FOLD_END)
    return len(told)


def _row(run: Run | None, test: Plain) -> str:
    graphs = [
        f"{'**' if move.growth > 0 else ''}{str(move).replace('->', '→')}"
        f"{f' ({move.growth:+d})**' if move.growth > 0 else ''}"
        for move in moves(test)
    ]
    cells = [test["verdict"], safe.markdown(_cut(test["nodeid"])), ", ".join(graphs)]
    if run is not None:
        cells.insert(1, safe.markdown(_cut(run.label, 60)))
    return f"| {' | '.join((*cells, _breaks(test)))} |\n"


def _breaks(test: Plain) -> str:
    now = len(test["breaks"])
    if test["baseline"] is None:
        return str(now or "")
    was = len(test["baseline"]["breaks"])
    return str(now or "") if was == now else f"{was} → {now}"


def _details(page: _Page, failing: Iterable[tuple[Run, Plain]]) -> int:
    """The reasons, folded, test by test while they fit; returns how many did not."""
    left = 0
    for run, test in failing:
        if left or not page.add(_fold(run, test)):
            left += 1
    return left


def _fold(run: Run, test: Plain) -> str:
    title = f"{safe.markdown(_cut(test['nodeid']))} on {safe.markdown(_cut(run.label, 60))}"
    body = safe.preformatted(_shorten("\n".join(_reasons(test))))
    return f"\n<details><summary>{title}</summary>\n\n{body}\n\n</details>\n"


def _reasons(test: Plain) -> Iterator[str]:
    """The text that the failed test showed; where there is none, its causes and breaks."""
    if test["message"]:
        yield test["message"].rstrip()
        return
    record = Record.from_dict(test)
    for layer in LAYERS:
        causes = decomposition(record, layer)
        if causes:
            yield f"{layer}: " + " + ".join(f"{count} {cause}" for cause, count in causes.items())
    yield from record.errors
    for item in record.breaks:
        where = item.where
        yield f"+ {item.id or ''} {item.reason}   x{item.count}".replace("+  ", "+ ")
        yield f"    {where.file}:{where.line} in {where.function}"
        yield f"        {where.code}"


def _shorten(text: str) -> str:
    if len(text) <= _LONGEST_MESSAGE:
        return text
    lines = text[:_LONGEST_MESSAGE].split("\n")
    rest = len(text.split("\n")) - len(lines)
    return "\n".join((*lines, f"... and {rest} more lines" if rest else "..."))


def _left_out(rows: int, reasons: int) -> str:
    parts = []
    if rows:
        parts.append(f"{rows:,} more {'test' if rows == 1 else 'tests'} moved")
    if reasons:
        parts.append(f"the reasons of {reasons:,} {'test' if reasons == 1 else 'tests'}")
    if not parts:
        return ""
    return f"\nLeft out for its length: {' and '.join(parts)}. The JSON reports hold all of it.\n"


def _next(told: Iterable[tuple[Run, Plain]]) -> str:
    verdicts = {test["verdict"] for _, test in told}
    if not verdicts & {"over", "lost", "new", "improved"}:
        return ""
    return (
        "\nTo accept these counts, download the JSON reports of this run into a checkout "
        "and run `graphbreak accept REPORT.json...`.\n"
    )
