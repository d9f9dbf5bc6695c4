"""Finds the call of JAX that a program is compiled for, by the frames of JAX on the stack.

``sensors`` asks while the program is compiled (``find_call``), and gets a ``JaxCall``: the user's
line, the function that ``jit`` was given, and the ``Key`` that the program is compiled for
(``keys``).

No function that traces is wrapped: JAX notes the line of each operation by the stack, and would
find our frames. While XLA compiles, nothing is traced, and all that has to be known is in the
variables of a few frames (``private.check_frames`` checks that they exist).
"""

from __future__ import annotations

import os
import re
import sysconfig
from functools import cache
from types import FrameType
from typing import Any, Final, Literal

from msgspec import Struct, field

from pytest_graphbreak.layers.faults import or_else
from pytest_graphbreak.layers.jax.functions import (
    LIBRARIES,
    code_of,
    enclosed_value,
    home,
    is_of_library,
    is_own,
    unwrap,
)
from pytest_graphbreak.layers.jax.keys import Key, key_of_call, named, without_names
from pytest_graphbreak.model.stacks import Line, first_line, line_at, outwards

Kind = Literal["", "forward", "backward", "vmap", "pmap"]
"""The transformation of a function before compilation: for gradients, a batch, several devices."""

_KINDS: Final[dict[str, Kind]] = {
    "_pjit_jvp": "forward",
    "_pjit_linearize": "forward",
    "_pjit_partial_eval": "forward",
    "_pjit_transpose": "backward",
    "_pjit_transpose_fancy": "backward",
    "_pjit_batcher": "vmap",
}
"""The transformation that a rule of ``jit_p`` is for, by its function in jax/_src/pjit.py."""
_SOURCE: Final = re.compile(r"(\S{1,500}) at (.{1,4096}):(\d{1,9})")
"""``f at /home/me/model.py:12``, as JAX names the source of a function."""


class JaxCall(Struct):
    """The call that JAX compiled something for."""

    stack: tuple[Line, ...]
    """From the outermost frame inwards, to the line that called JAX."""
    fun: Any = None
    """What was given to ``jax.jit``; None where JAX's frames do not have it."""
    of_jax: bool = False
    """JAX itself gave it to ``jit``, as it does for each function of ``jax.numpy``."""
    aot: bool = False
    """It is compiled ahead of its calls: ``f.lower(x).compile()``."""
    moves: bool = False
    """It is compiled for a ``device_put``."""
    kind: Kind = ""
    source: str = ""
    """JAX's text on where the function was defined; empty if it has none."""
    key: Key = field(default_factory=Key)

    @property
    def defined(self) -> Line | None:
        """The place where the user's function is defined, with its name; None for one of JAX."""
        if self.of_jax:
            return None
        if code := code_of(self.fun):
            line = first_line(code)
            return None if line.file.startswith(home()) else line
        match = _SOURCE.fullmatch(self.source)
        return Line(match[2], int(match[3]), match[1]) if match is not None else None

    @property
    def caller(self) -> Line | None:
        """The line that called JAX, or that called the library that did."""
        outside = (line for line in reversed(self.stack) if not LIBRARIES.search(line.file))
        return next(outside, self.stack[-1] if self.stack else None)


def find_call(frame: FrameType | None) -> JaxCall:
    """Return the call that is compiled for, from the frame of JAX that compiles.

    A program is compiled for one of these, known by the frames that are there (``_Frames``)::

        a call of jit, or pmap                   miss             its key is read from there
        a backward pass, without such a call     impl, no miss    only types are known
        pmap of jax 0.7, or ahead of its calls   neither          only types, and none of the latter
    """
    seen = _Frames()
    while frame is not None and (_is_jax(frame) or _only_links(frame)):
        if _is_jax(frame):
            seen.take(frame)
        frame = frame.f_back
    call = JaxCall(lines(frame), aot=seen.aot, kind=seen.kind, moves=seen.moves, fun=seen.fun)
    jaxpr = seen.impl.get("jaxpr") if seen.impl is not None else None
    call.source = _source(jaxpr)
    if seen.miss is not None:
        if seen.fun is None:  # else it is pmap's, which has said which function is the user's
            call.fun = seen.miss.get("fun")
            call.of_jax = or_else(False, is_own, call.fun, seen.is_direct)
        call.key = or_else(Key(), key_of_call, seen.miss, seen.params, jaxpr)
        if is_of_library(call.fun):
            call.key = without_names(call.key)
    elif jaxpr is not None:
        call.of_jax = call.source.rpartition(" at ")[2].startswith(home())
        call.key = Key(arguments=named((), jaxpr.in_avals))
    else:
        call.key = Key(arguments=named((), seen.avals))
    return call


