"""Graph-count regression tests for torch.compile, torch_xla and TT models.

The public names are imported only when they are used, since pytest imports this package in every
run of the environment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_graphbreak.judging.cap import CapError
    from pytest_graphbreak.measuring.compile_model import CompileModel, Run
    from pytest_graphbreak.measuring.graph_budget import GraphBudget
    from pytest_graphbreak.measuring.labels import during
    from pytest_graphbreak.measuring.watch import BudgetExceeded, Seen, observe
    from pytest_graphbreak.model.record import Record

__all__ = [
    "BudgetExceeded",
    "CapError",
    "CompileModel",
    "GraphBudget",
    "Record",
    "Run",
    "Seen",
    "during",
    "observe",
]

_HOMES = {
    "BudgetExceeded": "measuring.watch",
    "CapError": "judging.cap",
    "CompileModel": "measuring.compile_model",
    "GraphBudget": "measuring.graph_budget",
    "Record": "model.record",
    "Run": "measuring.compile_model",
    "Seen": "measuring.watch",
    "during": "measuring.labels",
    "observe": "measuring.watch",
}

# Type checkers must not see it, or they would accept any name.
if not TYPE_CHECKING:  # pragma: no branch

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import importlib

        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)

    def __dir__():
        return sorted({*globals(), *__all__})
