"""An executable that JAX made, as ``sensors`` notes it, and what its StableHLO module holds.

JAX hands the module to the function that compiles it. From it come numbers of operations, inputs
and outputs, and the calls of Python on the host, which ``explain`` makes breaks of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from msgspec import Struct

from pytest_graphbreak.layers.faults import or_else
from pytest_graphbreak.model.stacks import Line


class HostCallback(Struct, frozen=True):
    """A call of Python by a compiled program. ``kind`` is the function of JAX that put it there.

    ``stack`` runs from the outermost frame that JAX noted inwards; empty if it noted none.
    """

    kind: str
    stack: tuple[Line, ...]


class ModuleContents(NamedTuple):
    """The contents of a program's StableHLO module. Numbers are None if they are not known."""

    ops: int | None = None
    inputs: int | None = None
    outputs: int | None = None
    callbacks: tuple[HostCallback, ...] = ()


class Executable(Struct, eq=False):
    """An XLA executable that JAX made.

    ``sensors`` fills it in step by step while JAX makes it: what has its default was not reached.
    """

    name: str
    """The name of the function or operation: ``wave``, ``sin``."""
    platform: str = ""
    devices: tuple[int, ...] = ()
    """The ids of the devices that it runs on, of that platform."""
    cause: str = "other"
    """A cause of the jax layer: ``jit``, ``retrace``, ``eager``."""
    reason: str = ""
    """Why there is one, if there is more to say than the cause."""
    default_platform: str = ""
    """The platform that JAX takes by itself."""
    stack: tuple[Line, ...] = ()
    """From the outermost frame inwards, without JAX's frames at its end."""
    loaded: bool = False
    """The persistent cache had it: nothing was compiled."""
    contents: ModuleContents = ModuleContents()
    defined: Line | None = None
    """Where the function that was given to ``jax.jit`` is defined, None if that is not known."""
    seconds: float | None = None
    """How long it took to compile."""


# Reading the module of a program: operations, inputs, outputs, calls of Python.

_PLAIN: Final = ("constant", "return", "func", "call", "module")
"""Operations that compute nothing."""
_FUNCTIONS: Final = {
    "pure_callback": "jax.pure_callback",
    "io_callback": "jax.experimental.io_callback",
    "debug_print": "jax.debug.print",
    "debug_callback": "jax.debug.callback",  # before jax 0.8 also that of jax.debug.print
}
"""The functions of JAX that put a call of Python into a program, by their primitive."""
_PRIMITIVE: Final = re.compile(rf"\b({'|'.join(_FUNCTIONS)})\b")
"""A primitive in the location of an operation: ``loc("jit(step)/pure_callback"(...``."""
_FRAME: Final = re.compile(r'"([^"\n]{1,500})"\("([^"\n]{1,4096})":(\d{1,9}):')
"""A frame in the location of an operation: ``"forward"("/home/me/model.py":12:4``."""
_LONGEST: Final = 100_000
"""The most characters that are read of a location."""


def read_module(module: Any) -> ModuleContents:
    """Return what a module holds; empty if it cannot be read."""
    return or_else(ModuleContents(), _read_module, module)  # the program still counts


def _read_module(module: Any) -> ModuleContents:
    ops, inputs, outputs = 0, None, None
    callbacks: list[HostCallback] = []
    for function in module.body.operations:
        if str(function.attributes["sym_name"]).strip('"') == "main":
            kind = function.type
            inputs, outputs = len(kind.inputs), len(kind.results)
        for inner in _operations(function.operation):
            ops += inner.name.rpartition(".")[2] not in _PLAIN
            if _calls_python(inner):
                callbacks.append(callback(str(inner.location)))
    return ModuleContents(ops, inputs, outputs, tuple(callbacks))


def _operations(operation: Any) -> Iterator[Any]:
    """Yield all operations inside of one, also in loops and branches."""
    for region in operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                operation_below = inner.operation
                yield operation_below
                if len(operation_below.regions):
                    yield from _operations(operation_below)


def _calls_python(operation: Any) -> bool:
    """Return whether an operation calls Python on the host: by a custom call, on TPU a transfer."""
    if operation.name == "stablehlo.custom_call":
        return "callback" in str(operation.attributes["call_target_name"])
    if operation.name == "stablehlo.send":
        return "true" in str(operation.attributes["is_host_transfer"])
    return False


def callback(location: str) -> HostCallback:
    """Return the function that calls Python, from the location of its operation.

    JAX prints its primitive there, and the user's frames from the innermost outwards::

        loc("jit(step)/pure_callback"(callsite("helper"("/me/a.py":24:11 to :77)
            at callsite("step"("/me/a.py":27:8 to :21) ...
    """
    location = location[:_LONGEST]
    primitive = _PRIMITIVE.search(location)
    kind = _FUNCTIONS[primitive[1]] if primitive is not None else "a callback"
    lines = [Line(file, int(line), name) for name, file, line in _FRAME.findall(location)]
    return HostCallback(kind, tuple(reversed(lines)))
