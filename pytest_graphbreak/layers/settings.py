"""The settings of torch that decide what is compiled: read, compared, put back.

These are the configs of Dynamo, inductor, functorch, fx and the compiler, and the state that torch
keeps beside them (``Mode``): stance, grad mode, autocast, default dtype and default device. Nothing
is imported by this: what is not loaded has its defaults.

``suite.leaks`` takes a ``Snapshot`` before the call of a test and one after it, asks for the
``changed_keys``, and puts them back one by one.

Sources: torch/utils/_config_module.py (what somebody sets is an attribute of an entry, and from
torch 2.12 on a variable of each thread), torch/_dynamo/eval_frame.py, torch/__init__.py; torch 2.9
to 2.15. ``get_config_copy`` of torch reads the same in 10 ms, too slow for each test.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Any, Final

from msgspec import Struct

from pytest_graphbreak.layers.dynamo import private
from pytest_graphbreak.layers.faults import arrived, or_else
from pytest_graphbreak.layers.imports import loaded
from pytest_graphbreak.layers.private_names import MissingName
from pytest_graphbreak.model.forms import Plain

CONFIGS: Final = (
    "torch._dynamo.config",
    "torch._inductor.config",
    "torch._functorch.config",
    private.FX_CONFIG,
    "torch.compiler.config",  # some names of the others are aliases of entries of this one
)
LONGEST: Final = 200
"""The longest text of a value that is neither a number nor a flag; the rest is cut off."""
_ADDRESS: Final = re.compile(r"0x[0-9a-f]+")
"""An address in the text of an object, which is another one in each run."""
_AUTOCAST: Final = ("cpu", "cuda", "xla", "xpu", "mps")

Key = tuple[str, str]
"""A config module and the name of an entry in it; or ``""`` and the name of a mode."""


class Deleted:
    """The state of an entry after ``del``: torch raises when it reads the entry."""

    def __repr__(self) -> str:
        return "deleted"


DELETED: Final = Deleted()


class SettingsError(Exception):
    """Settings that could not be read or put back; the text is for the record."""


class Snapshot(Struct):
    """All settings at one moment that are set; a missing one has its default."""

    values: dict[Key, Any] = {}

    def adopt(self, taken: Snapshot, keys: Iterable[Key]) -> None:
        """Take over some settings from ``taken``."""
        for key in keys:
            self.values.pop(key, None)
            if key in taken.values:
                self.values[key] = taken.values[key]

    def value(self, key: Key) -> Any:
        return self.values[key] if key in self.values else default(key)


class Setting(Struct, frozen=True):
    """One setting by name, with what it was and is: flags, numbers or words."""

    name: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.name} = {self.after} (it was {self.before})"


def take() -> Snapshot:
    """Read all settings, in a fraction of a millisecond. Raises ``SettingsError``."""
    snapshot = Snapshot()
    torch = loaded("torch")
    # Before a module is imported to its end it is nearly empty.
    if torch is None or getattr(torch.__spec__, "_initializing", False):
        return snapshot
    with _settings_errors("could not be read"):
        for module in filter(None, map(loaded, CONFIGS)):
            unset, entries = _entries(module)
            for name, entry in entries.items():
                # ``del config.name`` sets ``hide`` (torch/utils/_config_module.py).
                value = DELETED if entry.hide else _override(entry)
                if value is not unset and not getattr(entry, "alias", None):
                    snapshot.values[module.__name__, name] = _copy(value)
        for name, mode in modes().items():
            snapshot.values["", name] = mode.read()
    return snapshot


def _copy(value: Any) -> Any:
    """Return a copy of a container, which is changed in place as well; any other value as it is."""
    return deepcopy(value) if isinstance(value, (list, dict, set)) else value


def _entries(module: ModuleType) -> tuple[Any, dict[str, Any]]:
    """Return the value of an entry that nobody has set, and all entries by name."""
    of_all = sys.modules[private.CONFIG_MODULE]
    unset = private.attribute(of_all, private.CONFIG_UNSET)
    return unset, private.attribute(module, private.CONFIG_ENTRIES)


def _override(entry: Any) -> Any:
    """Return what somebody has set an entry to: an attribute, from torch 2.12 on a variable."""
    value = entry.user_override
    return value.get() if isinstance(value, ContextVar) else value


def _set_override(entry: Any, value: Any) -> None:
    if isinstance(entry.user_override, ContextVar):
        entry.user_override.set(value)
    else:
        entry.user_override = value


def default(key: Key) -> Any:
    """Return what a setting is if nobody has set it."""
    module, name = key
    if not module:
        return modes()[name].default
    unset, entries = _entries(sys.modules[module])
    entry = entries[name]
    before, hidden = _override(entry), entry.hide
    _set_override(entry, unset)
    entry.hide = False
    try:
        return _copy(getattr(sys.modules[module], name))
    finally:
        _set_override(entry, before)
        entry.hide = hidden


def changed_keys(before: Snapshot, after: Snapshot) -> list[Key]:
    """Return the settings that differ in ``after``. Raises ``SettingsError``."""
    keys = dict.fromkeys((*after.values, *before.values))
    with _settings_errors("could not be compared"):
        return [key for key in keys if not _is_same(before, after, key)]


def _is_same(before: Snapshot, after: Snapshot, key: Key) -> bool:
    if key in before.values and key in after.values:
        return _equal(before.values[key], after.values[key])
    # After a `config.patch` an entry is set to what it was by default.
    return _equal(before.value(key), after.value(key))


def _equal(before: Any, now: Any) -> bool:
    """Return whether two values have one type and are equal; False if they cannot be compared."""
    return before is now or (
        type(before) is type(now) and or_else(False, lambda: bool(before == now))
    )


def deleted_entries(snapshot: Snapshot) -> Iterator[Key]:
    """Yield entries that were deleted: the monkeypatch of pytest 9.2 deletes to put back.

    ``suite.leaks`` asks for them: what was deleted since the call is put back, all else is left.
    """
    yield from (key for key, value in snapshot.values.items() if value is DELETED)


def changes(before: Snapshot, after: Snapshot, keys: Iterable[Key]) -> list[Setting]:
    """Return settings by name, with both values. Raises ``SettingsError``."""
    with _settings_errors("could not be compared"):
        return [
            Setting(_name(key), _words(key, before.value(key)), _words(key, after.value(key)))
            for key in keys
        ]


def _name(key: Key) -> str:
    return ".".join(filter(None, key))


def _words(key: Key, value: Any) -> Any:
    return spell(value) if key[0] else modes()[key[1]].words(value)


def put_back(snapshot: Snapshot, key: Key) -> None:
    """Set one setting to what ``snapshot`` says. Raises ``SettingsError``."""
    module, name = key
    with _settings_errors("could not be put back"):
        value = _copy(snapshot.value(key))
        if not module:
            modes()[name].write(value)
            return
        if value is DELETED:
            delattr(sys.modules[module], name)
            return
        # Set it through the module, which then knows that its hash has changed.
        setattr(sys.modules[module], name, value)
        if key not in snapshot.values:  # nobody had set it: now it has its default as a value
            unset, entries = _entries(sys.modules[module])
            _set_override(entries[name], unset)


def unusual(snapshot: Snapshot) -> Plain:
    """Return the settings that are not the default, by name. Raises ``SettingsError``."""
    with _settings_errors("could not be read"):
        return {
            _name(key): _words(key, value)
            for key, value in snapshot.values.items()
            if not _equal(value, default(key))
        }


@contextmanager
def _settings_errors(what: str) -> Iterator[None]:
    """Turn any exception into a ``SettingsError`` that says what went wrong."""
    try:
        yield
    except SettingsError:
        raise
    except Exception as fault:
        if arrived(fault, sys.exc_info()[2]):
            raise
        why = str(fault) if isinstance(fault, MissingName) else f"{type(fault).__name__}: {fault}"
        raise SettingsError(f"torch's settings {what}: {why}") from fault


def spell(value: Any) -> Any:
    """Return a value for JSON: a flag, a number or a text, else words without any address."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and abs(value) < float("inf"):
        return value
    text = value if isinstance(value, str) else _text(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def _text(value: Any) -> str:
    if isinstance(value, set | frozenset):
        return "{" + ", ".join(sorted(map(_text, value))) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_text, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(key)}: {_text(item)}" for key, item in value.items()) + "}"
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return _ADDRESS.sub("0x...", repr(value))


