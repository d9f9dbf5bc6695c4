"""The config modules of torch: what is set in them, entry by entry.

Sources: torch/utils/_config_module.py; what somebody sets is an attribute of an entry, and from
torch 2.12 on a variable of each thread; torch 2.6 to 2.14.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from types import ModuleType
from typing import Any, Final

from pytest_graphbreak.layers.base import MissingName
from pytest_graphbreak.layers.dynamo import private
from pytest_graphbreak.layers.jax import private as jax_private
from pytest_graphbreak.model.forms import Plain

# Values of settings: compared, copied, and as JSON.

CONTAINERS: Final = (list, dict, set)
LONGEST: Final = 200
"""The longest text of a value that is neither a number nor a flag; the rest is cut off."""

_ADDRESS: Final = re.compile(r"0x[0-9a-f]+")


def spell(value: Any) -> Any:
    """Return a value for JSON: a flag, a number or a text, else words without any address."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and abs(value) < float("inf"):
        return value
    text = value if isinstance(value, str) else _words(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def _words(value: Any) -> str:
    if isinstance(value, set | frozenset):
        return "{" + ", ".join(sorted(map(_words, value))) + "}"
    if isinstance(value, dict):
        pairs = (f"{_words(key)}: {_words(item)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_words, value)) + "]"
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return _ADDRESS.sub("0x...", repr(value))


def equal(one: Any, other: Any) -> bool:
    """Return whether two values have one type and are equal; False if they cannot be compared."""
    if one is other:
        return True
    try:
        return type(one) is type(other) and bool(one == other)
    except Exception:
        return False


def copied(value: Any) -> Any:
    """Return a copy of a container and of the containers in it; any other value as it is."""
    if type(value) in (list, set):
        return type(value)(map(copied, value))
    if type(value) is dict:
        return {key: copied(item) for key, item in value.items()}
    return value


def refill(container: Any, value: Any) -> None:
    """Give a container its content back, in place: others may refer to it."""
    container.clear()
    if type(container) is list:
        container.extend(copied(value))
    else:
        container.update(copied(value))


CONFIGS: Final = (
    "torch._dynamo.config",
    "torch._inductor.config",
    "torch._functorch.config",
    private.FX_CONFIG,
    "torch.compiler.config",  # some names of the others are aliases of entries of this one
)


class Deleted:
    """The state of an entry after ``del``: torch raises when it reads the entry."""

    def __repr__(self) -> str:
        return "deleted"


DELETED: Final = Deleted()


@dataclass(frozen=True, slots=True)
class Look:
    """The values that were set in one config module, entry by entry.

    ``overrides`` are the objects themselves, ``values`` the same with copies of the
    containers, which are changed in place as well; ``containers`` says where these are.
    """

    overrides: list[Any]
    values: list[Any]
    containers: tuple[int, ...] = ()


class ConfigEntries:
    """The entries of one config module in their order, without aliases."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._unset = private.attribute(sys.modules[private.CONFIG_MODULE], private.CONFIG_UNSET)
        named = private.attribute(module, private.CONFIG_ENTRIES).items()
        found = {key: entry for key, entry in named if not getattr(entry, "alias", None)}
        self._keys = tuple(found)
        self._entries = tuple(found.values())
        of_threads = self._entries and isinstance(self._entries[0].user_override, ContextVar)
        self._getters = [entry.user_override.get for entry in self._entries] if of_threads else None
        self._last = self.unset()
        self._defaults: dict[int, Any] = {}
        self._unusual: tuple[list[Any], Plain] = ([], {})

    def name(self, at: int) -> str:
        return f"{self._module.__name__}.{self._keys[at]}"

    def unset(self) -> Look:
        """Return a look with nothing set, as before the module was loaded."""
        unset = [self._unset] * len(self._keys)
        return Look(unset, unset.copy())

    def look(self) -> Look:
        if self._getters is not None:
            overrides = [get() for get in self._getters]
        else:
            overrides = [entry.user_override for entry in self._entries]
        if True in (hidden := [entry.hide for entry in self._entries]):
            for at in (at for at, is_hidden in enumerate(hidden) if is_hidden):
                overrides[at] = DELETED
        containers = self._last.containers
        if not equal(overrides, self._last.overrides):
            containers = tuple(
                at for at, value in enumerate(overrides) if type(value) in CONTAINERS
            )
        values = overrides.copy()
        for at in containers:
            values[at] = copied(values[at])
        self._last = Look(overrides, values, containers)
        return self._last

    def value(self, look: Look, at: int) -> Any:
        value = look.values[at]
        return self._default(at) if value is self._unset else value

    def differing(self, before: Look, after: Look) -> Iterator[int]:
        for at, (was, now) in enumerate(zip(before.values, after.values, strict=True)):
            # After a `config.patch` an entry is set to what it was by default.
            if not equal(was, now) and not equal(self.value(before, at), self.value(after, at)):
                yield at

    def write(self, look: Look, at: int) -> None:
        override = look.overrides[at]
        if override is DELETED:
            delattr(self._module, self._keys[at])
            return
        if type(override) in CONTAINERS:
            refill(override, look.values[at])
        # Set it through the module, which then knows that its hash has changed.
        is_unset = override is self._unset
        setattr(self._module, self._keys[at], self._default(at) if is_unset else override)
        if is_unset:
            self._override(at, override)

    def unusual(self, look: Look) -> Plain:
        values, found = self._unusual
        if not equal(values, look.values):
            found = {
                self.name(at): spell(value)
                for at in self._set(look)
                if not equal(value := self.value(look, at), self._entries[at].default)
            }
            self._unusual = (look.values.copy(), found)
        return found

    def _set(self, look: Look) -> Iterator[int]:
        for at, value in enumerate(look.values):
            if value is not DELETED and (value is not self._unset or at in self._by_environment):
                yield at

    @cached_property
    def _by_environment(self) -> frozenset[int]:
        """The entries that name a variable of the environment which is set."""
        fields = ("env_value_force", "env_value_default")
        return frozenset(
            at
            for at, entry in enumerate(self._entries)
            if any(getattr(entry, name, self._unset) is not self._unset for name in fields)
        )

    def _default(self, at: int) -> Any:
        """Return the value of an entry that nobody has set."""
        if at not in self._defaults:
            entry = self._entries[at]
            before, hidden = entry.user_override, entry.hide
            if self._getters is not None:
                before = before.get()
            self._override(at, self._unset)
            entry.hide = False
            try:
                self._defaults[at] = copied(getattr(self._module, self._keys[at]))
            finally:
                self._override(at, before)
                entry.hide = hidden
        return copied(self._defaults[at])

    def _override(self, at: int, value: Any) -> None:
        if self._getters is not None:
            self._entries[at].user_override.set(value)
        else:
            self._entries[at].user_override = value


# The settings of JAX, ``jax.config``: what is set in them, for all threads and for this one.
#
# A setting of a context manager that was entered and not left holds for its thread alone.
# Source: ``Config``, ``State`` and ``Flag`` of jax/_src/config.py; jax 0.7.1, 0.10.2 and 0.12.0.1.
# JAX does not keep what a setting was by default, so ``unusual`` says nothing of them.

JAX_CONFIG: Final = jax_private.CONTEXT.module


class JaxEntries:
    """The settings of JAX in the order in which they were defined; each is a pair.

    It has the methods of ``ConfigEntries``. Raises ``MissingName`` if JAX keeps them elsewhere.
    """

    def __init__(self, module: ModuleType) -> None:
        try:
            self._holders: dict[str, Any] = module.config._value_holders
        except AttributeError as fault:
            raise MissingName(
                f"{JAX_CONFIG}.config._value_holders is not there in this jax: settings that a "
                "test leaves cannot be put back"
            ) from fault
        self._first = self.look()

    def name(self, at: int) -> str:
        return f"jax.config.{self._key(at)}"

    def _key(self, at: int) -> str:
        return next(islice(self._holders, at, None))

    def unset(self) -> Look:
        """Return the settings as they were at the first look."""
        return self._first

    def look(self) -> Look:
        pairs = [_pair(holder) for holder in self._holders.values()]
        return Look(pairs, pairs)

    def value(self, look: Look, at: int) -> Any:
        """Return the value that holds in this thread."""
        everywhere, here = look.values[at]
        return everywhere if _is_unset(here) else here

    def differing(self, before: Look, after: Look) -> Iterator[int]:
        # A module that is imported later may define more of them.
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
    """Return the value for all threads, and the one for this thread, which a flag does not have."""
    if hasattr(holder, "get_local"):
        return holder.get_global(), holder.get_local()
    return holder.value, None


def _is_unset(value: Any) -> bool:
    """Return whether a thread has no value of its own, but a sentinel of JAX's extension."""
    extension = getattr(sys.modules[JAX_CONFIG], "config_ext", None)
    return value is None or value is getattr(extension, "unset", None)
