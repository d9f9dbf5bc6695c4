"""What the StableHLO module of a program holds: operations, inputs, outputs, calls of Python."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from pytest_graphbreak.layers.jax.events import HostCallback
from pytest_graphbreak.model.stacks import Line

_PLAIN: Final = ("constant", "return", "func", "call", "module")
"""Operations that compute nothing."""
_FUNCTIONS: Final = {
    "pure_callback": "jax.pure_callback",
    "io_callback": "jax.experimental.io_callback",
    "debug_print": "jax.debug.print",
    "debug_callback": "jax.debug.callback",  # before jax 0.8 that of jax.debug.print, too
}
"""The functions of JAX that put a call of Python into a program, by the primitive."""
_PRIMITIVE: Final = re.compile(rf"\b({'|'.join(_FUNCTIONS)})\b")
_FRAME: Final = re.compile(r'"([^"\n]{1,500})"\("([^"\n]{1,4096})":(\d{1,9}):')
_LONGEST: Final = 100_000
"""Characters that are read of a location."""


class ModuleContents(NamedTuple):
    """Numbers are None where they are not known."""

    ops: int | None = None
    inputs: int | None = None
    outputs: int | None = None
    callbacks: tuple[HostCallback, ...] = ()


def contents(module: Any) -> ModuleContents:
    """What a module holds; nothing is known of one that cannot be read."""
    try:
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
    except Exception:  # the program counts all the same
        return ModuleContents()


def _operations(operation: Any) -> Iterator[Any]:
    for region in operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                found = inner.operation
                yield found
                if len(found.regions):
                    yield from _operations(found)


def _calls_python(operation: Any) -> bool:
    """Whether an operation calls Python on the host: by a custom call, on TPU by a transfer."""
    if operation.name == "stablehlo.custom_call":
        return "callback" in str(operation.attributes["call_target_name"])
    if operation.name == "stablehlo.send":
        return "true" in str(operation.attributes["is_host_transfer"])
    return False


def callback(location: str) -> HostCallback:
    """What calls Python, from the location of its operation.

    JAX prints there its primitive, and the user's frames from the innermost outwards.
    """
    location = location[:_LONGEST]
    found = _PRIMITIVE.search(location)
    kind = _FUNCTIONS[found[1]] if found is not None else "a callback"
    lines = [Line(file, int(line), name) for name, file, line in _FRAME.findall(location)]
    return HostCallback(kind, tuple(reversed(lines)))
