"""A comparison as plain lines, for a terminal: causes first, then the tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pytest_graphbreak.model.layers import LAYERS
from pytest_graphbreak.report.comparison import words
from pytest_graphbreak.runs.compare import Change, Comparison, Effect, Moved, Pair
from pytest_graphbreak.text.safe import cut, printable

MOST: Final = 20
"""Items of one section; the rest are counted."""
NAMES: Final = 3
"""Tests that are named below a cause."""


def lines(found: Comparison, ops: float = 10.0) -> Iterator[str]:
    """All of it. Captured operations are told test by test where they fell by ``ops`` percent."""
    yield f"before  {words.side(found.before)}"
    yield f"after   {words.side(found.after)}"
    for word, side in (("before", found.before), ("after", found.after)):
        for problem in side.problems:
            yield f"note    {word}: {printable(problem)}"
    yield ""
    yield "; ".join((words.headline(found), ", ".join(words.totals(found.pairs)))).rstrip("; ")
    for section in words.sections(found):
        yield from ("", f"{section.title}: {words.plural(len(section.changes), 'place')}")
        blocks = (list(_change(change, found)) for change in section.changes[:MOST])
        yield from _listed(blocks, len(section.changes))
    yield from _unsure(found)
    yield from _operations(found.pairs, ops)
    yield from _tests(found)


def _listed(blocks: Iterable[Iterable[str]], total: int) -> Iterator[str]:
    for block in blocks:
        yield from block
    if total > MOST:
        yield f"  ... and {total - MOST:,} more (--json and --html have all)"


def _change(change: Change, found: Comparison, sign: str = "") -> Iterator[str]:
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
        yield f"            {printable(words.place(item.where))}"
    if owner := words.owner(change, found):
        yield f"      package {printable(owner)}"
    if hint := words.tried(change):
        yield f"      try: {printable(hint)}"
    yield from _names(change.effects)


def _at(change: Change) -> Iterator[str]:
    where = change.where
    if where.file:
        yield f"      {printable(words.place(where))}"
    if where.code:
        yield f"          {cut(printable(where.code))}"


def _names(effects: Sequence[Effect]) -> Iterator[str]:
    names = list(dict.fromkeys(effect.nodeid for effect in effects))
    for name in names[:NAMES]:
        yield f"      in {printable(name)}"
    if len(names) > NAMES:
        yield f"      in {len(names) - NAMES:,} more"


def _unsure(found: Comparison) -> Iterator[str]:
    if not found.moved:
        return
    yield from ("", f"cannot be told: {words.plural(len(found.moved), 'place')}")
    blocks = (list(_moved(pair, found)) for pair in found.moved[:MOST])
    yield from _listed(blocks, len(found.moved))


def _moved(pair: Moved, found: Comparison) -> Iterator[str]:
    after = pair.after
    yield f"  ? {cut(printable(words.name(after)))}   {words.unsure(pair)}"
    for sign, change in (("-", pair.before), ("+", after)):
        yield f"      {sign} {printable(words.place(change.where))}   {words.amount(change)}"
        if change.where.code:
            yield f"            {cut(printable(change.where.code))}"
    if owner := words.owner(after, found):
        yield f"      package {printable(owner)}"


def _operations(pairs: Sequence[Pair], percent: float) -> Iterator[str]:
    """Captured operations up and down; those that fell most by name."""
    changed = [
        (pair, layer, was, now)
        for pair in pairs
        for layer, (was, now) in pair.ops.items()
        if was != now
    ]
    if not changed:
        return
    yield ""
    for layer in LAYERS:
        steps = [now - was for _, name, was, now in changed if name == layer]
        up, down = [step for step in steps if step > 0], [step for step in steps if step < 0]
        parts = [
            f"{words.plural(len(some), 'test')} {word} ({sum(some):+,})"
            for word, some in (("up", up), ("down", down))
            if some
        ]
        if parts:
            yield f"captured operations ({layer}): {', '.join(parts)}"
    fell = [item for item in changed if item[3] < item[2] * (1 - percent / 100)]
    fell.sort(key=lambda item: (item[3] / item[2], item[0].nodeid))
    for pair, layer, was, now in fell[:MOST]:
        yield f"  {layer} {was:,} -> {now:,}   {printable(pair.nodeid)}"
    if len(fell) > MOST:
        yield f"  ... and {len(fell) - MOST:,} more that fell by more than {percent:g}%"


def _tests(found: Comparison) -> Iterator[str]:
    """Test by test: those whose counts moved, those that are there once only, the rest."""
    moved = [pair for pair in found.pairs if pair.growth]
    yield from _named(
        "tests with other counts",
        [f"{words.counts(pair)}   {pair.nodeid}{_profile(pair)}" for pair in moved],
    )
    for side in ("before", "after"):
        once = [one for one in found.once if one.side == side]
        maybe = [
            f"{one.nodeid}   on {one.profile}"
            + (f"   or is it {one.maybe}? A renamed file is unknown here" if one.maybe else "")
            for one in once
        ]
        yield from _named(f"only {side}", maybe)
    yield from _named(
        "cannot be compared",
        [f"{one.nodeid}   {one.why}   on {one.profile}" for one in found.unequal],
    )


def _profile(pair: Pair) -> str:
    return f"   {pair.profile}" if "->" in pair.profile else ""


def _named(title: str, items: Sequence[str]) -> Iterator[str]:
    if items:
        yield from ("", f"{title}: {words.plural(len(items), 'test')}")
        yield from (f"  {printable(item)}" for item in items[:MOST])
        if len(items) > MOST:
            yield f"  ... and {len(items) - MOST:,} more"
