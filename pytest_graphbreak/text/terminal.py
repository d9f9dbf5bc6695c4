"""How our lines look on a terminal: broken at words, and coloured. Elsewhere they stay as they are.

Source lines and commands are broken where nothing wider than the terminal may stand (``fitted``):
in the text of a red test.
"""

from __future__ import annotations

import os
import re
import shutil
import textwrap
from collections.abc import Iterator, Mapping
from typing import Final, TextIO

from pytest_graphbreak.model.layers import BY_NAME

NARROWEST: Final = 40
"""Columns below which nothing is broken: it would not be easier to read."""

_PROSE: Final = re.compile(
    r"""
    \ *try:\                                    # advice
    | \ *(?:\d+x\ \ )                           # a reason in a list of reasons
    | \ {2,6}[+~*=-]\ (?:GB\d{4}\ \ )?          # a cause
    | \ {2,4}(?:baseline|profile|marker|package)\ +
    | \ {8,10}(?=\S+\ in\ \S+\ (?:runs|is|breaks)\ )
    | (?:ok|note|PROBLEM)\ +\S+\ +              # doctor
    | \ {20}->[ ]
    | \ {0,2}graph\ budget:[ ]
    | (?=\d[\d,]*\ tests?\ )(?!.*\ graphbreak\ )  # the last line of a summary
    """,
    re.VERBOSE,
)

_COMMAND: Final = re.compile(
    r" {2}(?:accept|record) +(?=(?:\S+ ){1,3}(?:pytest|graphbreak|accept) )"
)
"""What is typed next; its first words name one of our programs."""
_WORD: Final = re.compile(r"(?:'[^']*'|\"[^\"]*\"|[^\s'\"])+|\S")

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
        (r"(?:improved|recorded|pruned|verified|ok) +\S", ("green",)),
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


def shown(line: str, out: TextIO) -> Iterator[str]:
    """A line as this stream takes it: broken and coloured on a terminal."""
    parts = [line]
    if is_terminal(out):
        parts = wrapped(line, shutil.get_terminal_size().columns)
    marked = markup(line) if has_colour(out) else ()
    for part in parts:
        yield painted(part, marked)


def wrapped(line: str, width: int) -> list[str]:
    """The line in parts of at most ``width`` columns where it is prose; broken at blanks only."""
    if len(line) <= width or width < NARROWEST or not (found := _PROSE.match(line)):
        return [line]
    hang = len(found[0]) if len(found[0]) <= width // 2 else 0
    return textwrap.wrap(
        line,
        width,
        subsequent_indent=" " * max(hang, 2),
        break_long_words=False,
        break_on_hyphens=False,
    )


def fitted(line: str, width: int) -> list[str]:
    """As ``wrapped``, and no part is wider: what goes on is indented, a command behind a backslash.

    A word of a command is never broken, however long it is.
    """
    parts = wrapped(line, width)
    if width < NARROWEST:
        return parts
    found: list[str] = []
    for part in parts:
        if len(part) <= width:
            found.append(part)
        elif command := _COMMAND.match(part):
            found += _continued(command[0], _WORD.findall(part[command.end() :]), width)
        else:
            blanks = len(part) - len(part.lstrip(" "))
            hang = min(blanks, width // 2) + 4
            found += textwrap.wrap(part, width, subsequent_indent=" " * hang)
    return found


def _continued(start: str, words: list[str], width: int) -> list[str]:
    """A command in lines that a shell reads as one."""
    lines = [start + words[0]]
    for word in words[1:]:
        if len(lines[-1]) + len(word) + 3 <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(" " * (len(start) + 2) + word)
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]


def markup(line: str) -> tuple[str, ...]:
    """How a line of a command is marked, in pytest's words: ``red``, ``bold``."""
    return next((marked for pattern, marked in _MARKUP if pattern.match(line)), ())


def painted(line: str, marked: tuple[str, ...]) -> str:
    """The line with the codes of its colours."""
    if not marked or not line:
        return line
    return f"\x1b[{';'.join(_CODES[name] for name in marked)}m{line}\x1b[0m"
