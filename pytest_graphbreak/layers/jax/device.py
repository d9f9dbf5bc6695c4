"""Which device the jax layer counts for; what is compiled for others is the host's.

It is that of ``graph_budget_jax_device`` where the suite names one, as ``tt`` or ``cpu:1``;
else TT where JAX has such a device, else the platform that JAX takes by itself.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pytest_graphbreak.layers.jax.events import Executable

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


def parse(text: str) -> JaxTarget:
    """Raises ``ValueError`` for what names no device."""
    found = _NAME.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a platform of JAX (tt), or one with a number (cpu:1)")
    platform = found[1].lower()
    return JaxTarget(_ALIASES.get(platform, platform), int(found[2]) if found[2] else None)


def named(text: str) -> Callable[[], None]:
    """Count for this device from now on; what is returned puts the environment back.

    The environment variable wins where it is set. Raises ``ValueError`` as ``parse`` does.
    """
    parse(text)
    if VARIABLE in os.environ:
        return lambda: None
    os.environ[VARIABLE] = text.strip()

    def back() -> None:
        os.environ.pop(VARIABLE, None)

    return back


def is_on_device(program: Executable) -> bool:
    """Whether a program belongs to the device and not to the host."""
    if named := os.environ.get(VARIABLE):
        return parse(named).holds(program)
    return JaxTarget("tt" if _has_tt() else program.default).holds(program)


def _has_tt() -> bool:
    """Whether JAX has opened a TT device. It opens all that it has at once."""
    bridge: Any = sys.modules.get("jax._src.xla_bridge")
    return "tt" in getattr(bridge, "_backends", ())
