"""Finds the sizes that vary from call to call, from the calls themselves.

A guard that fails names one dimension, the first that differs; the calls show all of them.
"""

from __future__ import annotations

import contextlib
import dis
import inspect
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import torch
from torch.utils._pytree import keystr, tree_flatten_with_path

Shape = tuple[int, ...]
Shapes = dict[str, Shape]
"""Shapes by argument name: ``x``, ``batch['ids']``; ``*2`` is the third positional argument."""

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
    pairs = [
        (names[place] if place < len(names) else f"*{place}", value)
        for place, value in enumerate(args)
    ]
    for name, value in [*pairs, *kwargs.items()]:
        for path, leaf in tree_flatten_with_path(value)[0]:
            if _has_shape(leaf):
                yield name + keystr(path), leaf


def numbers(model: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield all Python numbers among the arguments, and in closures of functions among them.

    ``score_mod.offset`` is a number that the function ``score_mod`` closes over and does not set.
    """
    for name, value in [*zip(parameters(model), args, strict=False), *kwargs.items()]:
        if type(value) in (int, float):
            yield name, value
        if isinstance(value, types.FunctionType) and value.__closure__:
            sets = {x.argval for x in dis.get_instructions(value) if x.opname == "STORE_DEREF"}
            for variable, cell in zip(value.__code__.co_freevars, value.__closure__, strict=True):
                with contextlib.suppress(ValueError):  # an empty cell
                    if type(cell.cell_contents) in (int, float) and variable not in sets:
                        yield f"{name}.{variable}", cell.cell_contents


def _has_shape(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and not leaf.is_nested


def parameters(model: Any) -> list[str]:
    """Return the names of the positional parameters."""
    return [parameter.name for parameter in _signature(model) if parameter.kind in _BY_POSITION]


def variadic(model: Any) -> str:
    """Return the name of the parameter that takes all further arguments, or ""."""
    kinds = [x.name for x in _signature(model) if x.kind is inspect.Parameter.VAR_POSITIONAL]
    return kinds[0] if kinds else ""


def _signature(model: Any) -> Sequence[inspect.Parameter]:
    called: Callable[..., Any] = model.forward if isinstance(model, torch.nn.Module) else model
    try:
        return list(inspect.signature(called).parameters.values())
    except (TypeError, ValueError):
        return []


def varying(calls: Sequence[Shapes]) -> dict[str, dict[int, int]]:
    """Return the dimensions that vary for each argument, with their largest size.

    Arguments that are not in all calls, or whose rank varies, are left out.
    """
    dims: dict[str, dict[int, int]] = {}
    for name, first in calls[0].items() if calls else ():
        shapes = [call.get(name) for call in calls]
        if any(shape is None or len(shape) != len(first) for shape in shapes):
            continue
        sizes = [[shape[dim] for shape in shapes if shape] for dim in range(len(first))]
        vary = {dim: max(column) for dim, column in enumerate(sizes) if len(set(column)) > 1}
        if vary:
            dims[name] = vary
    return dims


def varying_sizes(
    calls: dict[str, list[Shapes]], names: dict[str, list[str]]
) -> list[dict[str, Any]]:
    """Return what varies for each callable, as plain data for the answer of a run.

    ``names`` are those of its parameters.
    """
    return [
        {
            "name": name,
            "parameters": names[name],
            "dims": {key: [*map(list, these.items())] for key, these in dims.items()},
        }
        for name, shapes in calls.items()
        if (dims := varying(shapes))
    ]
