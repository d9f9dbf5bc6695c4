"""What stops code from being compiled: the value of an array is asked for while JAX traces.

JAX raises then. The exception is seen where it leaves the call of ``jit``: what JAX raises and
catches by itself, as it does to try things out, is none of our business.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any, Final

from pytest_graphbreak.layers.jax.calls import is_jax, lines
from pytest_graphbreak.model.stacks import Line

ASKED: Final = {
    "TracerBoolConversionError": "by bool(): if, while, and, or, not and assert do so",
    "TracerIntegerConversionError": "as an index: range() and lists do so",
    "TracerArrayConversionError": "by NumPy",
    "NonConcreteBooleanIndexError": "to know how many elements a boolean mask takes",
    "ConcretizationTypeError": "by item(), float(), int(), or as a shape",
}
"""How the value of a traced array can be asked for, by the class of ``jax.errors``."""

_BOUNDARY: Final = "reraise_with_filtered_traceback"
_JIT: Final = ("cache_miss", "jit_trace", "jit_lower")


def is_jit(frame: FrameType | None) -> bool:
    """Whether a frame is the edge of a call of ``jit``, which an exception is passing."""
    if frame is None or frame.f_code.co_name != _BOUNDARY:
        return False
    return getattr(frame.f_locals.get("fun"), "__name__", "") in _JIT


def reason(error: BaseException) -> str:
    """``the value of a traced array is asked for by bool()``; empty for any other exception."""
    errors: Any = sys.modules.get("jax.errors")
    for name, how in ASKED.items():
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and isinstance(error, kind):
            return f"{name}: the value of a traced array is asked for {how}"
    return ""


def refused(name: str, error: BaseException) -> str:
    """What XLA said when it could not compile a function."""
    text = str(error).strip().split("\n")[0]
    return f"XLA cannot compile {name}: {text or type(error).__name__}"


def stack(error: BaseException, frame: FrameType | None) -> tuple[Line, ...]:
    """The frames from the outermost to the one that asked, without those of JAX at the end."""
    found = [*lines(frame)]
    trace = error.__traceback__.tb_next if error.__traceback__ is not None else None
    inner = []
    while trace is not None:
        code = trace.tb_frame.f_code
        line = Line(code.co_filename, trace.tb_lineno, code.co_name)
        inner.append((line, is_jax(trace.tb_frame)))
        trace = trace.tb_next
    while inner and inner[-1][1]:
        inner.pop()
    return (*found, *(line for line, _ in inner))
