"""A place as lines of a failure: where it is, its code, the calls that lead there, what to try."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_graphbreak.model.record import Break, Eager, Frame, Graph, Recompile
from pytest_graphbreak.text.numbers import noun
from pytest_graphbreak.text.safe import printable

NEAR = 2
"""Calls above a place that are shown in any case."""


def at(where: Frame) -> list[str]:
    return [f"      {place(where)}", *code(where)] if where.file else []


def place(frame: Frame) -> str:
    return printable(position(frame))


def position(frame: Frame) -> str:
    """``file:line in function``, as it came: not yet made harmless."""
    line = f":{frame.line}" if frame.line else ""
    function = f" in {frame.function}" if frame.function else ""
    return f"{frame.file}{line}{function}"


def code(frame: Frame) -> list[str]:
    return [f"          {printable(frame.code)}"] if frame.code else []


def calls(callers: Sequence[Frame]) -> Iterator[str]:
    """The calls that lead there, the nearest first: two, and the user's own line."""
    near = callers[-NEAR:][::-1]
    for frame in near:
        yield from (f"      from {place(frame)}", *code(frame))
    between = len(callers) - len(near) - 1
    if between >= 0:
        if between:
            yield f"      ... {between} {noun(between, 'call')} between"
        yield from (f"      from {place(callers[0])}", *code(callers[0]))


def process(item: Graph) -> str:
    return f"   in process {printable(item.process)}" if item.process else ""


def meanwhile(item: Break | Eager | Recompile, *, first: bool = False) -> list[str]:
    """The process, and what the test said that it was doing; ``first``: when it was first so."""
    process = f"in process {printable(item.process)}" if item.process else ""
    doing = f"{'first ' * first}during {printable(item.during)}" if item.during else ""
    words = ", ".join(filter(None, (process, doing)))
    return [f"      {words}"] if words else []


def of_graph(item: Graph, count: int = 1) -> list[str]:
    """What the test said that it was doing. The process of a graph stands in its first line."""
    first = "first " * (count > 1)
    return [f"      {first}during {printable(item.during)}"] if item.during else []


def to_try(words: str | None) -> list[str]:
    return [f"      try: {printable(words)}"] if words else []
