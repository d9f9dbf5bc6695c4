"""The functions that the operations of an FX graph come from, by the stacks that Dynamo gave."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from pytest_graphbreak.layers.dynamo.events import Calls
from pytest_graphbreak.model.places import Places

MOST_FUNCTIONS: Final = 40
"""The most functions of one graph that are reported: those with the most operations."""

_STACK_FRAME: Final = re.compile(r'File "([^"\n]*)", line (\d{1,9}), in ([^\n]*)')
_PASSES_ALL_ON: Final = re.compile(r"\(.{0,80}\*\w+.{0,80}\*\*\w+")
"""The wrapper of a decorator, which only passes on what it was called with."""


def functions(calls: Calls, places: Places) -> dict[str, int]:
    """Return how many operations each function holds, with those of the functions that it calls.

    The keys are ``file::qualified.name``, the most operations first; only the user's functions, and
    not the wrapper of a decorator.
    """
    counts: Counter[str] = Counter()
    names: dict[tuple[str, str, str], str] = {}
    for stack, number in calls:
        lines: list[tuple[str, str, str]] = _STACK_FRAME.findall(stack)
        for line in lines:
            if line not in names:
                names[line] = _function_name(*line, places)
        for name in {names[line] for line in lines} - {""}:
            counts[name] += number
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MOST_FUNCTIONS])


def _function_name(file: str, line: str, name: str, places: Places) -> str:
    """Return the function of a frame; empty if it is not to be reported."""
    if not places.is_user(file):
        return ""
    frame = places.frame(file, int(line), name.strip())
    return "" if _PASSES_ALL_ON.search(frame.code) else f"{frame.file}::{frame.function}"
