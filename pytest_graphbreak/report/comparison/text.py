"""A comparison as plain lines, for a terminal: causes first, then the tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pytest_graphbreak.config.ini import OPS
from pytest_graphbreak.model.layers import LAYERS
from pytest_graphbreak.report.comparison import words
from pytest_graphbreak.report.lines import position
from pytest_graphbreak.runs.comparison import CauseChange, Comparison, Effect, Pair, PerhapsMoved
from pytest_graphbreak.text.numbers import plural
from pytest_graphbreak.text.safe import cut, printable

MOST: Final = 20
"""Items of one section; the rest are counted."""
NAMES: Final = 3
"""Tests that are named below a cause."""


def lines(found: Comparison, ops: float = OPS) -> Iterator[str]:
    """All of it. Captured operations are told test by test where they fell by ``ops`` percent."""
    yield f"before  {printable(words.side(found.before))}"
    yield f"after   {printable(words.side(found.after))}"
    for word, side in (("before", found.before), ("after", found.after)):
        for problem in side.problems:
            yield f"note    {word}: {printable(problem)}"
    yield ""
    yield "; ".join(
        part for part in (words.headline(found), ", ".join(words.totals(found.pairs))) if part
    )
    for title, body in parts(found, ops):
        yield from ("", title, *body)


def parts(found: Comparison, ops: float = OPS) -> Iterator[tuple[str, Iterator[str]]]:
    """Each part of it that is not empty: its title and its lines."""
    for section in words.sections(found):
        blocks = (_change(change, found) for change in section.changes[:MOST])
        title = f"{section.title}: {plural(len(section.changes), 'place')}"
        yield title, _listed(blocks, len(section.changes))
    if found.moved:
        blocks = (_moved(pair, found) for pair in found.moved[:MOST])
        title = f"cannot be told: {plural(len(found.moved), 'place')}"
        yield title, _listed(blocks, len(found.moved))
    if any(before != after for pair in found.pairs for before, after in pair.ops.values()):
        yield "captured operations", _operations(found.pairs, ops)
    for title, unit, items in words.asides(found):
        if items:
            yield f"{title}: {plural(len(items), unit)}", _named(items)


def _listed(blocks: Iterable[Iterable[str]], total: int) -> Iterator[str]:
    for block in blocks:
        yield from block
    if total > MOST:
        yield f"  ... and {total - MOST:,} more (--json and --html have all)"


def _change(change: CauseChange, found: Comparison, sign: str = "") -> Iterator[str]:
    name = cut(printable(words.name(change)))
    yield f"  {sign or words.sign(change)} {name}   {words.amount(change)}"
    yield from _at(change)
    if before := words.was(change):
        yield f"      before: {cut(printable(before))}"
    if change.with_it:
        yield "      and with it:"
    for item in change.with_it.values():
        kind = words.KINDS.get(item.kind, item.kind)
        yield f"        {words.sign(item)} {printable(kind)}   {words.amount(item)}"
        yield f"            {printable(position(item.where))}"
    if owner := words.owner(change, found):
        yield f"      package {printable(owner)}"
    if hint := words.tried(change):
        yield f"      try: {printable(hint)}"
    yield from _names(change.effects)


def _at(change: CauseChange) -> Iterator[str]:
    where = change.where
    if where.file:
        yield f"      {printable(position(where))}"
    if where.code:
        yield f"          {cut(printable(where.code))}"


def _names(effects: Sequence[Effect]) -> Iterator[str]:
    names = list(dict.fromkeys(effect.nodeid for effect in effects))
    for name in names[:NAMES]:
        yield f"      in {printable(name)}"
    if len(names) > NAMES:
        yield f"      in {len(names) - NAMES:,} more"


def _moved(pair: PerhapsMoved, found: Comparison) -> Iterator[str]:
    after = pair.after
    yield f"  ? {cut(printable(words.name(after)))}   {words.unsure(pair)}"
    for sign, change in (("-", pair.before), ("+", after)):
        yield f"      {sign} {printable(position(change.where))}   {words.amount(change)}"
        if change.where.code:
            yield f"            {cut(printable(change.where.code))}"
    if owner := words.owner(after, found):
        yield f"      package {printable(owner)}"


def _operations(pairs: Sequence[Pair], percent: float) -> Iterator[str]:
    """Captured operations up and down; those that fell most by name."""
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
            yield f"  {layer}: {', '.join(lines)}"
    fell = [item for item in changed if item[3] < item[2] * (1 - percent / 100)]
    fell.sort(key=lambda item: (item[3] / item[2], item[0].nodeid))
    for pair, layer, before, after in fell[:MOST]:
        yield f"    {layer} {before:,} -> {after:,}   {printable(pair.nodeid)}"
    if len(fell) > MOST:
        yield f"    ... and {len(fell) - MOST:,} more that fell by more than {percent:g}%"


def _named(items: Sequence[str]) -> Iterator[str]:
    yield from (f"  {printable(item)}" for item in items[:MOST])
    if len(items) > MOST:
        yield f"  ... and {len(items) - MOST:,} more"