# Modes: state that torch keeps beside its configs.


class Mode(Struct, frozen=True):
    """State of torch beside its configs; ``default`` is what torch has when it was just loaded."""

    read: Callable[[], Any]
    write: Callable[[Any], None]
    default: Any
    words: Callable[[Any], Any] = spell


@cache
def modes() -> dict[str, Mode]:
    """Return every mode by name. Called only if torch is loaded."""
    import torch

    return {
        "grad_mode": Mode(torch.is_grad_enabled, private.value(private.GRAD_MODE), True),
        "default_dtype": Mode(torch.get_default_dtype, torch.set_default_dtype, torch.float32),
        "default_device": Mode(_device, _set_device, None, lambda device: device and str(device)),
        "stance": Mode(_stance, _set_stance, _NO_STANCE, _stance_words),
        "autocast": Mode(_autocast, _set_autocast, _no_autocast(), _autocast_words),
    }


@dataclass(frozen=True, slots=True)
class _Autocast:
    """For each device, whether it is on, and its dtype.

    ``depth`` is how often it is entered, which is not compared: a Struct would compare it.
    """

    devices: tuple[tuple[bool, Any], ...]
    caches: bool = True
    depth: int = field(default=0, compare=False)


def _autocast() -> _Autocast:
    import torch

    enabled, dtype = torch.is_autocast_enabled, torch.get_autocast_dtype
    torch.autocast_increment_nesting()  # there is no other way to ask
    return _Autocast(
        tuple((enabled(device), dtype(device)) for device in _AUTOCAST),
        torch.is_autocast_cache_enabled(),
        torch.autocast_decrement_nesting(),
    )


