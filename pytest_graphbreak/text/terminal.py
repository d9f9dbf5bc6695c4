"""Lines as rows of a terminal: wrapped at words, and coloured. Elsewhere they stay unchanged.

``wrap_line`` is the only place that breaks lines, for failures, the summary and all commands. A
command prints the text of ``rows_of``; pytest's own writer gets the parts of ``spans``::

    TextLine("use torch.where", "advice", head="fix: ")
        wrap_line -> Row("fix: ", "use torch.where"), and more if they are too wide for one
        spans     -> ("fix: ", ("green", "bold")), ("use torch.where", ("green",))
        paint     -> "ESC[32;1mfix: ESC[0m", "ESC[32muse torch.where ESC[0m"
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, starmap
from operator import itemgetter
from typing import Final, NamedTuple, TextIO

from msgspec.structs import replace

from pytest_graphbreak.text.output import STYLES, Kind, LineStyle, Markup, TextLine

NARROWEST: Final = 40
"""The width in columns below which nothing is wrapped, since it would not be easier to read."""


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


class Row(NamedTuple):
    """A row of a terminal: its parts of the head, of the text and of the command."""

    head: str = ""
    text: str = ""
    command: str = ""

    def __str__(self) -> str:
        return "".join(self)


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


# A line in rows.

_PASTED: Final = re.compile(r"(?<![\w.])(?:[\w.]+\.\w+ = \S+|\.*\w[\w.]*\((?:[^()]|\([^()]*\))*\))")
"""Code in a text; no row ends inside of it.

