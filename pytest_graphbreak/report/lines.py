"""The lines of a place in a failure: position, code, calls that lead there, advice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_graphbreak.model.record import Break, Eager, Frame, Graph, LineRuns, Recompile
from pytest_graphbreak.text.output import TextLine, noun

NEAR = 2
"""The number of calls above a place that are always shown."""
FAR = 3
"""The number of outermost calls that are always shown: the test's own lines, and its helpers'."""
DEPTH = 6
"""Columns before the lines below the first line of a cause."""


def detail(text: str, deeper: int = 0) -> TextLine:
    """Return a line below the first one of a cause."""
    return TextLine(text, indent=DEPTH + deeper)


def at(where: Frame, times: int = 1) -> list[TextLine]:
    """Return a place, how often it was reached, and its source line; nothing for no place."""
    if not where.file:
        return []
    words = f"{position(where)}   {times:,} times" if times > 1 else position(where)
    return [TextLine(words, "place", DEPTH), *code(where)]


def position(frame: Frame) -> str:
    """Return a position in words: ``file:line in function``."""
    line = f":{frame.line}" if frame.line else ""
    function = f" in {frame.function}" if frame.function else ""
    return f"{frame.file}{line}{function}"


def code(frame: Frame, indent: int = DEPTH + 4) -> list[TextLine]:
    """Return the source line of a place, if it is known."""
    return [TextLine(frame.code, "source", indent)] if frame.code else []


def calls(callers: Sequence[Frame]) -> Iterator[TextLine]:
    """Yield the calls that lead to a place: the nearest first, and the outermost."""
    between = max(len(callers) - NEAR - FAR, 0)
    for number, frame in enumerate(reversed(callers)):
        if number == NEAR and between:
            yield detail(f"... {between} {noun(between, 'call')} between")
        if not NEAR <= number < NEAR + between:
            yield _call(frame)


def _call(frame: Frame) -> TextLine:
    return TextLine(f"from {position(frame)}", "call", DEPTH)


def process(item: Graph | LineRuns) -> str:
    return f"   in process {item.process}" if item.process else ""


def meanwhile(item: Break | Eager | Recompile, *, first: bool = False) -> list[TextLine]:
    """Return the process and what the test said it was doing; ``first`` for its first time."""
    process = f"in process {item.process}" if item.process else ""
    doing = f"{'first ' * first}during {item.during}" if item.during else ""
    words = ", ".join(filter(None, (process, doing)))
    return [detail(words)] if words else []


def of_graph(item: Graph, count: int = 1) -> list[TextLine]:
    """Return what the test said it was doing; the process of a graph is in its first line."""
    first = "first " * (count > 1)
    return [detail(f"{first}during {item.during}")] if item.during else []


def to_try(*lines: str | None) -> list[TextLine]:
    """Return what to write instead, as far as that is known."""
    return [TextLine(words, "advice", DEPTH, "fix: ") for words in lines if words]