def _no_autocast() -> _Autocast:
    import torch

    return _Autocast(tuple((False, torch.get_autocast_dtype(device)) for device in _AUTOCAST))


def _set_autocast(value: _Autocast) -> None:
    import torch

    for device, (enabled, dtype) in zip(_AUTOCAST, value.devices, strict=True):
        torch.set_autocast_enabled(device, enabled)
        torch.set_autocast_dtype(device, dtype)
    torch.set_autocast_cache_enabled(value.caches)
    while _autocast().depth > value.depth:
        torch.autocast_decrement_nesting()
    torch.clear_autocast_cache()  # casts of weights are kept until the outermost autocast ends


def _autocast_words(value: _Autocast) -> str:
    devices = zip(_AUTOCAST, value.devices, strict=True)
    on = [f"{device} {dtype}" for device, (enabled, dtype) in devices if enabled]
    return ", ".join([*(on or ["off"]), *([] if value.caches else ["without cache"])])


def _device() -> Any:
    """Return what ``set_default_device`` was given last in this thread."""
    import torch

    context = getattr(private.attribute(torch, private.DEVICE), "device_context", None)
    return None if context is None else context.device


def _set_device(device: Any) -> None:
    import torch

    torch.set_default_device(device)
    if device is None:  # torch 2.9 takes its device from this one as long as it exists
        del private.attribute(torch, private.DEVICE).device_context


_NO_STANCE: Final = ("default", False, None)


def _stance() -> tuple[str, bool, Any]:
    """Return the stance, whether guards are skipped, and the backend that it forces."""
    frame = sys.modules.get(private.STANCE.module)
    if frame is None:
        return _NO_STANCE
    stance = private.attribute(frame, private.STANCE)
    return stance.stance, stance.skip_guard_eval_unsafe, stance.backend


def _set_stance(value: tuple[str, bool, Any]) -> None:
    import torch

    stance, skip, backend = value
    torch.compiler.set_stance(stance, skip_guard_eval_unsafe=skip, force_backend=backend)


def _stance_words(value: tuple[str, bool, Any]) -> Any:
    stance, skip, backend = value
    unsafe = ", skip_guard_eval_unsafe" if skip else ""
    return f"{stance}{unsafe}" + (f", force_backend {spell(backend)}" if backend else "")