An assignment to an attribute, ``torch._dynamo.config.verbose = True``, or a call, which may have
calls in it, ``torch.where(x > f(y), a, b)``.
"""
_GLUE: Final = "\0"
"""Stands for a blank at which no row may end, until the rows are made."""


def wrap_line(line: TextLine, width: int) -> list[Row]:
    """Return the line in rows of at most ``width`` columns, wrapped at blanks and indented.

    A command is continued with backslashes, so that it can be pasted. A line of source, and any
    other word that is wider than the terminal, stays whole, as does code in a text that fits.
    """
    if line.whole or line.kind == "source" or len(str(line)) <= width or width < NARROWEST:
        return [_row_of(line)]
    return _continue_command(line, width) if line.command else _fill(line, width)


def _row_of(line: TextLine) -> Row:
    before, text = f"{' ' * line.indent}{line.head}", line.text
    if not line.command and not line.whole:
        text = text.rstrip()
    return Row(before if text or line.command else before.rstrip(), text, line.command)


def _hang(line: TextLine, width: int) -> int:
    """Return the columns by which further rows of a line are indented: below its text if they fit.

    ::

        + GB0124  Unsupported Tensor.item() call with
                  capture_scalar_outputs=False
    """
    head = line.indent + len(line.head)
    if line.head and head <= width // 2:
        return head
    return min(line.indent, width // 2) + (4 if line.indent else 2)


def _fill(line: TextLine, width: int) -> list[Row]:
    """Return a line of words in rows. A ``_GLUE`` is a blank at which none ends, until it is back.

    A line whose widest word has no room below its text is indented less.
    """
    hang, before = _hang(line, width), " " * line.indent + line.head
    least = min(hang, max(4, line.indent))
    text = _join_code(line.text.rstrip(), width - least)
    words = f"{line.head}{text}".split()
    if max(map(len, words), default=0) + hang > width:  # a word has no room there
        hang = least
    # No row may end inside the head, or at the indentation of a line without one.
    lead = before.rstrip() or before
    glued = lead.replace(" ", _GLUE) + before[len(lead) :] + _join_counts(text, width - hang)
    parts = wrap(glued, width, further=" " * hang)
    first, *rows = [part.replace(_GLUE, " ") for part in parts]
    at = len(before) if first.startswith(before) else len(first)  # its head may be the whole line
    return [Row(first[:at], first[at:]), *(Row(text=part) for part in rows)]


def _join_counts(text: str, room: int) -> str:
    """Return the text with each part behind three blanks as one word, where it fits.

    In a list of tests these are the counts: ``test_it   dynamo 1 -> 3``.
    """
    name, *counts = text.split("   ")
    joined = (part.replace(" ", _GLUE) if len(part) <= room else part for part in counts)
    return "   ".join((name, *joined))


def _join_code(text: str, room: int) -> str:
    """Return the text with code as one word, where it fits with what stands right beside it."""
    joined = _PASTED.sub(lambda match: match[0].replace(" ", _GLUE), text)
    words = joined.split(" ")
    return " ".join(word if len(word) <= room else word.replace(_GLUE, " ") for word in words)


# A command in rows that a shell reads as one.

# A word of a shell's command, with its quotes: --args='--steps 3'
_WORD: Final = re.compile(r"(?:'[^']*'|\"[^\"]*\"|[^\s'\"])+|\S")
_SEAM: Final = re.compile(r"(?<=[/=,])|(?=::|\[)")
"""The positions at which a path or node id that is wider than the terminal may be broken."""


def _continue_command(line: TextLine, width: int) -> list[Row]:
    """Return a command in rows that a shell reads as one, after the words that introduce it.

    No row is wider than ``width``: a backslash also breaks a wider word, which a shell joins again.
    POSIX.1-2017, Shell Command Language, 2.2.1.
    """
    hang, words = _hang(line, width), _WORD.findall(line.command)
    before = " " * line.indent + line.head
    # Whether the command begins where its further rows do, so that it needs no row of its own.
    is_column = len(before) + len(line.text) <= hang
    rows = [] if is_column else _fill(replace(line, command=""), width)
    if max(map(len, words)) + hang + 2 > width:  # with a blank and the backslash
        hang = min(hang, max(4, line.indent))
    indent = before + line.text if is_column else " " * hang
    commands = _command_rows(words, indent=indent, hang=hang, width=width)
    return [
        *rows,
        *(Row(head, "", text) if text else Row(head.rstrip()) for head, text in commands),
    ]


def _command_rows(
    words: Sequence[str], *, indent: str, hang: int, width: int
) -> Iterator[tuple[str, str]]:
    """Yield the indentation and the words of each row; all but the last end in a backslash.

    A word that is wider than a row goes on in column 0, with no blank before its backslash::

        pytest \\
            tests/models/\\
        test_longformer.py::test_it
    """
    row = ""
    for word in words:
        longer = f"{row} {word}" if row else word
        if len(indent) + len(longer) + 2 <= width:
            row = longer
            continue
        if row or indent.strip():
            yield indent, f"{row} \\" if row else ""
            indent = " " * hang
        row, *pieces = _pieces(word, width - hang - 2)
        for piece in pieces:
            yield indent, f"{row}\\"
            # A shell joins the parts of a word only where nothing is between them.
            indent, row = "", piece
    yield indent, row


def _pieces(word: str, room: int) -> list[str]:
    """Return a word in parts of at most ``room`` columns, each quoted for a shell."""
    if len(word) <= room:
        return [word]
    pieces = [""]
    for part in _SEAM.split("".join(shlex.split(word))):
        for text in [part] if len(shlex.quote(part)) <= room else part:
            if len(shlex.quote(pieces[-1] + text)) > room:
                pieces.append("")
            pieces[-1] += text
    return [shlex.quote(piece) for piece in pieces if piece]


# Texts and tables of a command, which are no lines yet.


def wrap(text: str, width: int, first: str = "", further: str = "") -> list[str]:
    """Return a text in rows, wrapped only at blanks; ``first`` and ``further`` begin the rows."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=further,
        break_long_words=False,
        break_on_hyphens=False,
    )


def table(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return rows in columns, two blanks apart; width 0 means no terminal and no wrapping.

    If they need more than ``width``, each further cell of a row is a line of its own.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if NARROWEST <= width < sum(widths) + 2 * (len(widths) - 1):
        return [line for row in rows for line in _stack_cells(row, width)]
    cells = ([cell.ljust(size) for cell, size in zip(row, widths, strict=True)] for row in rows)
    return ["  ".join(row).rstrip() for row in cells]


def _stack_cells(row: Sequence[str], width: int) -> Iterator[str]:
    first, *cells = row
    if first:
        yield from wrap(first, width)
    for cell in filter(None, cells):
        yield from (f"    {part}" for part in wrap(cell, width - 4))