class _Frames(Struct):
    """The findings in JAX's frames so far, from the frame that compiles outwards.

    The frames of a call of ``jit``, outermost first, and what is taken from each. The walk goes
    from the last one up to the user's::

        the user's line
        other frames of JAX       is_direct, moves; of pmap: kind, fun
        cache_miss                miss
        _run_python_pjit          params
        _pjit_jvp, ...            kind
        _pjit_call_impl_python    impl
    """

    impl: dict[str, Any] | None = None
    """The variables of ``_pjit_call_impl_python``."""
    params: Any = None
    """What JAX worked out for the call: the names and abstract values of its arguments."""
    miss: dict[str, Any] | None = None
    """The variables of ``cache_miss``, the call of ``jit``."""
    kind: Kind = ""
    aot: bool = False
    moves: bool = False
    is_direct: bool = False
    """JAX itself makes the call."""
    fun: Any = None
    """The function of ``pmap``."""
    avals: tuple[Any, ...] = ()
    """The arguments of ``pmap`` in jax 0.7, which calls no ``jit`` for it."""

    def take(self, frame: FrameType) -> None:
        """Read the next frame outwards."""
        if self.miss is not None:
            self._take_caller(frame, self.miss)
        else:
            self._take_inside(frame, frame.f_code.co_name)

    def _take_inside(self, frame: FrameType, name: str) -> None:
        """Read a frame of JAX inside of the call of ``jit``, or that call itself."""
        if name == "_pjit_call_impl_python":
            self.impl = self.impl or frame.f_locals
        # Two names of one function: jax 0.10 has the second (jax/_src/pjit.py).
        elif name in ("_python_pjit_helper", "_run_python_pjit"):
            self.params = frame.f_locals.get("p")
        elif name == "cache_miss" and _file(frame) == "pjit.py":
            self.miss = frame.f_locals
        elif name == "compile" and _file(frame) == "stages.py":
            self.aot = True
        elif name == "parallel_callable":  # pmap of jax 0.7
            self.kind, self.fun = "pmap", getattr(frame.f_locals.get("fun"), "f", None)
            self.avals = frame.f_locals.get("avals", ())
        elif name in _KINDS and not self.kind:
            self.kind = _KINDS[name]

    def _take_caller(self, frame: FrameType, miss: dict[str, Any]) -> None:
        """Read a frame of JAX around the call of ``jit``."""
        self.is_direct = self.is_direct or _does_more_than_wrap(frame)
        self.moves = self.moves or "device_put" in frame.f_code.co_name
        if _file(frame) == "pmap.py":
            # Later versions than 0.7 call jit(shard_map(_fun)). ``_fun`` of pmap.py has a variable
            # ``fun``, which is an object with the user's function as ``f``.
            self.kind = "pmap"
            self.fun = getattr(enclosed_value(unwrap(miss["fun"]), "fun"), "f", None)


def _is_jax(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(home())


@cache
def _standard_library() -> str:
    return os.path.join(sysconfig.get_path("stdlib"), "")


_OURS: Final = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")
"""The directory of the layers, whose hooks are among JAX's frames."""
_PACKAGES: Final = os.path.join("site-packages", "")


def _only_links(frame: FrameType) -> bool:
    """Return whether a frame only links two of JAX: one of the standard library, or ours."""
    file = frame.f_code.co_filename
    is_standard = file.startswith(_standard_library()) and _PACKAGES not in file
    return is_standard or file.startswith(_OURS)


def _file(frame: FrameType) -> str:
    return os.path.basename(frame.f_code.co_filename)


def _does_more_than_wrap(frame: FrameType) -> bool:
    """Return whether a frame of JAX outside of a call is more than JAX's wrapping of each call."""
    return _file(frame) not in ("traceback_util.py", "profiler.py", "api_util.py")


def lines(frame: FrameType | None) -> tuple[Line, ...]:
    """Return the stack from the outermost frame to this one."""
    return tuple(map(line_at, outwards(frame)))[::-1]


def _source(jaxpr: Any) -> str:
    """Return ``f at /home/me/model.py:12``, as JAX has it; empty if it has no such text."""
    info = getattr(jaxpr, "debug_info", None)
    if info is None:  # a ClosedJaxpr of jax 0.7
        info = getattr(getattr(jaxpr, "jaxpr", None), "debug_info", None)
    return str(getattr(info, "func_src_info", "") or "")
