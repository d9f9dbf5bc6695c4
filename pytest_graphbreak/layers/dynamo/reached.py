"""Says how the line of a break is reached: by plain calls, or by what calls in other ways.

The words, which a report has as ``through`` of a break, and an example of each::

    ""          model(x) calls block(x), which breaks
    operator    torch.cond(p, f, g, (x,)): f breaks
    generator   for y in parts(x): a function with a yield breaks
    method      bool(a), a property a.y, with a: __bool__, y or __enter__ of a class breaks
    callback    map(f, xs), sorted(xs, key=f), a hook f of a module: f breaks
    library     a line in site-packages breaks, reached by plain calls
    unknown     nothing is known of one of the calls, as in a log

``breaks`` asks ``inlined_functions`` while Dynamo is at the break; this gives one of the words for
each function that Dynamo inlined. ``explain`` asks ``through`` when the window is read. A function
that Dynamo compiled by itself, below another one that broke, was reached as that break was.
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

# How Dynamo came from the compiled function to the line that breaks. It has an object for each
# function that it traces (a translator), whose method ``step`` runs one instruction. Where that is
# a call, Dynamo's frames for the call follow on the Python stack, and then ``step`` of the function
# that is called. For ``forward``, which calls ``block``, outermost first::
#
#     step             of the translator of forward
#     CALL             of symbolic_convert.py         these are ``between``: all are in files of
#     call_function    of variables/functions.py      ``_CALLS``, so the call is a plain one
#     step             of the translator of block
#
# These frames were read in symbolic_convert.py of torch 2.9 to 2.13.

_TRANSLATOR: Final = ("_dynamo/symbolic_convert.py", "_dynamo\\symbolic_convert.py")
_OPERATORS: Final = ("higher_order_ops", "invoke_subgraph", "flex_attention")
"""The modules of Dynamo that trace the function which a higher-order operator is called with."""
_CALLS: Final = frozenset(
    {"symbolic_convert", "functions", "lazy", "nn_module", "user_defined", "misc", "base"}
)
"""The modules of Dynamo that have the frames of a plain call of a function, a method or a
``torch.nn.Module``. A call that goes through any other module of Dynamo is a callback."""


def live_frames() -> list[FrameType]:
    """Return the frames of the attempt that is running, outermost first."""
    frames = []
    for frame, _ in walk_stack(None):
        if frame.f_code.co_filename.endswith(CONVERT_FRAME):
            break
        frames.append(frame)
    return frames[::-1]


def inlined_functions(frames: Sequence[FrameType]) -> Inlined:
    """Return how each function that Dynamo inlined was called, by its frames, outermost first."""
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
        # The translator of the compiled function itself has another name, and nothing called it.
        elif type(translator).__name__.startswith("Inlining"):
            inlined.append(_way(traced, between))
        between = []
    return tuple(inlined)


def _way(traced: CodeType, between: Sequence[CodeType]) -> str:
    """Return what called the function ``traced``, by the frames of Dynamo that did it."""
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
    """Return one of the words at the head for the line of a break; empty for plain calls alone.

    A function that is compiled by itself below another was reached by the break that ended that
    one, its ``parent``: so all parents are asked, too.
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
    """Return what leads from the compiled function to the line; empty for plain calls.

    For ``forward``, which calls ``map`` with ``step``, which breaks::

        stack      forward  step
        inlined             callback
    """
    # Libraries in site-packages are the user's here; torch and the standard library are not.
    is_user = [places.is_user(line.file) for line in event.stack]
    # The stack has a line of the compiled function, and one of each that was inlined. Else some
    # function was not told.
    if True not in is_user or len(event.inlined) != len(is_user) - 1:
        return UNKNOWN
    # The shortest of these lists is that of lines: what torch calls below the user's last line does
    # not matter.
    end = len(is_user) - is_user[::-1].index(True)
    steps = zip(event.inlined, event.stack[1:end], is_user, is_user[1:], strict=False)
    for way, line, is_caller_user, is_called_user in steps:
        if way:
            return way
        # Code of torch.nn calls ``forward`` of each module, and other functions if given them.
        if is_called_user and not is_caller_user and line.name != "forward":
            return "callback"
    return ""


def _led_to(attempt: Attempt, parent: Attempt, places: Places) -> str:
    """Return what leads from the function that was compiled before to this one."""
    if is_resume(attempt.code.name) and _is_same(attempt.code, parent.code):
        return ""  # the rest of the function that broke
    if attempt.code.name.startswith("__"):
        return "method"
    has_broken = parent.outcome == "compiled" and bool(parent.breaks)
    if not has_broken or not attempt.above:
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
