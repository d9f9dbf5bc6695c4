"""The device that the jax layer counts for; what is compiled for others is the host's.

It is the device that ``graph_budget_jax_device`` names, as ``tt`` or ``cpu:1``: the gate passes it
on by a variable of the environment (``name_device``), which child processes inherit. Without a name
it is TT if JAX has such a device, else the platform that JAX takes by itself. ``sensors`` and
``explain`` ask ``is_on_device`` for each program.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from pytest_graphbreak.layers.jax import private
from pytest_graphbreak.layers.jax.executables import Executable

VARIABLE: Final = "GRAPHBREAK_JAX_DEVICE"
"""The variable that passes the ini key to observers and child processes; users may set it, too."""

_NAME: Final = re.compile(r"([A-Za-z_]\w{0,63})(?::(\d{1,6}))?")
"""``gpu``, or ``gpu:1``."""
_ALIASES: Final = {"cuda": "gpu", "rocm": "gpu"}
"""Platforms that JAX calls by another name."""


class JaxTarget(Struct, frozen=True):
    """A device, or all devices of a platform."""

    platform: str
    number: int | None = None
    """The id of the device; None for all of the platform."""

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
    return JaxTarget("tt" if _has_tt() else program.default_platform).holds(program)


def _has_tt() -> bool:
    """Return whether JAX has opened a TT device. It opens all that it has at once."""
    bridge: Any = sys.modules.get(private.BRIDGE.module)
    # This dict is filled when the backends are opened (jax/_src/xla_bridge.py of 0.10).
    return "tt" in getattr(bridge, "_backends", ())
