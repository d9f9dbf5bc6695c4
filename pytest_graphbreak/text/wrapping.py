"""Breaks lines that are wider than a terminal into rows: words, commands and tables.

``wrap_line`` breaks all lines of failures, of the summary and of commands. It never breaks what is
to be copied as one: a line of source stays whole, code in a sentence stays in one row if it fits,
and a command goes on after a backslash, so that a shell reads its rows as one::

    fix: torch.where(a, b, c), where both sides only      pytest tests/test_yolo.py \\
         make a tensor of one shape                           -k head

``wrap`` and ``table`` are for the texts of commands that are no ``TextLine`` yet.
"""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from pytest_graphbreak.text.output import TextLine

NARROWEST: Final = 40
"""The width in columns below which nothing is wrapped, since it would not be easier to read.

What is no terminal has the width 0 (``terminal.columns``).
"""


class Row(NamedTuple):
    """A row of a terminal: its parts of the head, the text and the command of a ``TextLine``.

    ``terminal.spans`` gives each part its colour.
    """

    head: str = ""
    text: str = ""
    command: str = ""

    def __str__(self) -> str:
        return "".join(self)


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
    """Return a line as one row, without blanks at its end; a ``whole`` line keeps them."""
    before, text = f"{' ' * line.indent}{line.head}", line.text
    if not line.command and not line.whole:
        text = text.rstrip()
    return Row(before if text or line.command else before.rstrip(), text, line.command)


def _hang(line: TextLine, width: int) -> int:
    """Return the columns by which further rows of a line are indented.

    They are below its text, unless that begins in the right half of the terminal::

        + GB0124  Unsupported Tensor.item() call with
                  capture_scalar_outputs=False
    """
    head = line.indent + len(line.head)
    if line.head and head <= width // 2:
        return head
    return min(line.indent, width // 2) + (4 if line.indent else 2)


def _fill(line: TextLine, width: int) -> list[Row]:
    """Return a line of words in rows, with a ``_GLUE`` for each blank at which no row may end.

    The further rows of a line whose widest word has no room below its text are indented less.
    """
    hang, before = _hang(line, width), " " * line.indent + line.head
    least = min(hang, max(4, line.indent))
    text = _join_code(line.text.rstrip(), width - least)
    words = f"{line.head}{text}".split()
    if max(map(len, words), default=0) + hang > width:  # a word has no room there
        hang = least
    # No row may end inside the head, or at the indentation of a line without one; the blanks right
    # behind a head are no part of it.
    lead = before.rstrip() or before
    glued = lead.replace(" ", _GLUE) + before[len(lead) :] + _join_counts(text, width - hang)
    parts = wrap(glued, width, further=" " * hang)
    first, *rows = [part.replace(_GLUE, " ") for part in parts]
    at = len(before) if first.startswith(before) else len(first)  # its head may be the whole line
    return [Row(first[:at], first[at:]), *(Row(text=part) for part in rows)]


def _join_counts(text: str, room: int) -> str:
    """Return the text with each part behind three blanks as one word, where it fits in a row.

    In a list of tests these are the counts: ``dynamo 1 -> 3`` of ``test_it   dynamo 1 -> 3``.
    """
    name, *counts = text.split("   ")
    joined = (part.replace(" ", _GLUE) if len(part) <= room else part for part in counts)
    return "   ".join((name, *joined))


def _join_code(text: str, room: int) -> str:
    """Return the text with code as one word, where that fits in a row.

    A word ends at a blank, so a bracket or comma right beside the code is a part of its word.
    """
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
    POSIX.1-2017, Shell Command Language, 2.2.1. The command begins in the row of its words if these
    end at or before the column of the further rows (``_hang``); else it has rows of its own::

        accept    pytest --graph-budget-update \\      next  fix the code, or accept:
                  tests/test_yolo.py                          pytest --graph-budget-update \\
                                                              tests/test_yolo.py
    """
    hang, words = _hang(line, width), _WORD.findall(line.command)
    before = " " * line.indent + line.head
    is_beside = len(before) + len(line.text) <= hang
    rows = [] if is_beside else _fill(replace(line, command=""), width)
    if max(map(len, words)) + hang + 2 > width:  # with a blank and the backslash
        hang = min(hang, max(4, line.indent))
    indent = before + line.text if is_beside else " " * hang
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
    """Return a word of a command in parts of at most ``room`` columns, each quoted for a shell.

    It is parted at a ``_SEAM``, and anywhere in what is too wide between two seams.
    """
    if len(word) <= room:
        return [word]
    pieces = [""]
    for part in _SEAM.split("".join(shlex.split(word))):
        for text in [part] if len(shlex.quote(part)) <= room else part:
            if len(shlex.quote(pieces[-1] + text)) > room:
                pieces.append("")
            pieces[-1] += text
    return [shlex.quote(piece) for piece in pieces if piece]


# Texts and tables, which are no lines yet.


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
