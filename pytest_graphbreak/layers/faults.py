"""Tells a fault of ours from what arrived while our code ran.

A sensor is called in the middle of the user's program. What goes wrong in it is noted, and never
gets to that program. But a signal may be handled there, too, and its handler raise: the time limit
of a test, say. That is the user's, and goes on. Where the two cannot be told apart the user's
program wins.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from inspect import CO_VARARGS
from types import FrameType, TracebackType
from typing import Any, Final, TypeVar

_T = TypeVar("_T")

Tell = Callable[[Exception], object]
"""A function that is called with a fault of ours. It does not raise."""

_PACKAGE: Final = __name__.partition(".")[0]
_RAISED_HERE: Final = {
    *sys.stdlib_module_names,
    *(_PACKAGE, "torch", "torch_xla", "jax", "jaxlib", "triton", "numpy", "msgspec"),
}
"""The packages whose exceptions our code may raise, itself or by what it calls."""


def is_ours(frame: FrameType) -> bool:
    """Return whether a frame runs code of this package."""
    name = frame.f_globals.get("__name__")
    return type(name) is str and name.partition(".")[0] == _PACKAGE


def arrived(fault: BaseException, trace: TracebackType | None) -> bool:
    """Return whether an exception that our code met came from outside of it.

    ``trace`` is its traceback, from the frame of ours that met it inwards.
    """
    # It came from outside if a function was called with the frame that it interrupted, as Python
    # calls signal handlers (``handler(signum, frame)``) and trace functions.
    before: FrameType | None = None
    while trace is not None:
        frame = trace.tb_frame
        if before is not None and not is_ours(frame) and _is_called_with(frame, before):
            return True
        before, trace = frame, trace.tb_next
    # Or if our own line is the innermost, and its class is one that nothing raises that we call, or
    # ``TimeoutError``: then another thread has sent it (``PyThreadState_SetAsyncExc``).
    if before is None or not is_ours(before):
        return False
    kind = type(fault)
    return kind is TimeoutError or kind.__module__.partition(".")[0] not in _RAISED_HERE


def _is_called_with(frame: FrameType, value: FrameType) -> bool:
    """Return whether a frame is among the arguments of the function that another one runs."""
    code = frame.f_code
    # Arguments come first in co_varnames, those in ``*args`` as one tuple.
    number = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & CO_VARARGS)
    for name in code.co_varnames[:number]:
        argument = frame.f_locals.get(name)
        if argument is value:
            return True
        if type(argument) is tuple and any(part is value for part in argument):
            return True
    return False


class guard:
    """A context in which a fault of ours is handed to ``tell``, or ignored without it.

    What arrived goes on, as does every exception that is no ``Exception``.
    """

    __slots__ = ("_tell",)

    def __init__(self, tell: Tell | None = None) -> None:
        self._tell = tell

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: Any
    ) -> bool:
        if not isinstance(fault, Exception) or arrived(fault, trace):
            return False
        if self._tell is not None:
            self._tell(fault)
        return True


def or_else(default: _T, call: Callable[..., _T], *args: Any) -> _T:
    """Return what a function of ours returns, or ``default`` where it fails: a word is missing.

    For what is read of the user's objects: any attribute, comparison or text of them may raise.
    """
    with guard():
        return call(*args)
    return default
