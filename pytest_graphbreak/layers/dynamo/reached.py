"""How the line of a break is reached: by plain calls, or by what calls in other ways.

What called each function that Dynamo inlined is noted; a function that Dynamo compiled for itself
was reached as the break was that ended its caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from inspect import CO_GENERATOR
from traceback import walk_stack
from types import CodeType, FrameType
from typing import Any, Final

from pytest_graphbreak.layers.dynamo.events import UNKNOWN, Attempt, Broke, Inlined
from pytest_graphbreak.layers.dynamo.frames import CONVERT_FRAME
from pytest_graphbreak.model import stacks
from pytest_graphbreak.model.places import Places, is_resume
from pytest_graphbreak.model.stacks import Line

# How Dynamo came from the compiled function to the line that breaks: it traces a function that is
# called by frames of its own, one of which (``step``) runs each instruction. They were read in
# symbolic_convert.py of torch 2.9 to 2.13; what is not known here is ``UNKNOWN``, and never plain.

_TRANSLATOR: Final = ("_dynamo/symbolic_convert.py", "_dynamo\\symbolic_convert.py")
_OPERATORS: Final = ("higher_order_ops", "invoke_subgraph", "flex_attention")
"""The modules of Dynamo that trace the function which a higher-order operator is called with."""
_CALLS: Final = frozenset(
    {"symbolic_convert", "functions", "lazy", "nn_module", "user_defined", "misc", "base"}
)
"""The modules of Dynamo that a plain call of a function or a method goes through."""


def live_frames() -> list[FrameType]:
    """Return the frames of the attempt that is running, outermost first."""
    frames = []
    for frame, _ in walk_stack(None):
        if frame.f_code.co_filename.endswith(CONVERT_FRAME):
            break
        frames.append(frame)
    return frames[::-1]


def inlined_functions(frames: Sequence[FrameType]) -> Inlined:
    """Return the functions that Dynamo inlined, by its own frames, outermost first."""
    inlined = []
    between: list[CodeType] = []
    for frame in frames:
        code = frame.f_code
        if code.co_name != "step" or not code.co_filename.endswith(_TRANSLATOR):
            between.append(code)
            continue
        translator: Any = frame.f_locals.get("self")
        traced = getattr(translator, "f_code", None)
        if not isinstance(traced, CodeType):
            inlined.append(UNKNOWN)
        elif type(translator).__name__.startswith("Inlining"):
            inlined.append(_way(traced, between))
        between = []
    return tuple(inlined)


def _way(traced: CodeType, between: Sequence[CodeType]) -> str:
    """Return what called a function, by what Dynamo did for it; empty for a plain call."""
    dynamos = [code for code in between if "_dynamo" in code.co_filename]
    modules = {code.co_filename.replace("\\", "/").rpartition("/")[2][:-3] for code in dynamos}
    if modules.intersection(_OPERATORS):
        return "operator"
    if traced.co_flags & CO_GENERATOR:
        return "generator"
    if traced.co_name.startswith("__"):
        return "method"
    is_call = any(
        code.co_name.startswith("CALL") and code.co_filename.endswith(_TRANSLATOR)
        for code in dynamos
    )
    if not is_call:  # an instruction that is no call runs a method: an operator, an attribute
        return "method"
    return "" if modules <= _CALLS else "callback"


# What leads to the line, as it is read.


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
    # The stack has a line of the compiled function, and one of each that was inlined.
    if True not in is_user or len(event.inlined) != len(is_user) - 1:
        return UNKNOWN
    end = len(is_user) - is_user[::-1].index(True)  # below the user's last line all is a library's
    steps = zip(event.inlined, event.stack[1:end], is_user, is_user[1:], strict=False)
    for way, line, is_caller_user, is_called_user in steps:
        if way:
            return way
        if is_called_user and not is_caller_user and line.name != "forward":
            return "callback"
    return ""


def _led_to(attempt: Attempt, parent: Attempt, places: Places) -> str:
    """Return what leads from the function that was compiled before to this one."""
    if is_resume(attempt.code.name) and _is_same(attempt.code, parent.code):
        return ""  # the rest of the function that broke
    if attempt.code.name.startswith("__"):
        return "method"
    if parent.outcome != "compiled" or not parent.breaks or not attempt.above:
        return UNKNOWN
    caller = attempt.above[-1]
    if not _is_same(caller, parent.code):
        # A module is called by code of torch.nn, which then is the caller.
        is_forward = attempt.code.name == "forward" and not places.is_user(caller.file)
        return "" if is_forward else UNKNOWN
    return _inside([*parent.breaks.values()][-1], places)


def _is_same(code: Line, later: Line) -> bool:
    """Return whether lines are of one function, or of the rest of it."""
    return stacks.function(code) == stacks.function(later)
