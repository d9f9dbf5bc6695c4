"""What happened in JAX while windows were open, one event each, in the order of happening."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from pytest_graphbreak.model.stacks import Line


@dataclass(frozen=True, slots=True)
class HostCallback:
    """A call of Python by a compiled program. ``kind`` is the function of JAX that put it there.

    ``stack`` runs from the outermost frame that JAX noted inwards; empty where it noted none.
    """

    kind: str
    stack: tuple[Line, ...]


@dataclass(slots=True, eq=False)
class Executable:
    """One XLA executable that JAX made.

    ``cause`` is one of the layer's; ``reason`` says why, where there is more to say than that.
    ``platform`` and ``devices`` (their ids) are those that it runs on, ``default`` the platform of
    JAX's own choice. ``seconds`` is how long it took to compile. ``loaded``: the persistent cache
    had it, nothing was compiled. ``stack`` runs from the outermost frame inwards, without those of
    JAX at its end. ``defined`` is where the function that was given to ``jax.jit`` is defined, None
    where that is not known.
    """

    name: str
    cause: str
    reason: str
    platform: str
    devices: tuple[int, ...]
    default: str
    stack: tuple[Line, ...]
    loaded: bool = False
    ops: int | None = None
    inputs: int | None = None
    outputs: int | None = None
    defined: Line | None = None
    callbacks: tuple[HostCallback, ...] = ()
    seconds: float | None = None


@dataclass(slots=True, eq=False)
class Interrupted:
    """Code did not come to be compiled: the value of a traced array was asked for, or XLA refused.

    ``stack`` runs from the outermost frame inwards, to the line that asked.
    """

    reason: str
    stack: tuple[Line, ...]


@dataclass(slots=True, eq=False)
class MissedExecutable:
    """JAX counted a program that our hook did not see."""

    name: str


@dataclass(slots=True, eq=False)
class SensorFault:
    """A sensor failed."""

    error: str


Event = Executable | Interrupted | MissedExecutable | SensorFault
Kind = Literal["", "forward", "backward", "vmap", "pmap"]
"""What a function was made into before it was compiled: of a gradient, for a batch, for
several devices."""


# Which device the jax layer counts for; what is compiled for others is the host's.
#
# It is that of ``graph_budget_jax_device`` where the suite names one, as ``tt`` or ``cpu:1``;
# else TT where JAX has such a device, else the platform that JAX takes by itself.

VARIABLE: Final = "GRAPHBREAK_JAX_DEVICE"
"""What the ini key is handed on by, to observers and to child processes; a user may set it, too."""

_NAME: Final = re.compile(r"([A-Za-z_]\w{0,63})(?::(\d{1,6}))?")
_ALIASES: Final = {"cuda": "gpu", "rocm": "gpu"}
"""Platforms that JAX calls by one name."""


@dataclass(frozen=True, slots=True)
class JaxTarget:
    """A device, or all of a platform."""

    platform: str
    number: int | None = None

    def holds(self, program: Executable) -> bool:
        """Whether a program runs there; one over several devices runs on each of them."""
        if _ALIASES.get(program.platform, program.platform) != self.platform:
            return False
        return self.number is None or self.number in program.devices


def parse_device(text: str) -> JaxTarget:
    """Raises ``ValueError`` for what names no device."""
    found = _NAME.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a platform of JAX (tt), or one with a number (cpu:1)")
    platform = found[1].lower()
    return JaxTarget(_ALIASES.get(platform, platform), int(found[2]) if found[2] else None)


def name_device(text: str) -> Callable[[], None]:
    """Count for this device from now on; what is returned puts the environment back.

    The environment variable wins where it is set. Raises ``ValueError`` as ``parse`` does.
    """
    parse_device(text)
    if VARIABLE in os.environ:
        return lambda: None
    os.environ[VARIABLE] = text.strip()

    def back() -> None:
        os.environ.pop(VARIABLE, None)

    return back


def is_on_device(program: Executable) -> bool:
    """Whether a program belongs to the device and not to the host."""
    if named := os.environ.get(VARIABLE):
        return parse_device(named).holds(program)
    return JaxTarget("tt" if _has_tt() else program.default).holds(program)


def _has_tt() -> bool:
    """Whether JAX has opened a TT device. It opens all that it has at once."""
    bridge: Any = sys.modules.get("jax._src.xla_bridge")
    # A dict that is filled when the backends are opened (jax/_src/xla_bridge.py of 0.10).
    return "tt" in getattr(bridge, "_backends", ())
