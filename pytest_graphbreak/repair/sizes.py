"""Finds the sizes that vary from call to call, from the calls themselves.

A guard that fails names one dimension, the first that differs; the calls show all of them, and
which dimensions of the results follow them.
"""

from __future__ import annotations

import contextlib
import dis
import inspect
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.utils._pytree import keystr, tree_flatten, tree_flatten_with_path

Shape = tuple[int, ...]
Shapes = dict[str, Shape]
"""Shapes by argument name: ``x``, ``batch['ids']``; ``*2`` is the third positional argument."""

MOST: Final = 256
"""The number of calls of one callable whose shapes are kept."""
_BY_POSITION: Final = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)


@dataclass(frozen=True, slots=True)
class Call:
    """The shapes of one call: tensors by name, results in the order of pytree."""

    given: Shapes
    results: tuple[Shape | None, ...]


def name_of(model: Any) -> str:
    """Return the name of a compiled callable, which is the class of a module."""
    return str(getattr(model, "__qualname__", type(model).__qualname__))


def note(model: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Call:
    """Return the shapes of a call that has returned."""
    given = {name: tuple(leaf.shape) for name, leaf in tensors(model, args, kwargs)}
    leaves = tree_flatten(result)[0]
    return Call(
        given,
        tuple(tuple(leaf.shape) if _has_shape(leaf) else None for leaf in leaves),
    )


def tensors(
    model: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield all tensors among the arguments, with their names."""
    names = parameters(model)
    named = [
        (names[place] if place < len(names) else f"*{place}", value)
        for place, value in enumerate(args)
    ]
    for name, value in [*named, *kwargs.items()]:
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
            sets = {
                one.argval for one in dis.get_instructions(value) if one.opname == "STORE_DEREF"
            }
            for inside, cell in zip(value.__code__.co_freevars, value.__closure__, strict=True):
                with contextlib.suppress(ValueError):  # an empty cell
                    if type(cell.cell_contents) in (int, float) and inside not in sets:
                        yield f"{name}.{inside}", cell.cell_contents


def _has_shape(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and not leaf.is_nested


def parameters(model: Any) -> list[str]:
    """Return the names of the positional parameters."""
    called: Callable[..., Any] = model.forward if isinstance(model, torch.nn.Module) else model
    try:
        found = inspect.signature(called).parameters.values()
    except (TypeError, ValueError):
        return []
    return [one.name for one in found if one.kind in _BY_POSITION]


def varying(calls: Sequence[Call]) -> dict[str, dict[int, int]]:
    """Return the dimensions that vary for each argument, with their largest size.

    Arguments that are not in all calls, or whose rank varies, are left out.
    """
    found: dict[str, dict[int, int]] = {}
    for name, first in calls[0].given.items() if calls else ():
        shapes = [call.given.get(name) for call in calls]
        if any(shape is None or len(shape) != len(first) for shape in shapes):
            continue
        sizes = [[shape[dim] for shape in shapes if shape] for dim in range(len(first))]
        dims = {dim: max(these) for dim, these in enumerate(sizes) if len(set(these)) > 1}
        if dims:
            found[name] = dims
    return found


def followers(calls: Sequence[Call]) -> list[tuple[int, int, str, int]] | None:
    """Return the dimensions of results that follow a varying size: result, dim, argument, dim.

    Returns None if a size in the results varies but is not a size of the arguments: then the result
    cannot be cut back.
    """
    dims = [(name, dim) for name, these in varying(calls).items() for dim in these]
    ranks = {tuple(None if one is None else len(one) for one in call.results) for call in calls}
    if len(ranks) != 1:
        return None
    found: list[tuple[int, int, str, int]] = []
    for number, shape in enumerate(calls[0].results):
        for dim in range(len(shape or ())):
            sizes = [(call.results[number] or ())[dim] for call in calls]
            if len(set(sizes)) == 1:
                continue
            source = next(
                (one for one in dims if [call.given[one[0]][one[1]] for call in calls] == sizes),
                None,
            )
            if source is None:
                return None
            found.append((number, dim, *source))
    return found


def varying_sizes(calls: dict[str, list[Call]]) -> list[dict[str, Any]]:
    """Return what varies for each callable, by name, as plain data for the answer of a run."""
    return [
        {
            "name": name,
            "dims": {
                argument: [[dim, most] for dim, most in dims.items()]
                for argument, dims in varying(these).items()
            },
            "results": len(these[0].results),
            "follow": followers(these),
        }
        for name, these in calls.items()
        if varying(these)
    ]
