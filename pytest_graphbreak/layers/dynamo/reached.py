"""How the line of a break is reached: by plain calls, or by what calls in other ways.

The sensors note what called each function that Dynamo inlined (``breaks``); a function that Dynamo
compiled for itself was reached as the break was that ended its caller.
"""

from __future__ import annotations

from pytest_graphbreak.layers.dynamo.events import UNKNOWN, Attempt, Broke
from pytest_graphbreak.model import stacks
from pytest_graphbreak.model.places import Places, is_resume
from pytest_graphbreak.model.stacks import Line


def through(event: Broke, places: Places) -> str:
    """Return what leads to the line of a break, if that is more than plain calls of functions.

    A function that is compiled for itself is there because of the break that ended its caller.
    """
    if way := _inside(event, places):
        return way
    attempt = event.attempt
    if attempt is None:
        return UNKNOWN
    while (parent := attempt.parent) is not None:
        if way := _led_to(attempt, parent, places):
            return way
        attempt = parent
    files = [line.file for line in event.stack if places.is_user(line.file)]
    return "library" if places.is_installed(files[-1]) else ""


def _inside(event: Broke, places: Places) -> str:
    """Return what leads from the compiled function to the line; empty for plain calls."""
    is_user = [places.is_user(line.file) for line in event.stack]
    if True not in is_user or len(event.inlined) != len(is_user) - 1:
        return UNKNOWN
    last = len(is_user) - is_user[::-1].index(True)
    steps = zip(event.inlined, event.stack[1:last], is_user, is_user[1:], strict=False)
    for way, line, outer, inner in steps:
        if way:
            return way
        if inner and not outer and line.name != "forward":
            return "callback"
    return ""


def _led_to(attempt: Attempt, parent: Attempt, places: Places) -> str:
    """Return what leads from the function that was compiled before to this one."""
    if is_resume(attempt.code.name) and _is_same(attempt.code, parent.code):
        return ""
    if attempt.code.name.startswith("__"):
        return "method"
    if parent.outcome != "compiled" or not parent.broke or not attempt.above:
        return UNKNOWN
    caller = attempt.above[-1]
    if not _is_same(caller, parent.code):
        is_forward = attempt.code.name == "forward" and not places.is_user(caller.file)
        return "" if is_forward else UNKNOWN
    return _inside([*parent.broke.values()][-1], places)


def _is_same(code: Line, later: Line) -> bool:
    """Return whether lines are of one function, or of the rest of it."""
    return stacks.function(code) == stacks.function(later)
