"""Finds the sizes that vary from call to call, from the calls themselves.

A guard that fails names one dimension, the first that differs; the calls show all of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import torch
from torch.utils._pytree import keystr, tree_flatten_with_path

Shape = tuple[int, ...]
Shapes = dict[str, Shape]
"""Shapes by argument name: ``x``, ``batch['ids']``, ``rows[2]``."""
Dims = Mapping[str, Sequence[int]]
"""Dimensions by argument name."""

MOST: Final = 256
"""The number of calls of one callable whose shapes are kept."""
_BY_POSITION: Final = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)


def name_of(model: Any) -> str:
    """Return the name of a compiled callable, which is the class of a module."""
    return str(getattr(model, "__qualname__", type(model).__qualname__))


def note(model: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Shapes:
    """Return the shapes of a call."""
    return {name: tuple(leaf.shape) for name, leaf in tensors(model, args, kwargs)}


def tensors(
    model: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield all tensors among the arguments, with their names."""
    names = parameters(model)
    variadic = next((x.name for x in _signature(model) if x.kind is x.VAR_POSITIONAL), "args")
    values = {**dict(zip(names, args, strict=False)), variadic: args[len(names) :], **kwargs}
    for name, value in values.items():
        for path, leaf in tree_flatten_with_path(value)[0]:
            if isinstance(leaf, torch.Tensor) and not leaf.is_nested:
                yield name + keystr(path), leaf


def parameters(model: Any) -> list[str]:
    """Return the names of the positional parameters."""
    return [parameter.name for parameter in _signature(model) if parameter.kind in _BY_POSITION]


def _signature(model: Any) -> Sequence[inspect.Parameter]:
    called: Callable[..., Any] = model.forward if isinstance(model, torch.nn.Module) else model
    try:
        return list(inspect.signature(called).parameters.values())
    except (TypeError, ValueError):
        return []


def varying(calls: Sequence[Shapes]) -> dict[str, list[int]]:
    """Return the dimensions that vary for each argument.

    Arguments that are not in all calls, or whose rank varies, are left out.
    """
    dims: dict[str, list[int]] = {}
    for name, first in calls[0].items() if calls else ():
        shapes = [call.get(name) for call in calls]
        if any(shape is None or len(shape) != len(first) for shape in shapes):
            continue
        columns = zip(*(shape for shape in shapes if shape), strict=True)
        if vary := [dim for dim, column in enumerate(columns) if len({*column}) > 1]:
            dims[name] = vary
    return dims
