"""A comparison as a comment on a pull request: a table of causes, then each of them folded.

The text fits a limit in bytes and says what it leaves out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.report.comparison import text, words
from pytest_graphbreak.report.lines import position
from pytest_graphbreak.report.markdown import COMMENT, BoundedText
from pytest_graphbreak.runs.comparison import CauseChange, ComparedSide, Comparison
from pytest_graphbreak.text import safe
from pytest_graphbreak.text.numbers import plural
from pytest_graphbreak.text.output import plain

MARK: Final = "<!-- pytest-graphbreak compare -->"
"""The first line, by which a bot finds the comment that it wrote before."""

_LONGEST: Final = 200
_RESERVE: Final = 400
"""Bytes kept for the line at the end that says what was left out."""
_HEAD: Final = "\n| | cause | tests | graphs | whose |\n|---|---|---:|---:|---|\n"


def render(found: Comparison, limit: int = COMMENT) -> str:
    """The comment, at most ``limit`` bytes of UTF-8 (``limit`` >= 4,000)."""
    page = BoundedText(limit - _RESERVE)
    totals = ", ".join(words.totals(found.pairs))
    page.add(f"{MARK}\n### Graphs: {words.headline(found)}\n\n")
    page.add(_side("before", found.before) + _side("after", found.after))
    page.add(f"- all tests together: {totals}\n" if totals else "")
    left = 0
    sections = words.sections(found)
    for section in sections:
        title = f"\n**{section.title[0].upper()}{section.title[1:]}**\n{_HEAD}"
        rows = [_row(change, found) for change in section.changes]
        # A title is never without its first row; half of the space is for folded parts.
        if page.size + len((title + rows[0]).encode()) > limit // 2:
            left += len(rows)
            continue
        page.add(title)
        for row in rows:
            if page.size + len(row.encode()) > limit // 2 or not page.add(row):
                left += 1
    left += sum(not page.add(fold) for fold in _folds(found))
    page.reserve(_RESERVE)
    if left:
        page.add(f"\nLeft out for its length: {plural(left, 'item')}. `--json` has all.\n")
    return page.text


def _side(word: str, side: ComparedSide) -> str:
    return f"- {word}: {_code(words.side(side))}\n"


def _code(shown: str, most: int = _LONGEST) -> str:
    return safe.markdown(safe.cut(shown, most))


def _row(change: CauseChange, found: Comparison) -> str:
    where = _place(change.where)
    cause = _code(words.name(change)) + (f"<br>{_code(where)}" if where else "")
    if before := words.was(change):
        cause += f"<br>before: {_code(before)}"
    graphs = ", ".join(words.growth(change.graphs))
    whose = words.owner(change, found)
    cells = (
        words.sign(change),
        cause,
        f"{len(change.effects):,}",
        graphs,
        _code(whose) if whose else "",
    )
    return f"| {' | '.join(cells)} |\n"


def _place(where: Frame) -> str:
    return position(where) if where.file else ""


def _folds(found: Comparison) -> Iterator[str]:
    """All that a terminal shows, part by part, each folded."""
    for title, lines in text.parts(found):
        body = safe.preformatted(plain(lines))
        yield f"\n<details><summary>{safe.html(title)}</summary>\n\n{body}\n\n</details>\n"
