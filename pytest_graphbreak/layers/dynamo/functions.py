"""Which functions the operations of an FX graph come from, by the stacks that Dynamo gave them."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from pytest_graphbreak.layers.dynamo.events import Calls
from pytest_graphbreak.model.places import Naming

MOST: Final = 40
"""Functions of one graph that are told, those with the most operations."""

_FRAME: Final = re.compile(r'File "([^"\n]*)", line (\d+), in ([^\n]*)')
_PASSED_ON: Final = re.compile(r"\(.{0,80}\*\w+.{0,80}\*\*\w+")
"""A decorator's wrapper, which only hands on what it was called with."""


def functions(calls: Calls, places: Naming) -> dict[str, int]:
    """How many operations each function holds, with those of the functions that it calls.

    By ``file::qualified.name``, the most first; of the user's functions, and not of a
    decorator's wrapper.
    """
    found: Counter[str] = Counter()
    known: dict[tuple[str, str, str], str] = {}
    for stack, number in calls:
        lines: list[tuple[str, str, str]] = _FRAME.findall(stack)
        for line in lines:
            if line not in known:
                known[line] = _name(*line, places)
        for name in {known[line] for line in lines} - {""}:
            found[name] += number
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0]))[:MOST])


def _name(file: str, line: str, name: str, places: Naming) -> str:
    """The function of a frame; empty if it is none to tell of."""
    if not places.is_user(file):
        return ""
    frame = places.frame(file, int(line), name.strip())
    return "" if _PASSED_ON.search(frame.code) else f"{frame.file}::{frame.function}"
