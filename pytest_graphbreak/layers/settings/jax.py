"""JAX's settings, ``jax.config``: what is set in them, for all threads and for this one.

A setting of a context manager that was entered and not left holds for its thread alone.
Source: ``Config``, ``State`` and ``Flag`` of jax/_src/config.py; jax 0.7.1, 0.10.2 and 0.12.0.1.
JAX does not keep what a setting was by default, so ``unusual`` says nothing of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from types import ModuleType
from typing import Any, Final

from pytest_graphbreak.layers.base import MissingName
from pytest_graphbreak.layers.settings.configs import Look
from pytest_graphbreak.layers.settings.values import equal
from pytest_graphbreak.model.forms import Plain

CONFIG: Final = "jax._src.config"


class JaxEntries:
    """The settings of JAX in the order in which they were defined; each is a pair.

    It has what ``ConfigEntries`` has. Raises ``MissingName`` where JAX keeps them elsewhere.
    """

    def __init__(self, module: ModuleType) -> None:
        try:
            self._holders: dict[str, Any] = module.config._value_holders
        except AttributeError as fault:
            raise MissingName(
                f"{CONFIG}.config._value_holders is not there in this jax: settings that a test "
                "leaves cannot be put back"
            ) from fault
        self._first = self.look()

    def name(self, at: int) -> str:
        return f"jax.config.{self._key(at)}"

    def _key(self, at: int) -> str:
        return next(islice(self._holders, at, None))

    def unset(self) -> Look:
        """As they were when somebody looked first."""
        return self._first

    def look(self) -> Look:
        pairs = [_pair(holder) for holder in self._holders.values()]
        return Look(pairs, pairs)

    def value(self, look: Look, at: int) -> Any:
        """What holds in this thread."""
        everywhere, here = look.values[at]
        return everywhere if _is_unset(here) else here

    def differing(self, before: Look, after: Look) -> Iterator[int]:
        # A module that is imported may define more of them.
        for at, (was, now) in enumerate(zip(before.values, after.values, strict=False)):
            if not equal(was, now):
                yield at

    def write(self, look: Look, at: int) -> None:
        everywhere, here = look.overrides[at]
        holder = self._holders[self._key(at)]
        now = _pair(holder)
        if not equal(now[0], everywhere):
            holder._set(everywhere)
        if not equal(now[1], here):
            holder.set_local(here)
            if (hook := getattr(holder, "_update_thread_local_hook", None)) is not None:
                hook(None if _is_unset(here) else here)

    def unusual(self, look: Look) -> Plain:
        return {}


def _pair(holder: Any) -> tuple[Any, Any]:
    """What holds in all threads, and in this one; a flag has no value of its own for a thread."""
    if hasattr(holder, "get_local"):
        return holder.get_global(), holder.get_local()
    return holder.value, None


def _is_unset(value: Any) -> bool:
    """Whether a thread has no value of its own: then it holds a sentinel of JAX's extension."""
    extension = getattr(sys.modules[CONFIG], "config_ext", None)
    return value is None or value is getattr(extension, "unset", None)
