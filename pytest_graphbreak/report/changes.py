"""The changes of baselines as lines, file by file: what ``graphbreak accept`` asks about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

from pytest_graphbreak.baseline import BaselinePlace, Change, Values
from pytest_graphbreak.model.budget import Cause
from pytest_graphbreak.model.layers import DESCRIPTIONS, LAYERS
from pytest_graphbreak.text.files import display_path
from pytest_graphbreak.text.output import BLANK, TextLine

IN_FULL: Final = 500
"""The number of changes that are shown with their places; further ones get one line each."""

_CODE: Final = 10
"""Columns before the source line of a place."""
_Place = TypeVar("_Place", BaselinePlace, Cause)


def change_lines(changes: Sequence[Change], root: Path) -> Iterator[TextLine]:
    """Yield the changes below the names of their files, relative to ``root``."""
    path = None
    for number, change in enumerate(sorted(changes, key=lambda change: str(change.path))):
        if change.path != path:
            path = change.path
            yield from (BLANK, TextLine(display_path(path, root)))
        yield _change(change)
        if number < IN_FULL and change.kind != "pruned":
            yield from _places(change.old or Values(), change.new or Values())
    if changes:
        yield BLANK


def _change(change: Change) -> TextLine:
    name = change.nodeid.partition("::")[2]
    if change.kind == "pruned":
        return TextLine(f"- {name}   its test is gone", indent=2)
    old, new = change.old or Values(), change.new or Values()
    lost = [layer for layer in LAYERS if old.graphs.get(layer, 0) and not new.graphs.get(layer, 0)]
    words = ", ".join(change.counts) or change.without_counts
    if lost:
        words += f"   LOST: no {' and no '.join(lost)} graph any more"
    sign = "+" if change.kind == "added" else "~"
    return TextLine(f"{sign} {name}   {change.profile}   {words}", indent=2)


def _places(old: Values, new: Values) -> Iterator[TextLine]:
    """Yield the places that were added and removed."""
    for sign, place in _movements(old.breaks, new.breaks):
        yield from _place(f"{sign} {_words(place)}", place)
    for sign, place in _movements(old.eager, new.eager):
        yield from _place(f"{sign} eager  {_words(place)}", place)
    # Breaks and recompiles explain the other causes.
    for sign, cause in _movements(old.causes, new.causes):
        kind = DESCRIPTIONS[cause.layer].cause(cause.cause)
        if not (kind.is_plain or kind.explained_by):
            words = f"{sign} {cause.layer} {cause.cause}  {cause.where}".rstrip()
            yield from _place(words, cause)


def _movements(before: Sequence[_Place], after: Sequence[_Place]) -> Iterator[tuple[str, _Place]]:
    """Yield the places that were added and removed, with ``+`` and ``-``."""
    old, new = {place.key: place for place in before}, {place.key: place for place in after}
    yield from (("+", place) for key, place in new.items() if key not in old)
    yield from (("-", place) for key, place in old.items() if key not in new)


def _words(place: BaselinePlace) -> str:
    return "  ".join(part for part in (place.id, place.reason, place.where) if part)


def _place(words: str, place: BaselinePlace | Cause) -> Iterator[TextLine]:
    times = f"   x{place.count}" if place.count > 1 else ""
    yield TextLine(f"{words}{times}", indent=6)
    if place.code:
        yield TextLine(place.code, "source", _CODE)
