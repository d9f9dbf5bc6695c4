"""Marks the sizes that vary as dynamic while a call lasts."""

from __future__ import annotations

from typing import Any

import torch

from pytest_graphbreak.repair.remedies.programs.arguments import (
    _graphbreak_arguments,
    _graphbreak_name,
)

_graphbreak_dynamic: dict[str, Any] = {}

# The program.


def _graphbreak_mark(model, inner):
    """Mark the sizes that vary as dynamic while a call lasts."""
    dims = _graphbreak_dynamic.get(_graphbreak_name(model), {})
    def call(*args, **kwargs):
        import copy

        before = {}

        def marks(tensor):
            ours = ("_dynamo", "_specialize", "_has_dynamo")
            return {k: copy.copy(v) for k, v in vars(tensor).items() if k.startswith(ours)}

        def mark(name, tensor):
            these = [d for d in dims.get(name, ()) if d < tensor.dim() and tensor.shape[d] > 1]
            if these and id(tensor) not in before:
                before[id(tensor)] = (tensor, marks(tensor))
            for dim in these:
                torch._dynamo.mark_dynamic(tensor, dim)
            return tensor

        try:
            _graphbreak_arguments(model, args, kwargs, mark)
            return inner(*args, **kwargs)
        finally:
            for tensor, had in before.values():
                for key in marks(tensor):
                    del vars(tensor)[key]
                vars(tensor).update(had)

    return call
