"""Graph-count regression tests for torch.compile, torch_xla and TT models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_graphbreak.record import Record
    from pytest_graphbreak.watch import BudgetExceeded, Seen, observe

__all__ = ["BudgetExceeded", "Record", "Seen", "observe"]

_HOMES = {
    "BudgetExceeded": "watch",
    "Record": "record",
    "Seen": "watch",
    "observe": "watch",
}


def __getattr__(name: str) -> Any:
    # Lazy, since pytest imports this package in every run of the environment.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
