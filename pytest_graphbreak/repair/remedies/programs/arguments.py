"""Visits the arguments of a call, each tensor with its name."""

from __future__ import annotations

import torch

# The program.


def _graphbreak_arguments(model, args, kwargs, change):
    """Return the arguments with change(name, tensor) for each tensor: x, batch['ids'], *2."""
    import inspect
    from torch.utils._pytree import keystr, tree_map_with_path

    called = model.forward if isinstance(model, torch.nn.Module) else model
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in inspect.signature(called).parameters.values() if p.kind in kinds]

    def walk(name, value):
        def leaf(path, one):
            return change(name + keystr(path), one) if isinstance(one, torch.Tensor) else one

        return tree_map_with_path(leaf, value)

    args = [walk(names[i] if i < len(names) else f"*{i}", one) for i, one in enumerate(args)]
    return args, {name: walk(name, one) for name, one in kwargs.items()}


def _graphbreak_name(model):
    """Return the name that the tables below use for a function, or for the class of a module."""
    return getattr(model, "__qualname__", type(model).__qualname__)
