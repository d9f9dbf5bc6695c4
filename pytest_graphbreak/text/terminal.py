"""Lines as a terminal shows them: as wide as it is, and coloured. Elsewhere they stay unchanged.

A command prints the text of ``rows_of``; pytest's own writer gets the parts of ``spans``::

    TextLine("use torch.where", "advice", head="fix: ")
        wrap_line -> Row("fix: ", "use torch.where"), and more if they are too wide for one
        spans     -> ("fix: ", ("green", "bold")), ("use torch.where", ("green",))
        paint     -> "ESC[32;1mfix: ESC[0m", "ESC[32muse torch.where ESC[0m"

The colours of each kind of line are in ``text.output.STYLES``; ``wrapping`` makes the rows.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from itertools import groupby, starmap
from operator import itemgetter
from typing import Final, TextIO

from pytest_graphbreak.text.output import STYLES, Kind, LineStyle, Markup, TextLine
from pytest_graphbreak.text.wrapping import Row, wrap_line


def is_terminal(out: object) -> bool:
    """Return whether a stream is a terminal; False if it is not a stream at all."""
    isatty = getattr(out, "isatty", None)
    try:
        return bool(isatty and isatty())
    except ValueError:  # it is closed
        return False


def has_colour(out: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether to use colour.

    ``NO_COLOR`` and ``FORCE_COLOR`` decide first (no-color.org).
    """
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return is_terminal(out) and environ.get("TERM") != "dumb"


def columns(out: object) -> int:
    """Return the width of a terminal in columns; 0 for any other stream."""
    return shutil.get_terminal_size().columns if is_terminal(out) else 0


def rows_of(line: TextLine, out: TextIO) -> Iterator[str]:
    """Yield the rows of a line for this stream: harmless, wrapped to its width, and coloured."""
    coloured = has_colour(out)
    for row in wrap_line(line.harmless(), columns(out)):
        yield "".join(starmap(paint, spans(row, line.kind))) if coloured else str(row)


def spans(row: Row, kind: Kind) -> Iterator[tuple[str, Markup]]:
    """Yield the parts of a row with their colours; adjacent parts of one colour are joined."""
    for markup, parts in groupby(
        zip(row, STYLES.get(kind, LineStyle()), strict=True), itemgetter(1)
    ):
        if text := "".join(part for part, _ in parts):
            yield text, markup


_CODES: Final[Mapping[str, str]] = {
    "bold": "1",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
}


def paint(text: str, markup: Markup) -> str:
    """Return the text with the codes of its colours."""
    if not markup or not text.strip():
        return text
    return f"\x1b[{';'.join(_CODES[name] for name in markup)}m{text}\x1b[0m"
