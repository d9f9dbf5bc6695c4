"""A compiler to be watched: it compiles a function once for each shape, and breaks at ``say``."""

from __future__ import annotations

import sys
from collections.abc import Callable

events: list[tuple[str, str, str, tuple[str, int, str]]] = []
"""What was done: kind, name, reason, and where: file, line, function."""
_cache: dict[str, list[int]] = {}


def run(function: Callable[..., object], shape: int, device: str = "card") -> None:
    """Compile ``function`` for ``shape`` where that was not done yet."""
    name = f"{device}:{function.__name__}"
    known = _cache.setdefault(name, [])
    if shape not in known:
        kind = "again" if known else "made"
        reason = f"shape {shape} after {known[-1]}" if known else ""
        events.append((f"{device} {kind}", function.__name__, reason, _caller()))
        known.append(shape)


def say(words: str) -> None:
    """Leave the compiler, and go on in a graph of its own."""
    events.append(("break", "say", f"say() is called with {words}", _caller()))
    events.append(("card broken", "say", "", _caller()))


def forget() -> None:
    _cache.clear()


def _caller() -> tuple[str, int, str]:
    frame = sys._getframe(2)
    return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
