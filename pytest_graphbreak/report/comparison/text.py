"""A comparison as plain lines, for a terminal: causes first, then the tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from pytest_graphbreak.config.ini import OPS
from pytest_graphbreak.model.layers import LAYERS
from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.report.comparison import text, words
from pytest_graphbreak.report.lines import at, code, detail, position, to_try
from pytest_graphbreak.report.markdown import COMMENT, BoundedText
from pytest_graphbreak.runs.comparison import (
    CauseChange,
    ComparedSide,
    Comparison,
    Effect,
    Pair,
    PossibleMove,
)
from pytest_graphbreak.text import safe
from pytest_graphbreak.text.output import BLANK, TextLine, labelled, plain, plural, signed
from pytest_graphbreak.text.safe import cut

MOST: Final = 20
"""The number of items of one section; the rest are counted."""
NAMES: Final = 3
"""The number of tests that are named below a cause."""


def lines(found: Comparison, ops: float = OPS) -> Iterator[TextLine]:
    """Yield the whole text.

    ``ops`` is the fall in percent from which a test's captured operations are listed.
    """
    yield labelled("before", words.side(found.before), width=8)
    yield labelled("after", words.side(found.after), width=8)
    for word, side in (("before", found.before), ("after", found.after)):
        for problem in side.problems:
            yield labelled("note", f"{word}: {problem}", width=8)
    yield BLANK
    said = (words.headline(found), ", ".join(words.totals(found.pairs)))
    yield TextLine("; ".join(part for part in said if part))
    for title, body in parts(found, ops):
        yield from (BLANK, TextLine(title, "title"), *body)


def parts(found: Comparison, ops: float = OPS) -> Iterator[tuple[str, Iterator[TextLine]]]:
    """Yield the title and the lines of each part that is not empty."""
    for section in words.sections(found):
        blocks = (_change(change, found) for change in section.changes[:MOST])
        title = f"{section.title}: {plural(len(section.changes), 'place')}"
        yield title, _listed(blocks, len(section.changes))
    if found.moved:
        blocks = (_moved(pair, found) for pair in found.moved[:MOST])
        title = f"unclear: {plural(len(found.moved), 'place')}"
        yield title, _listed(blocks, len(found.moved))
    if any(before != after for pair in found.pairs for before, after in pair.ops.values()):
        yield "captured operations", _operations(found.pairs, ops)
    for what in ("executions", "reads"):
        if ran := list(_ran(found.pairs, what)):
            yield what, _named(ran)
    for title, unit, items in words.asides(found):
        if items:
            yield f"{title}: {plural(len(items), unit)}", _named(items)


def _listed(blocks: Iterable[Iterable[TextLine]], total: int) -> Iterator[TextLine]:
    for block in blocks:
        yield from block
    if total > MOST:
        yield TextLine(f"... and {total - MOST:,} more (--json and --html have all)", indent=2)


def _change(change: CauseChange, found: Comparison, sign: str = "") -> Iterator[TextLine]:
    id = f"{change.cause.id}  " if change.cause.id else ""
    name = cut(words.name(change)).removeprefix(id)
    yield signed(sign or words.sign(change), f"{name}   {words.amount(change)}", id)
    yield from at(replace(change.where, code=cut(change.where.code)))
    if before := words.was(change):
        yield detail(f"before: {cut(before)}")
    if change.with_it:
        yield detail("and with it:")
    for item in change.with_it.values():
        kind = words.KINDS.get(item.kind, item.kind)
        yield detail(f"{words.sign(item)} {kind}   {words.amount(item)}", 2)
        yield detail(position(item.where), 6)
    if owner := words.owner(change, found):
        yield detail(f"package {owner}")
    yield from to_try(words.tried(change))
    yield from _names(change.effects)


def _names(effects: Sequence[Effect]) -> Iterator[TextLine]:
    names = list(dict.fromkeys(effect.nodeid for effect in effects))
    for name in names[:NAMES]:
        yield detail(f"in {name}")
    if len(names) > NAMES:
        yield detail(f"in {len(names) - NAMES:,} more")


def _moved(pair: PossibleMove, found: Comparison) -> Iterator[TextLine]:
    after = pair.after
    yield signed("?", f"{cut(words.name(after))}   {words.unsure(pair)}")
    for sign, change in (("-", pair.before), ("+", after)):
        yield detail(f"{sign} {position(change.where)}   {words.amount(change)}")
        yield from code(replace(change.where, code=cut(change.where.code)), 12)
    if owner := words.owner(after, found):
        yield detail(f"package {owner}")


def _operations(pairs: Sequence[Pair], percent: float) -> Iterator[TextLine]:
    """Yield totals of captured operations, and the names of the tests that lost the most."""
    changed = [
        (pair, layer, before, after)
        for pair in pairs
        for layer, (before, after) in pair.ops.items()
        if before != after
    ]
    for layer in LAYERS:
        steps = [after - before for _, name, before, after in changed if name == layer]
        up, down = [step for step in steps if step > 0], [step for step in steps if step < 0]
        lines = [
            f"{plural(len(some), 'test')} {word} ({sum(some):+,})"
            for word, some in (("up", up), ("down", down))
            if some
        ]
        if lines:
            yield TextLine(f"{layer}: {', '.join(lines)}", indent=2)
    fell = [item for item in changed if item[3] < item[2] * (1 - percent / 100)]
    fell.sort(key=lambda item: (item[3] / item[2], item[0].nodeid))
    for pair, layer, before, after in fell[:MOST]:
        yield TextLine(f"{layer} {before:,} -> {after:,}   {pair.nodeid}", indent=4)
    if len(fell) > MOST:
        words = f"... and {len(fell) - MOST:,} more that fell by more than {percent:g}%"
        yield TextLine(words, indent=4)


def _ran(pairs: Sequence[Pair], what: str) -> Iterator[str]:
    """Yield tests with more or fewer runs or reads (``what``), those that grew most first."""
    moved = [
        (after - before, f"{layer} {before:,} -> {after:,}   {pair.nodeid}")
        for pair in pairs
        for layer, (before, after) in getattr(pair, what).items()
        if before != after
    ]
    yield from (line for _, line in sorted(moved, key=lambda item: (-item[0], item[1])))


def _named(items: Sequence[str]) -> Iterator[TextLine]:
    yield from (TextLine(item, indent=2) for item in items[:MOST])
    if len(items) > MOST:
        yield TextLine(f"... and {len(items) - MOST:,} more", indent=2)


# A comparison as a comment on a pull request: a table of causes, then each of them folded.
#
# The text is limited in bytes and states what it leaves out.

MARK: Final = "<!-- pytest-graphbreak compare -->"
"""The first line, by which a bot finds its earlier comment."""

_LONGEST_CELL: Final = 200
_RESERVE: Final = 400
"""Bytes reserved for the line at the end that says what was left out."""
_HEAD: Final = "\n| | cause | tests | graphs | whose |\n|---|---|---:|---:|---|\n"


def render(found: Comparison, limit: int = COMMENT) -> str:
    """Return the comment, at most ``limit`` bytes of UTF-8 (``limit`` >= 4,000)."""
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
        # A title always has its first row; half of the space is for folded parts.
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


def _code(shown: str, most: int = _LONGEST_CELL) -> str:
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
    """Yield each part that a terminal shows, folded."""
    for title, lines in text.parts(found):
        body = safe.preformatted(plain(lines))
        yield f"\n<details><summary>{safe.html(title)}</summary>\n\n{body}\n\n</details>\n"
