"""torch's settings that decide what is compiled: read, compared, put back.

The configs of Dynamo, inductor, functorch, fx and the compiler, and the state that torch keeps
beside them: stance, grad mode, autocast, default dtype and default device. Nothing is imported by
this: what is not loaded has its defaults.

Sources: torch/utils/_config_module.py (what somebody sets is an attribute of an entry, and from
torch 2.12 on a variable of each thread), torch/_dynamo/eval_frame.py and torch/__init__.py;
torch 2.6 to 2.14.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, cached_property
from types import ModuleType
from typing import Any, Final

from pytest_graphbreak.layers.base import MissingName
from pytest_graphbreak.layers.dynamo import private
from pytest_graphbreak.model.record import Plain

CONFIGS: Final = (
    "torch._dynamo.config",
    "torch._inductor.config",
    "torch._functorch.config",
    "torch.fx.experimental._config",
    "torch.compiler.config",  # some names of the others stand for entries of this one
)
AUTOCAST: Final = ("cpu", "cuda", "xla", "xpu", "mps")
LONGEST: Final = 200
"""Characters of a value that is neither a number nor a flag; what is over is cut."""

_ADDRESS: Final = re.compile(r"0x[0-9a-f]+")
_CONTAINERS: Final = (list, dict, set)


class Deleted:
    """What ``del`` makes of an entry: torch raises then where it reads it."""

    def __repr__(self) -> str:
        return "deleted"


DELETED: Final = Deleted()

Key = tuple[str, Any]
"""A config module and the position of an entry in it; or ``""`` and the name of a mode."""


class SettingsError(Exception):
    """Settings could not be read or put back; the text is for the record."""


@dataclass(frozen=True, slots=True)
class Look:
    """What was set in one config module, entry by entry.

    ``overrides`` are the objects themselves, ``values`` the same with copies of the
    containers, which are changed in place as well; ``containers`` says where these are.
    """

    overrides: list[Any]
    values: list[Any]
    containers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All settings at one moment; empty where torch is not loaded."""

    configs: dict[str, Look] = field(default_factory=dict)
    modes: dict[str, Any] = field(default_factory=dict)

    def adopt(self, other: Snapshot, keys: Iterable[Key]) -> None:
        """Have this say of some settings what ``other`` says."""
        for module, at in keys:
            if not module:
                self.modes[at] = other.modes[at]
                continue
            own = self.configs.setdefault(module, _config(sys.modules[module]).unset())
            own.overrides[at] = other.configs[module].overrides[at]
            own.values[at] = other.configs[module].values[at]


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting by name, with what it was and is: flags, numbers or words."""

    name: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.name} = {self.after} (it was {self.before})"


def take() -> Snapshot:
    """Read all settings, in less than a tenth of a millisecond. Raises ``SettingsError``."""
    torch = sys.modules.get("torch")
    # While a module is imported it is there, and has next to nothing in it yet.
    if torch is None or getattr(torch.__spec__, "_initializing", False):
        return Snapshot()
    with _settings_errors("could not be read"):
        loaded = {name: sys.modules[name] for name in CONFIGS if name in sys.modules}
        return Snapshot(
            {name: _config(module).look() for name, module in loaded.items()},
            {name: mode.read() for name, mode in _modes().items()},
        )


def differing(before: Snapshot, after: Snapshot) -> list[Key]:
    """The settings that are others in ``after``. Raises ``SettingsError``."""
    with _settings_errors("could not be compared"):
        return list(_differing(before, after))


def _differing(before: Snapshot, after: Snapshot) -> Iterator[Key]:
    for module, look in after.configs.items():
        was = before.configs.get(module)
        if was is not None and _equal(was.values, look.values):
            continue
        config = _config(sys.modules[module])
        for at in config.differing(was or config.unset(), look):
            yield module, at
    for name, value in after.modes.items():
        if not _equal(value, _mode(before, name)):
            yield "", name


def deleted(snapshot: Snapshot) -> Iterator[Key]:
    """Entries that were deleted: the monkeypatch of pytest 9.2 does that where it puts back."""
    for module, look in snapshot.configs.items():
        for at, value in enumerate(look.values):
            if value is DELETED:
                yield module, at


def changes(before: Snapshot, after: Snapshot, keys: Iterable[Key]) -> list[Setting]:
    """Settings by name, with both values. Raises ``SettingsError``."""
    with _settings_errors("could not be compared"):
        return [_change(before, after, *key) for key in keys]


def _change(before: Snapshot, after: Snapshot, module: str, at: Any) -> Setting:
    if not module:
        words = _modes()[at].words
        return Setting(at, words(_mode(before, at)), words(after.modes[at]))
    config = _config(sys.modules[module])
    was = config.value(before.configs.get(module) or config.unset(), at)
    return Setting(config.name(at), spell(was), spell(config.value(after.configs[module], at)))


def put_back(snapshot: Snapshot, key: Key) -> None:
    """Set one setting to what ``snapshot`` says. Raises ``SettingsError``."""
    module, at = key
    with _settings_errors("could not be put back"):
        if module:
            config = _config(sys.modules[module])
            config.write(snapshot.configs.get(module) or config.unset(), at)
        else:
            _modes()[at].write(_mode(snapshot, at))


def unusual(snapshot: Snapshot) -> Plain:
    """The settings that are not the default, by name. Raises ``SettingsError``.

    What torch reads from the environment while it is imported is a default of that process, but
    for the entries that name their variable.
    """
    with _settings_errors("could not be read"):
        found: Plain = {}
        for module, look in snapshot.configs.items():
            found.update(_config(sys.modules[module]).unusual(look))
        for name, value in snapshot.modes.items():
            if not _equal(value, _modes()[name].default):
                found[name] = _modes()[name].words(value)
        return found


def spell(value: Any) -> Any:
    """A value as JSON has it: a flag, a number, text; of all else words that no address is in."""
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


class _settings_errors:
    """Whatever stops the reading of settings becomes a ``SettingsError`` that says so."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, fault: BaseException | None, trace: object) -> None:
        if isinstance(fault, Exception) and not isinstance(fault, SettingsError):
            missing = isinstance(fault, MissingName)
            why = str(fault) if missing else f"{type(fault).__name__}: {fault}"
            raise SettingsError(f"torch's settings {self._what}: {why}") from fault


