"""What happened in JAX while windows were open, one event each, in the order of happening."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pytest_graphbreak.model.stacks import Line


@dataclass(slots=True, eq=False)
class Executable:
    """One XLA executable that JAX made.

    ``cause`` is one of the layer's; ``reason`` says why, where there is more to say than
    that. ``platform`` and ``devices`` (their ids) are those that it runs on, ``default`` the
    platform of JAX's own choice. ``loaded``: the persistent cache had it, nothing was
    compiled. ``stack`` runs from the outermost frame inwards, without those of JAX at its end.
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
