"""Calls of ``equinox.filter_jit``: what JAX is handed there, as the user wrote it.

Equinox gives ``jax.jit`` a function of its own. What is no array, the user's function with it,
is one static argument; the arrays are numbered leaves of the others. The parts are put under
their own names again here: ``model.layers[0].weight``, ``model.scale``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any, Final

from pytest_graphbreak.layers.jax.keys import Key

_ARRAY: Final = re.compile(r"dynamic_(?:no)?donate\['(first|fun|rest)'\]\[(\d{1,9})\]")
_FILE: Final = "equinox/_jit.py"


def unpacked(frame: FrameType | None, args: Sequence[Any], key: Key) -> tuple[Any, Key] | None:
    """The user's function and what it is called with; None where equinox does not call.

    ``frame`` is the one that called JAX, ``args`` what it gave.
    """
    if frame is None or not frame.f_code.co_filename.endswith(_FILE):
        return None
    try:
        signature = frame.f_locals["jit_wrapper"]._signature
        fun, first, rest = args[2]
        names = list(signature.parameters)
        leaves = {
            "first": list(_leaves(first, "first", names)),
            "fun": list(_leaves(fun, "fun", names)),
            "rest": list(_leaves(rest, "rest", names)),
        }
        found = fun[0][0] if len(fun[0]) == 1 and callable(fun[0][0]) else None
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return None
    statics = [
        leaf
        for part in leaves
        if part != "fun" or found is None
        for leaf in leaves[part]
        if leaf[1] is not None
    ]
    return found, replace(
        key,
        arguments=tuple((_named(name, leaves), aval) for name, aval in key.arguments),
        tree=(first[1], rest[1]),
        statics=tuple(statics),
    )


def _leaves(
    given: tuple[Sequence[Any], Any], part: str, names: Sequence[str]
) -> Iterator[tuple[str, Any]]:
    """The name and the value of each leaf; the value of an array is None."""
    values, tree = given
    jax: Any = sys.modules["jax"]
    numbered = jax.tree_util.tree_unflatten(tree, range(len(values)))
    for path, number in jax.tree_util.tree_flatten_with_path(numbered)[0]:
        yield _path(path, part, names), values[number]


def _path(path: Sequence[Any], part: str, names: Sequence[str]) -> str:
    """``model.scale``: the name of the parameter, and what leads from it to the leaf."""
    jax: Any = sys.modules["jax"]
    if part == "first":
        head = names[0] if names else "args[0]"
    elif part == "fun":
        head = "the function"
    else:  # the other arguments, and after them those that were named
        which, entry, path = path[0].idx, path[1], path[2:]
        if which:
            head = str(entry.key)
        else:
            number = entry.idx + 1
            head = names[number] if number < len(names) else f"args[{number}]"
    return f"{head}{jax.tree_util.keystr(tuple(path))}"


def _named(name: str, leaves: dict[str, list[tuple[str, Any]]]) -> str:
    found = _ARRAY.match(name)
    if found is None or int(found[2]) >= len(leaves[found[1]]):
        return name
    return leaves[found[1]][int(found[2])][0] + name[found.end() :]
