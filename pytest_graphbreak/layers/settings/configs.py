"""The config modules of torch: what is set in them, entry by entry.

Sources: torch/utils/_config_module.py; what somebody sets is an attribute of an entry, and from
torch 2.12 on a variable of each thread; torch 2.6 to 2.14.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any, Final

from pytest_graphbreak.layers.dynamo import private
from pytest_graphbreak.layers.settings.values import CONTAINERS, copied, equal, refill, spell
from pytest_graphbreak.model.forms import Plain

CONFIGS: Final = (
    "torch._dynamo.config",
    "torch._inductor.config",
    "torch._functorch.config",
    "torch.fx.experimental._config",
    "torch.compiler.config",  # some names of the others stand for entries of this one
)


class Deleted:
    """What ``del`` makes of an entry: torch raises then where it reads it."""

    def __repr__(self) -> str:
        return "deleted"


DELETED: Final = Deleted()


@dataclass(frozen=True, slots=True)
class Look:
    """What was set in one config module, entry by entry.

    ``overrides`` are the objects themselves, ``values`` the same with copies of the
    containers, which are changed in place as well; ``containers`` says where these are.
    """

    overrides: list[Any]
    values: list[Any]
    containers: tuple[int, ...] = ()


class ConfigEntries:
    """One config module: its entries in their order, without those that stand for another."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._unset = private.attribute(
            sys.modules["torch.utils._config_module"], private.CONFIG_UNSET
        )
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
        """Nothing is set, as before the module was loaded."""
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
        # Through the module, which then knows that it has to be hashed anew.
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
        """The entries that name a variable of the environment, where it is there."""
        fields = ("env_value_force", "env_value_default")
        return frozenset(
            at
            for at, entry in enumerate(self._entries)
            if any(getattr(entry, name, self._unset) is not self._unset for name in fields)
        )

    def _default(self, at: int) -> Any:
        """The value of an entry that nobody has set."""
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
