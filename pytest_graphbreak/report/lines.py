"""A place as lines of a failure: where it is, its code, the calls that lead there, what to try."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_graphbreak.model.record import Break, Eager, Frame, Graph, LineRuns, Recompile
from pytest_graphbreak.text.output import TextLine, noun

NEAR = 2
"""Calls above a place that are shown in any case."""
DEPTH = 6
"""Columns before what is said below the first line of a cause."""


def detail(text: str, deeper: int = 0) -> TextLine:
    """A line below the first one of a cause."""
    return TextLine(text, indent=DEPTH + deeper)


def at(where: Frame, times: int = 1) -> list[TextLine]:
    """A place, how often it was reached, and its source line; nothing for no place."""
    if not where.file:
        return []
    words = f"{position(where)}   {times:,} times" if times > 1 else position(where)
    return [TextLine(words, "place", DEPTH), *code(where)]


def position(frame: Frame) -> str:
    """``file:line in function``."""
    line = f":{frame.line}" if frame.line else ""
    function = f" in {frame.function}" if frame.function else ""
    return f"{frame.file}{line}{function}"


def code(frame: Frame, indent: int = DEPTH + 4) -> list[TextLine]:
    """The source line of a place, where it is known."""
    return [TextLine(frame.code, "source", indent)] if frame.code else []


def calls(callers: Sequence[Frame]) -> Iterator[TextLine]:
    """The calls that lead there, the nearest first: two, and the user's own line."""
    near = callers[-NEAR:][::-1]
    for frame in near:
        yield _call(frame)
    between = len(callers) - len(near) - 1
    if between >= 0:
        if between:
            yield detail(f"... {between} {noun(between, 'call')} between")
        yield _call(callers[0])


def _call(frame: Frame) -> TextLine:
    return TextLine(f"from {position(frame)}", "call", DEPTH)


def process(item: Graph | LineRuns) -> str:
    return f"   in process {item.process}" if item.process else ""


def meanwhile(item: Break | Eager | Recompile, *, first: bool = False) -> list[TextLine]:
    """The process, and what the test said that it was doing; ``first``: when it was first so."""
    process = f"in process {item.process}" if item.process else ""
    doing = f"{'first ' * first}during {item.during}" if item.during else ""
    words = ", ".join(filter(None, (process, doing)))
    return [detail(words)] if words else []


def of_graph(item: Graph, count: int = 1) -> list[TextLine]:
    """What the test said that it was doing. The process of a graph is in its first line."""
    first = "first " * (count > 1)
    return [detail(f"{first}during {item.during}")] if item.during else []


def to_try(words: str | None) -> list[TextLine]:
    """What to write instead, if that is known."""
    return [TextLine(words, "advice", DEPTH, "fix: ")] if words else []
