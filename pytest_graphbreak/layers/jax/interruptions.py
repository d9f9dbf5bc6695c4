"""Recognises code that JAX cannot compile, by the exception: ``sensors`` notes an ``Interrupted``.

Either the code asks for the value of an array while JAX traces (``stop_reason``). Its exception is
looked at where it leaves the call of ``jit`` (``is_jit_boundary``): others JAX raises and catches
itself, to try things out. Or XLA refuses a program that was traced (``refusal``).
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any, Final

from msgspec import Struct

from pytest_graphbreak.layers.faults import or_else
from pytest_graphbreak.layers.jax.calls import lines
from pytest_graphbreak.layers.jax.functions import home
from pytest_graphbreak.model.stacks import Line, of_traceback


class Interrupted(Struct, eq=False):
    """Code that was not compiled: it asked for the value of a traced array, or XLA refused.

    ``stack`` runs from the outermost frame inwards, to the line that asked.
    """

    reason: str
    stack: tuple[Line, ...]


ASKED: Final = {
    "TracerBoolConversionError": "by bool(): if, while, and, or, not and assert do so",
    "TracerIntegerConversionError": "as an index: range() and lists do so",
    "TracerArrayConversionError": "by NumPy",
    "NonConcreteBooleanIndexError": "to know how many elements a boolean mask takes",
    "ConcretizationTypeError": "by item(), float(), int(), or as a shape",
}
"""The ways to ask for the value of a traced array, by the class of ``jax.errors``. A subclass comes
before its base: ``TracerBoolConversionError`` is a ``ConcretizationTypeError``, too."""

# jax/_src/traceback_util.py, and the functions of jax/_src/pjit.py that it wraps (of 0.10).
_BOUNDARY: Final = "reraise_with_filtered_traceback"
_JIT: Final = ("cache_miss", "jit_trace", "jit_lower")


def is_jit_boundary(frame: FrameType | None) -> bool:
    """Return whether a frame is the edge of a call of ``jit`` that an exception is passing."""
    if frame is None or frame.f_code.co_name != _BOUNDARY:
        return False
    return getattr(frame.f_locals.get("fun"), "__name__", "") in _JIT


def stop_reason(error: BaseException) -> str:
    """Return why an exception stopped JAX, empty if it is another one.

    ``TracerArrayConversionError: the value of a traced array is asked for by NumPy``.
    """
    errors: Any = sys.modules.get("jax.errors")
    for name, how in ASKED.items():
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(type(error), kind):
            return f"{name}: the value of a traced array is asked for {how}"
    return ""


def refusal(name: str, error: BaseException) -> str:
    """Return what XLA said when it could not compile a function."""
    text = or_else("", str, error).strip().split("\n")[0]
    return f"XLA cannot compile {name}: {text or type(error).__name__}"


def stop_stack(error: BaseException, frame: FrameType | None) -> tuple[Line, ...]:
    """Return the frames from the outermost to the line that asked, without JAX's at the end."""
    inner = [*of_traceback(error.__traceback__)[1:]]  # the first is ``frame``'s own
    while inner and inner[-1].file.startswith(home()):
        inner.pop()
    return (*lines(frame), *inner)