# config modules


class _Config:
    """One config module: its entries in their order, without those that stand for another."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._unset = _private(sys.modules["torch.utils._config_module"], private.CONFIG_UNSET)
        entries = _private(module, private.CONFIG_ENTRIES).items()
        found = {key: entry for key, entry in entries if not getattr(entry, "alias", None)}
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
        if not _equal(overrides, self._last.overrides):
            containers = tuple(
                at for at, value in enumerate(overrides) if type(value) in _CONTAINERS
            )
        values = overrides.copy()
        for at in containers:
            values[at] = _copied(values[at])
        self._last = Look(overrides, values, containers)
        return self._last

    def value(self, look: Look, at: int) -> Any:
        value = look.values[at]
        return self._default(at) if value is self._unset else value

    def differing(self, before: Look, after: Look) -> Iterator[int]:
        for at, (was, now) in enumerate(zip(before.values, after.values, strict=True)):
            # After a `config.patch` an entry is set to what it was by default.
            if not _equal(was, now) and not _equal(self.value(before, at), self.value(after, at)):
                yield at

    def write(self, look: Look, at: int) -> None:
        override = look.overrides[at]
        if override is DELETED:
            delattr(self._module, self._keys[at])
            return
        if type(override) in _CONTAINERS:
            _refill(override, look.values[at])
        # Through the module, which then knows that it has to be hashed anew.
        is_unset = override is self._unset
        setattr(self._module, self._keys[at], self._default(at) if is_unset else override)
        if is_unset:
            self._override(at, override)

    def unusual(self, look: Look) -> Plain:
        values, found = self._unusual
        if not _equal(values, look.values):
            found = {
                self.name(at): spell(value)
                for at in self._set(look)
                if not _equal(value := self.value(look, at), self._entries[at].default)
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
                self._defaults[at] = _copied(getattr(self._module, self._keys[at]))
            finally:
                self._override(at, before)
                entry.hide = hidden
        return _copied(self._defaults[at])

    def _override(self, at: int, value: Any) -> None:
        if self._getters is not None:
            self._entries[at].user_override.set(value)
        else:
            self._entries[at].user_override = value


@cache
def _config(module: ModuleType) -> _Config:
    return _Config(module)


def _private(owner: Any, name: private.Name) -> Any:
    try:
        return getattr(owner, name.chain)
    except AttributeError:
        raise MissingName(private.missing(name)) from None


# modes


@dataclass(frozen=True, slots=True)
class _Mode:
    """State of torch beside its configs; ``default`` is what torch has when it was just loaded."""

    read: Callable[[], Any]
    write: Callable[[Any], None]
    default: Any
    words: Callable[[Any], Any] = spell


def _mode(snapshot: Snapshot, name: str) -> Any:
    return snapshot.modes[name] if name in snapshot.modes else _modes()[name].default


@cache
def _modes() -> dict[str, _Mode]:
    """Every mode by name. Called only where torch is loaded."""
    import torch

    return {
        "grad_mode": _Mode(torch.is_grad_enabled, torch._C._set_grad_enabled, True),
        "default_dtype": _Mode(torch.get_default_dtype, torch.set_default_dtype, torch.float32),
        "default_device": _Mode(_device, _set_device, None, lambda device: device and str(device)),
        "stance": _Mode(_stance, _set_stance, _NO_STANCE, _stance_words),
        "autocast": _Mode(_autocast, _set_autocast, _no_autocast(), _autocast_words),
    }


@dataclass(frozen=True, slots=True)
class _Autocast:
    """For each device whether it is on, and its dtype; ``depth`` is how often it is entered."""

    devices: tuple[tuple[bool, Any], ...]
    caches: bool = True
    depth: int = field(default=0, compare=False)


def _autocast() -> _Autocast:
    import torch

    enabled, dtype = torch.is_autocast_enabled, torch.get_autocast_dtype
    torch.autocast_increment_nesting()  # there is no other way to ask
    return _Autocast(
        tuple((enabled(device), dtype(device)) for device in AUTOCAST),
        torch.is_autocast_cache_enabled(),
        torch.autocast_decrement_nesting(),
    )


def _no_autocast() -> _Autocast:
    import torch

    return _Autocast(tuple((False, torch.get_autocast_dtype(device)) for device in AUTOCAST))


def _set_autocast(value: _Autocast) -> None:
    import torch

    for device, (enabled, dtype) in zip(AUTOCAST, value.devices, strict=True):
        torch.set_autocast_enabled(device, enabled)
        torch.set_autocast_dtype(device, dtype)
    torch.set_autocast_cache_enabled(value.caches)
    while _autocast().depth > value.depth:
        torch.autocast_decrement_nesting()
    torch.clear_autocast_cache()  # casts of weights; they are kept until the outermost ends


def _autocast_words(value: _Autocast) -> str:
    devices = zip(AUTOCAST, value.devices, strict=True)
    on = [f"{device} {dtype}" for device, (enabled, dtype) in devices if enabled]
    return ", ".join([*(on or ["off"]), *([] if value.caches else ["without cache"])])


def _device() -> Any:
    """What ``set_default_device`` was given last in this thread."""
    import torch

    context = getattr(_private(torch, private.DEVICE), "device_context", None)
    return None if context is None else context.device


def _set_device(device: Any) -> None:
    import torch

    torch.set_default_device(device)
    if device is None:  # torch 2.9 asks this one for its device as long as it is there
        del _private(torch, private.DEVICE).device_context


_NO_STANCE: Final = ("default", False, None)


def _stance() -> tuple[str, bool, Any]:
    """The stance, whether guards are skipped, and the backend that it forces."""
    frame = sys.modules.get(private.STANCE.module)
    if frame is None:
        return _NO_STANCE
    stance = _private(frame, private.STANCE)
    return stance.stance, stance.skip_guard_eval_unsafe, stance.backend


def _set_stance(value: tuple[str, bool, Any]) -> None:
    import torch

    stance, skip, backend = value
    torch.compiler.set_stance(stance, skip_guard_eval_unsafe=skip, force_backend=backend)


def _stance_words(value: tuple[str, bool, Any]) -> Any:
    stance, skip, backend = value
    unsafe = ", skip_guard_eval_unsafe" if skip else ""
    return f"{stance}{unsafe}" + (f", force_backend {spell(backend)}" if backend else "")


# values


def _equal(one: Any, other: Any) -> bool:
    """Whether two values are of one type and equal; those that cannot be compared are not."""
    if one is other:
        return True
    try:
        return type(one) is type(other) and bool(one == other)
    except Exception:
        return False


def _copied(value: Any) -> Any:
    """A container with copies of the containers in it; all else is itself."""
    if type(value) in (list, set):
        return type(value)(map(_copied, value))
    if type(value) is dict:
        return {key: _copied(item) for key, item in value.items()}
    return value


def _refill(container: Any, value: Any) -> None:
    """Give a container its content back: others may hold it."""
    container.clear()
    if type(container) is list:
        container.extend(_copied(value))
    else:
        container.update(_copied(value))
