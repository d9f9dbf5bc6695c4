"""State that torch keeps beside its configs: stance, grad mode, autocast, default dtype and device.

Sources: torch/_dynamo/eval_frame.py and torch/__init__.py; torch 2.6 to 2.14.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from pytest_graphbreak.layers.dynamo import private
from pytest_graphbreak.layers.settings.configs import spell

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
    """Every mode by name. Called only where torch is loaded."""
    import torch

    return {
        "grad_mode": Mode(torch.is_grad_enabled, torch._C._set_grad_enabled, True),
        "default_dtype": Mode(torch.get_default_dtype, torch.set_default_dtype, torch.float32),
        "default_device": Mode(_device, _set_device, None, lambda device: device and str(device)),
        "stance": Mode(_stance, _set_stance, _NO_STANCE, _stance_words),
        "autocast": Mode(_autocast, _set_autocast, _no_autocast(), _autocast_words),
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

    context = getattr(private.attribute(torch, private.DEVICE), "device_context", None)
    return None if context is None else context.device


def _set_device(device: Any) -> None:
    import torch

    torch.set_default_device(device)
    if device is None:  # torch 2.9 asks this one for its device as long as it is there
        del private.attribute(torch, private.DEVICE).device_context


_NO_STANCE: Final = ("default", False, None)


def _stance() -> tuple[str, bool, Any]:
    """The stance, whether guards are skipped, and the backend that it forces."""
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
