"""The events of JAX while windows were open, in the order in which they happened."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from pytest_graphbreak.layers.jax import private
from pytest_graphbreak.model.stacks import Line


@dataclass(frozen=True, slots=True)
class HostCallback:
    """A call of Python by a compiled program. ``kind`` is the function of JAX that put it there.

    ``stack`` runs from the outermost frame that JAX noted inwards; empty if it noted none.
    """

    kind: str
    stack: tuple[Line, ...]


@dataclass(slots=True, eq=False)
class Executable:
    """An XLA executable that JAX made.

    ``cause`` is one of the layer's; ``reason`` says why, if there is more to say than the cause.
    ``platform`` and ``devices`` (their ids) are those that it runs on, ``default`` is the platform
    that JAX chooses itself. ``seconds`` is how long it took to compile. ``loaded``: the persistent
    cache had it, nothing was compiled. ``stack`` runs from the outermost frame inwards, without
    JAX's frames at its end. ``defined`` is where the function that was given to ``jax.jit`` is
    defined, None if that is not known.
    """

    name: str
    platform: str = ""
    devices: tuple[int, ...] = ()
    cause: str = "other"
    reason: str = ""
    default: str = ""
    stack: tuple[Line, ...] = ()
    loaded: bool = False
    ops: int | None = None
    inputs: int | None = None
    outputs: int | None = None
    defined: Line | None = None
    callbacks: tuple[HostCallback, ...] = ()
    seconds: float | None = None


@dataclass(slots=True, eq=False)
class Interrupted:
    """Code that was not compiled: it asked for the value of a traced array, or XLA refused.

    ``stack`` runs from the outermost frame inwards, to the line that asked.
    """

    reason: str
    stack: tuple[Line, ...]


@dataclass(slots=True, eq=False)
class MissedExecutable:
    """A program that JAX counted and our hook did not see."""

    name: str


@dataclass(slots=True, eq=False)
class SensorFault:
    """The failure of a sensor."""

    error: str


Event = Executable | Interrupted | MissedExecutable | SensorFault
Kind = Literal["", "forward", "backward", "vmap", "pmap"]
"""The transformation of a function before compilation: for gradients, a batch, several devices."""


# The device that the jax layer counts for; what is compiled for others is the host's.
#
# It is the device that ``graph_budget_jax_device`` names, as ``tt`` or ``cpu:1``; without it TT if
# JAX has such a device, else the platform that JAX takes by itself.

VARIABLE: Final = "GRAPHBREAK_JAX_DEVICE"
"""The variable that passes the ini key to observers and child processes; users may set it, too."""

_NAME: Final = re.compile(r"([A-Za-z_]\w{0,63})(?::(\d{1,6}))?")
_ALIASES: Final = {"cuda": "gpu", "rocm": "gpu"}
"""Platforms that JAX calls by another name."""


@dataclass(frozen=True, slots=True)
class JaxTarget:
    """A device, or all devices of a platform."""

    platform: str
    number: int | None = None

    def holds(self, program: Executable) -> bool:
        """Return whether a program runs there; one on several devices runs on each of them."""
        if _ALIASES.get(program.platform, program.platform) != self.platform:
            return False
        return self.number is None or self.number in program.devices


def parse_device(text: str) -> JaxTarget:
    """Parse the name of a device. Raises ``ValueError`` if it names none."""
    match = _NAME.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a platform of JAX (tt), or one with a number (cpu:1)")
    platform = match[1].lower()
    return JaxTarget(_ALIASES.get(platform, platform), int(match[2]) if match[2] else None)


def name_device(text: str) -> Callable[[], None]:
    """Count for this device from now on; return a function that restores the environment.

    The environment variable wins if it is set. Raises ``ValueError`` as ``parse_device`` does.
    """
    parse_device(text)
    if VARIABLE in os.environ:
        return lambda: None
    os.environ[VARIABLE] = text.strip()

    def back() -> None:
        os.environ.pop(VARIABLE, None)

    return back


def is_on_device(program: Executable) -> bool:
    """Return whether a program belongs to the device and not to the host."""
    if device := os.environ.get(VARIABLE):
        return parse_device(device).holds(program)
    return JaxTarget("tt" if _has_tt() else program.default).holds(program)


def _has_tt() -> bool:
    """Return whether JAX has opened a TT device. It opens all that it has at once."""
    bridge: Any = sys.modules.get(private.BRIDGE.module)
    # This dict is filled when the backends are opened (jax/_src/xla_bridge.py of 0.10).
    return "tt" in getattr(bridge, "_backends", ())
