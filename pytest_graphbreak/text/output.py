"""Lines of output with their kind, which has colours: a cause, a place, source, advice, a command.

The creator of a line gives its kind and its text, unchanged. The printer (``text.terminal``, or
``plain_text`` for a file) decides on width and whether there is colour, and makes text from outside
harmless.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import astuple, replace

from pytest_graphbreak.text.safe import console

Kind = Literal[
    "text",
    "headline",  # the first line of a failure
    "title",  # of a part of a report
    "new",
    "gone",
    "lost",  # gone, and a loss
    "changed",
    "place",
    "source",
    "call",  # what led to a place
    "advice",
    "command",
    "bad",
    "warning",
    "good",
    "verdict bad",  # the last line of a command that judges
    "verdict good",
]

Markup = tuple[str, ...]
"""Colours in the words of pytest's writer: ``("red", "bold")``."""


class LineStyle(NamedTuple):
    """The colours of a line: of its head, of its text, and of its command."""

    head: Markup = ()
    text: Markup = ()
    command: Markup = ()


def _uniform(*markup: str) -> LineStyle:
    return LineStyle(markup, markup, markup)


STYLES: Final[Mapping[Kind, LineStyle]] = {
    "headline": _uniform("red", "bold"),
    "title": _uniform("bold"),
    "new": LineStyle(("red", "bold"), ("bold",)),
    "lost": LineStyle(("red", "bold"), ("bold",)),
    "gone": LineStyle(("green",)),
    "changed": LineStyle(("yellow",)),
    "place": _uniform("cyan"),
    "advice": LineStyle(("green", "bold"), ("green",)),
    "bad": _uniform("red"),
    "warning": _uniform("yellow"),
    "good": _uniform("green"),
    "verdict bad": _uniform("red", "bold"),
    "verdict good": _uniform("green", "bold"),
}

LEVELS: Final[dict[str, Kind]] = {
    # Verdicts, outcomes of tests, and first words of lines of the summary and of commands.
    **dict.fromkeys(("error", "over", "lost", "unmeasured", "crashed"), "bad"),
    **dict.fromkeys(("UNVERIFIED", "PROBLEM"), "bad"),
    **dict.fromkeys(("new", "changed", "stale", "note", "looser", "settings"), "warning"),
    **dict.fromkeys(("improved", "recorded", "updated", "pruned", "verified", "ok"), "good"),
}
"""The kind of a line that begins with one of these words.

The verdict ``lost`` is as bad as ``over``; the kind of that name is of a single place.
"""


class TextLine(Struct, frozen=True):
    """One line. ``head`` (signs, labels) comes before the text, only in its first row.

    ``command`` is to be pasted into a shell; it is at the end of the line. ``whole`` lines are
    never wrapped, since their layout is fixed.
    """

    text: str = ""
    kind: Kind = "text"
    indent: int = 0
    head: str = ""
    command: str = ""
    whole: bool = False

    def __str__(self) -> str:
        return f"{' ' * self.indent}{self.head}{self.text}{self.command}".rstrip()

    def harmless(self) -> TextLine:
        """Return the line in a form that is safe for a terminal or a CI log."""
        return replace(
            self, head=console(self.head), text=console(self.text), command=console(self.command)
        )


BLANK: Final = TextLine()


def text_lines(text: str) -> Iterator[TextLine]:
    """Return the lines of a text, with only their indentation as structure."""
    for line in text.split("\n"):
        words = line.lstrip(" ")
        yield TextLine(words, indent=len(line) - len(words))


def label_line(word: str, text: str, command: str = "", *, width: int = 11) -> TextLine:
    """Return a line after a word that says what it is about, in a column of ``width``."""
    return TextLine(text, LEVELS.get(word, "text"), head=f"{word:<{width - 1}} ", command=command)


def list_lines(word: str, items: Iterable[str], most: int) -> Iterator[TextLine]:
    """Yield a line for each item after a label; items beyond ``most`` are counted."""
    texts = list(items)
    yield from (label_line(word, text) for text in texts[:most])
    if len(texts) > most:
        yield label_line(word, f"... and {len(texts) - most:,} more")


SIGNS: Final[dict[str, Kind]] = {"+": "new", "-": "gone", "~": "changed"}
"""The signs of ``judging.finding``; the others tell no change for sure, and are of kind text."""


def sign_line(sign: str, text: str, name: str = "") -> TextLine:
    """Return a line marked as new, gone or changed; ``name`` is a column before the text."""
    return TextLine(text, SIGNS.get(sign, "text"), 2, f"{sign} {name}")


def plain_text(lines: Iterable[TextLine]) -> str:
    """Return the text of lines, harmless and not wrapped: for files, logs and JSON."""
    return "\n".join(str(line.harmless()) for line in lines)


def indent_lines(lines: Iterable[TextLine], columns: int) -> Iterator[TextLine]:
    """Return lines that are indented by a number of further columns."""
    return (replace(line, indent=line.indent + columns) for line in lines)


def blocks(*parts: Iterable[TextLine]) -> Iterator[TextLine]:
    """Yield the lines of all parts that are not empty, separated by blank lines."""
    first = True
    for part in parts:
        lines = list(part)
        if lines and not first:
            yield BLANK
        first = first and not lines
        yield from lines


def pack(lines: Iterable[TextLine]) -> list[list[Any]]:
    """Return lines as lists of exact builtin types, which can be sent to any process."""
    return [list(astuple(line)) for line in lines]


def unpack(data: Iterable[Sequence[Any]]) -> list[TextLine]:
    """Return the lines from the result of ``pack``."""
    return [TextLine(*values) for values in data]
