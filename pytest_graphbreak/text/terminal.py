"""How our lines look on a terminal: broken at words, and coloured. Elsewhere they stay as they are.

``wrapped`` is the one place that breaks lines, for red tests, the summary and all commands.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TextIO

from pytest_graphbreak.model.layers import BY_NAME

NARROWEST: Final = 40
"""Columns below which nothing is broken: it would not be easier to read."""

_SMALLEST: Final = 16
"""Columns of the column of a table whose cells are broken."""

_HEAD: Final = re.compile(
    r" *(?:[-+~*=] (?!$))?(?:(?:->|try:|graph budget:) |(?:\S{1,12} {2,}(?!$)){0,2})"
)
"""What stands before the text of a line, which further lines are indented by: signs, columns."""

_TEXT: Final = re.compile(r"(?:^ *|(?<=  )|(?<=: ))(?=\S)")
"""Where a command may begin: the text of a line, of a column, behind a colon."""
_WORD: Final = re.compile(r"(?:'[^']*'|\"[^\"]*\"|[^\s'\"])+|\S")
_SEAM: Final = re.compile(r"(?<=[/=,])|(?=::|\[)")
"""Where a path or a node id that is wider than the terminal goes on in the next line."""

_CAUSE_NAMES: Final = [
    name for name, cause in BY_NAME.items() if not cause.is_plain and cause.explained_by != "break"
]
_CAUSES: Final = "|".join((r"GB\d+", *map(re.escape, _CAUSE_NAMES), "eager"))
_MARKUP: Final = tuple(
    (re.compile(pattern), markup)
    for pattern, markup in (
        (r" {0,2}graph budget:", ("red", "bold")),
        (rf" {{2,6}}\+ (?:{_CAUSES}|left to eager)\b", ("red",)),
        (rf" {{2,6}}- (?:{_CAUSES}|left to eager)\b", ("green",)),
        (r" {2}[~?] \S", ("yellow",)),
        (
            r"[a-z][\w ,.]{2,60}: \d[\d,]{0,15} (?:place|test|setting|layer)s?$",
            ("bold",),
        ),  # a comparison's part
        (r"^.*\. (?:Over the graph budget|No verdict)\b", ("red", "bold")),
        (r"\d[\d,]{0,15} places? explains? ", ("bold",)),
        (r"^.*\. Within the graph budget\.", ("green", "bold")),
        (r"(?:error|over|lost|unmeasured|crashed|UNVERIFIED|PROBLEM) +\S", ("red",)),
        (r"(?:new|changed|stale|note|looser) +\S", ("yellow",)),
        (r"(?:improved|recorded|updated|pruned|verified|ok) +\S", ("green",)),
        (r"(?:What it means|Why|What to write instead|Switches|See also|Read on)$", ("bold",)),
        (r"(?:Example\. |Torch \S+ on GB|Earlier meanings of GB)", ("bold",)),
    )
)
_CODES: Final[Mapping[str, str]] = {"bold": "1", "red": "31", "green": "32", "yellow": "33"}


def is_terminal(out: object) -> bool:
    """Whether somebody looks at this stream; False for what is no stream at all."""
    isatty = getattr(out, "isatty", None)
    try:
        return bool(isatty and isatty())
    except ValueError:  # it is closed
        return False


def has_colour(out: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether to colour: ``NO_COLOR`` and ``FORCE_COLOR`` say so first (no-color.org)."""
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return is_terminal(out) and environ.get("TERM") != "dumb"


def shown(line: str, out: TextIO, *, whole: bool = False) -> Iterator[str]:
    """A line as this stream takes it: broken, but for a ``whole`` one, and coloured."""
    marked = markup(line) if has_colour(out) else ()
    for part in wrapped(line, 0 if whole else columns(out)):
        yield painted(part, marked)


def columns(out: object) -> int:
    """The width of the terminal that this stream is; 0 for any other stream."""
    return shutil.get_terminal_size().columns if is_terminal(out) else 0


def wrapped(line: str, width: int) -> list[str]:
    """The line in parts of at most ``width`` columns, broken at blanks; further ones are indented.

    A command goes on behind backslashes, so that it can be pasted. Otherwise a word that is wider
    than the terminal stays whole.
    """
    if len(line) <= width or width < NARROWEST:
        return [line]
    for found in _TEXT.finditer(line):
        before, command = line[: found.end()], line[found.end() :]
        if _is_command(command):
            return _continued(before, _WORD.findall(command), width)
    return _filled(line, width, _hang(line, width))


