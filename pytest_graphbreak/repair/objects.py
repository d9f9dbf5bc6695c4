"""What a program holds when it ends: lists of losses, counters, attributes of its modules.

A patch that moves a line may lose it, and no result tells. Only what a run of the original has as
well is compared, under the same name: variables that a patch adds do not matter.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import torch

from pytest_graphbreak.repair.compare import Flat, flatten

_KINDS: Final = (bool, int, float, str, torch.Tensor, list, dict, tuple, deque, set)
_NUMBERS: Final = (bool, int, float, str)
_MOST: Final = 2_000
"""The number of values that are noted of one object."""


def attributes_of(original: Any, name: str) -> dict[str, Any]:
    """Return the attributes of a compiled module, or the variables that a function closes over."""
    owner = getattr(original, "__self__", original)
    if isinstance(owner, torch.nn.Module):
        return {
            f"{name}.{path and path + '.'}{key}": value
            for path, module in owner.named_modules()
            for key, value in vars(module).items()
        }
    names = dict(getattr(owner, "__dict__", {})) if owner is not original else {}
    code, cells = getattr(original, "__code__", None), getattr(original, "__closure__", None)
    for variable, cell in zip(getattr(code, "co_freevars", ()), cells or (), strict=False):
        with suppress(ValueError):  # a variable that is not set
            names[variable] = cell.cell_contents
    return names


def numbers(module: torch.nn.Module | None) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the attributes of each part of a module, and those of them that are numbers or text.

    ``put_back`` sets them again: a call that raises has counted itself where nothing is compiled,
    and not where Dynamo refused it.
    """
    parts = [vars(part) for part in module.modules()] if module is not None else []
    return [
        (attributes, {key: value for key, value in attributes.items() if type(value) in _NUMBERS})
        for attributes in parts
    ]


def put_back(numbers: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    """Set the attributes that ``numbers`` has returned."""
    for attributes, before in numbers:
        attributes.update(before)


def values(names: Mapping[str, Any]) -> dict[str, Flat]:
    """Return the plain values and containers among objects, but for private ones."""
    flat: dict[str, Flat] = {}
    for name, value in names.items():
        if name.rpartition(".")[2].startswith("_") or not isinstance(value, _KINDS):
            continue
        with suppress(Exception):  # of a tensor without values, or a class of the program
            value = sorted(map(str, value)) if isinstance(value, set) else value
            value = list(value) if isinstance(value, deque) else value
            if _size(value) < _MOST:
                flat[name] = flatten(value)
    return flat


def _size(value: Any) -> int:
    return len(value) if isinstance(value, list | tuple | dict) else 0
