"""The settings of torch and JAX that decide what is compiled: read, compared, put back.

These are the configs of Dynamo, inductor, functorch, fx and the compiler (``configs``), the state
that torch keeps beside them (``Mode``): stance, grad mode, autocast, default dtype and default
device; and ``jax.config``.

Nothing is imported by this: what is not loaded has its defaults.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Any, Final

from pytest_graphbreak.layers.base import MissingName
from pytest_graphbreak.layers.dynamo import private
from pytest_graphbreak.layers.settings import configs
from pytest_graphbreak.layers.settings.configs import (
    CONFIGS,
    DELETED,
    ConfigEntries,
    Look,
    equal,
    spell,
)
from pytest_graphbreak.model.forms import Plain

Key = tuple[str, Any]
"""A config module and the position of an entry in it; or ``""`` and the name of a mode."""


class SettingsError(Exception):
    """Settings that could not be read or put back; the text is for the record."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All settings at one moment; empty where neither torch nor JAX is loaded."""

    configs: dict[str, Look] = field(default_factory=dict)
    modes: dict[str, Any] = field(default_factory=dict)

    def adopt(self, other: Snapshot, keys: Iterable[Key]) -> None:
        """Take over some settings from ``other``."""
        for module, at in keys:
            if not module:
                self.modes[at] = other.modes[at]
                continue
            own = self.configs.setdefault(module, entries(sys.modules[module]).unset())
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
    found = Snapshot()
    with _settings_errors("could not be read"):
        if _is_loaded("torch"):
            names = (name for name in CONFIGS if name in sys.modules)
            found.configs.update({name: entries(sys.modules[name]).look() for name in names})
            found.modes.update({name: mode.read() for name, mode in modes().items()})
        if _is_loaded("jax") and configs.JAX_CONFIG in sys.modules:
            found.configs[configs.JAX_CONFIG] = entries(sys.modules[configs.JAX_CONFIG]).look()
    return found


def _is_loaded(name: str) -> bool:
    """Return whether a module is imported to its end: before that it is nearly empty."""
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    return module is not None and not getattr(spec, "_initializing", False)


@cache
def entries(module: ModuleType) -> ConfigEntries | configs.JaxEntries:
    """Return the settings of one module of configs."""
    return (
        configs.JaxEntries(module)
        if module.__name__ == configs.JAX_CONFIG
        else ConfigEntries(module)
    )


def differing(before: Snapshot, after: Snapshot) -> list[Key]:
    """Return the settings that differ in ``after``. Raises ``SettingsError``."""
    with _settings_errors("could not be compared"):
        return list(_differing(before, after))


def _differing(before: Snapshot, after: Snapshot) -> Iterator[Key]:
    for module, look in after.configs.items():
        was = before.configs.get(module)
        if was is not None and equal(was.values, look.values):
            continue
        config = entries(sys.modules[module])
        for at in config.differing(was or config.unset(), look):
            yield module, at
    for name, value in after.modes.items():
        if not equal(value, _mode(before, name)):
            yield "", name


def deleted(snapshot: Snapshot) -> Iterator[Key]:
    """Yield entries that were deleted: the monkeypatch of pytest 9.2 deletes to put back."""
    for module, look in snapshot.configs.items():
        for at, value in enumerate(look.values):
            if value is DELETED:
                yield module, at


def changes(before: Snapshot, after: Snapshot, keys: Iterable[Key]) -> list[Setting]:
    """Return settings by name, with both values. Raises ``SettingsError``."""
    with _settings_errors("could not be compared"):
        return [_change(before, after, *key) for key in keys]


def _change(before: Snapshot, after: Snapshot, module: str, at: Any) -> Setting:
    if not module:
        words = modes()[at].words
        return Setting(at, words(_mode(before, at)), words(after.modes[at]))
    config = entries(sys.modules[module])
    was = config.value(before.configs.get(module) or config.unset(), at)
    return Setting(config.name(at), spell(was), spell(config.value(after.configs[module], at)))


def put_back(snapshot: Snapshot, key: Key) -> None:
    """Set one setting to what ``snapshot`` says. Raises ``SettingsError``."""
    module, at = key
    with _settings_errors("could not be put back", module):
        if module:
            config = entries(sys.modules[module])
            config.write(snapshot.configs.get(module) or config.unset(), at)
        else:
            modes()[at].write(_mode(snapshot, at))


def unusual(snapshot: Snapshot) -> Plain:
    """Return the settings that are not the default, by name. Raises ``SettingsError``.

    What torch reads from the environment while it is imported is a default of that process, except
    for the entries that name their variable.
    """
    with _settings_errors("could not be read"):
        found: Plain = {}
        for module, look in snapshot.configs.items():
            found.update(entries(sys.modules[module]).unusual(look))
        for name, value in snapshot.modes.items():
            if not equal(value, modes()[name].default):
                found[name] = modes()[name].words(value)
        return found


@contextmanager
def _settings_errors(what: str, module: str = "") -> Iterator[None]:
    """Turn any exception into a ``SettingsError`` that says what went wrong."""
    try:
        yield
    except SettingsError:
        raise
    except Exception as fault:
        whose = "JAX's" if module == configs.JAX_CONFIG else "torch's"
        why = str(fault) if isinstance(fault, MissingName) else f"{type(fault).__name__}: {fault}"
        raise SettingsError(f"{whose} settings {what}: {why}") from fault


def _mode(snapshot: Snapshot, name: str) -> Any:
    return snapshot.modes[name] if name in snapshot.modes else modes()[name].default


# Modes: state that torch keeps beside its configs. Sources: torch/_dynamo/eval_frame.py and
# torch/__init__.py; torch 2.6 to 2.14.

AUTOCAST: Final = ("cpu", "cuda", "xla", "xpu", "mps")


@dataclass(frozen=True, slots=True)
class Mode:
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
    """For each device, whether it is on, and its dtype; ``depth`` is how often it is entered."""

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
    torch.clear_autocast_cache()  # casts of weights are kept until the outermost autocast ends


def _autocast_words(value: _Autocast) -> str:
    devices = zip(AUTOCAST, value.devices, strict=True)
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