def _is_command(text: str) -> bool:
    """Whether a text is one that we print to be pasted into a shell; it reaches to its end."""
    first, _, rest = text.partition(" ")
    while rest and first.partition("=")[0].isupper() and "=" in first:
        first, _, rest = rest.partition(" ")
    name, follows = os.path.basename(first), rest.partition(" ")[0]
    if name == "graphbreak":
        return not follows.endswith(":")  # "graphbreak fix: a.py: no such file" is a complaint
    if name.startswith("python"):
        return follows == "-m" or follows.endswith(".py")
    if name in ("pytest", "py.test"):
        return bool(follows)
    return (name, follows) in (("uv", "run"), ("uv", "pip"), ("pip", "install"), ("git", "apply"))


def _hang(line: str, width: int) -> int:
    """The columns by which further parts of a line are indented."""
    found = _HEAD.match(line)
    head = len(found[0]) if found else 0
    indent = len(line) - len(line.lstrip(" "))
    if indent < head <= width // 2:
        return head
    return min(indent, width // 2) + (4 if indent else 2)


def _filled(line: str, width: int, hang: int) -> list[str]:
    text = line.lstrip(" ")
    if max(map(len, text.split())) + hang > width:
        hang = min(hang, max(4, len(line) - len(text)))
    column, *more = text.split("   ")
    # "dynamo 1 -> 3" behind the name of a test stays together where a line has room for it.
    kept = (part.replace(" ", "\0") if len(part) <= width - hang else part for part in more)
    parts = textwrap.wrap(
        "   ".join((column, *kept)),
        width,
        initial_indent=" " * (len(line) - len(text)),
        subsequent_indent=" " * hang,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [part.replace("\0", " ") for part in parts]


def _continued(before: str, words: list[str], width: int) -> list[str]:
    """A command in lines that a shell reads as one, behind the words that introduce it.

    No line is wider than ``width``: a backslash also breaks a word that is, which a shell joins
    again. POSIX.1-2017, Shell Command Language, 2.2.1.
    """
    hang = _hang(before + "x" * width, width)
    is_column = len(before) <= hang
    lines = [] if is_column else _filled(before.rstrip(), width, hang)
    if max(map(len, words)) + hang + 2 > width:
        hang = min(hang, max(4, len(before) - len(before.lstrip(" "))))
    start = before if is_column else " " * hang
    for word in words:
        blank = "" if not start.strip() or start == before else " "
        if len(start) + len(blank) + len(word) + 2 <= width:
            start += blank + word
            continue
        if start.strip():
            lines.append(f"{start.rstrip()} \\" if blank else start.rstrip())
        first, *rest = _pieces(word, width - hang - 2)
        start = " " * hang + first
        for piece in rest:
            lines.append(f"{start}\\")
            start = piece
    return [*lines, start]


def table(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Rows in columns, two blanks apart; 0 is no terminal, where nothing is broken.

    Where they need more than ``width``, the cells of the widest column go on below their first
    line; where that leaves it less than ``_SMALLEST``, each further cell is a line of its own.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    over = sum(widths) + 2 * (len(widths) - 1) - width
    widest = widths.index(max(widths))
    if width < NARROWEST or over <= 0:
        return [_row(row, widths) for row in rows]
    if widths[widest] - over < _SMALLEST:
        return [line for row in rows for line in _stacked(row, width)]
    widths[widest] -= over
    lines = []
    for row in rows:
        parts = _words(row[widest], widths[widest]) or [""]
        for number, part in enumerate(parts):
            cells = ["" if number else cell for cell in row]
            cells[widest] = part
            lines.append(_row(cells, widths))
    return lines


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join(padded).rstrip()


def _stacked(row: Sequence[str], width: int) -> Iterator[str]:
    first, *more = row
    if first:
        yield from _words(first, width)
    for cell in filter(None, more):
        yield from (f"    {part}" for part in _words(cell, width - 4))


def _words(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def _pieces(word: str, room: int) -> list[str]:
    """A word in parts of at most ``room`` columns, each quoted for a shell."""
    if len(word) <= room:
        return [word]
    pieces = [""]
    for part in _SEAM.split("".join(shlex.split(word))):
        for text in [part] if len(shlex.quote(part)) <= room else part:
            if len(shlex.quote(pieces[-1] + text)) > room:
                pieces.append("")
            pieces[-1] += text
    return [shlex.quote(piece) for piece in pieces if piece]


def markup(line: str) -> tuple[str, ...]:
    """How a line of a command is marked, in pytest's words: ``red``, ``bold``."""
    return next((marked for pattern, marked in _MARKUP if pattern.match(line)), ())


def painted(line: str, marked: tuple[str, ...]) -> str:
    """The line with the codes of its colours."""
    if not marked or not line:
        return line
    return f"\x1b[{';'.join(_CODES[name] for name in marked)}m{line}\x1b[0m"
