"""What a program holds and has logged when it ends: lists of losses, counters, lines of loggers.

A patch that moves a line may lose it without a word, and no result tells: what is held is compared
from run to run, by its lengths and numbers. Texts are left out, and numbers may differ a little.
"""

from __future__ import annotations

import ast
import logging
import math
import types
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from typing import Any, Final

import torch

_MOST: Final = 20_000
"""The number of values that are noted."""
_DEEP: Final = 6
_CLOSE: Final = 0.01
_CLOCKS: Final = frozenset({"time", "datetime", "timeit"})
_LARGE: Final = 1 << 30
"""Larger integers may be addresses, or times."""

Held = list[tuple[str, float | None]]
"""Each value by its path: a number, or None for an object of another kind."""


def held(space: Mapping[str, Any], source: str) -> Held:
    """Return what the global variables of a program hold; nothing of one with its own backend.

    A backend may count graphs, which are fewer with a patch. A variable that is a number itself is
    noted if a function sets it: others may be the number of a process.
    """
    try:
        module = ast.parse(source)
    except SyntaxError:
        return []
    calls = [one for one in ast.walk(module) if isinstance(one, ast.Call)]
    given = [one for call in calls for one in call.keywords if one.arg == "backend"]
    if not all(isinstance(one.value, ast.Constant) for one in given):
        return []
    imports = {
        one.names[0].name if isinstance(one, ast.Import) else one.module
        for one in ast.walk(module)
        if isinstance(one, ast.Import | ast.ImportFrom)
    }
    outer = [one.names for one in ast.walk(module) if isinstance(one, ast.Global)]
    set_inside = {name for names in outer for name in names}
    values = _Values(floats=not imports & _CLOCKS)
    written = {one.id for one in ast.walk(module) if isinstance(one, ast.Name)}
    for name in sorted(space):
        if name.isidentifier() and name not in written:
            continue  # Dynamo puts global variables of its own there, such as ``sub_f``
        plain = isinstance(space[name], int | float) and name not in set_inside
        if not plain and not name.startswith(("_graphbreak", "__")):
            with suppress(Exception):  # of a tensor without values, or a class of the program
                values.add(name, space[name], 0)
    return values.found


class _Values:
    """Walks through containers and through objects of the program's own classes."""

    def __init__(self, *, floats: bool) -> None:
        self.found: Held = []
        self._floats = floats
        self._seen: set[int] = set()

    def add(self, path: str, value: Any, depth: int) -> None:
        if len(self.found) >= _MOST or isinstance(value, type | types.ModuleType):
            return
        if isinstance(value, bool | int):
            self.found += [(path, float(value))] if abs(value) < _LARGE else []
        elif isinstance(value, float):
            self.found += [(path, value)] if self._floats else []
        elif isinstance(value, torch.Tensor):
            self.found += self._tensor(path, value)
        elif depth < _DEEP and id(value) not in self._seen:
            parts = _parts(path, value)
            if parts is not None:
                self._seen.add(id(value))
                self.found.append((path, len(parts)))
                for name, part in parts:
                    self.add(name, part, depth + 1)

    def _tensor(self, path: str, value: torch.Tensor) -> Held:
        if value.numel() != 1 or value.is_complex() or not self._floats:
            return []
        return [(path, float(value.detach()))]


def _parts(path: str, value: Any) -> list[tuple[str, Any]] | None:
    """Return the parts of a container or an object, or None for another kind of object."""
    if isinstance(value, Mapping):
        return [(f"{path}[{key!r}]"[:200], one) for key, one in value.items()]
    if isinstance(value, list | tuple | deque):
        return [(f"{path}[{number}]", one) for number, one in enumerate(value)]
    if isinstance(value, Set):
        return [("", "")] * len(value)
    inner = [*value.named_children()] if isinstance(value, torch.nn.Module) else []
    ours = type(value).__module__ in ("__main__", "__mp_main__")
    own = getattr(value, "__dict__", {}) if ours else {}
    inner += [(name, own[name]) for name in own if not name.startswith("_")]
    return [(f"{path}.{name}", one) for name, one in inner] if inner or ours else None


def around(functions: Iterable[Any]) -> dict[str, Any]:
    """Return the objects that functions are methods of, and the variables that they close over."""
    found: dict[str, Any] = {}
    for number, one in enumerate(functions):
        found[f"the object of function {number}"] = getattr(one, "__self__", None)
        inner = getattr(one, "__func__", one)
        names = getattr(getattr(inner, "__code__", None), "co_freevars", ())
        for name, cell in zip(names, getattr(inner, "__closure__", None) or (), strict=False):
            with suppress(ValueError):  # a variable that is not set
                found[name] = cell.cell_contents
    return found


def difference(wanted: Held, given: Held) -> str | None:
    """Return what a run holds that another does not, or None."""
    before, after = dict(wanted), dict(given)
    for path, old in wanted:
        new = after.get(path)
        if path not in after:
            return f"at the end the program no longer holds {path}"
        if old is None or new is None or old == new or (math.isnan(old) and math.isnan(new)):
            continue
        if not math.isclose(old, new, rel_tol=_CLOSE, abs_tol=_CLOSE):
            return f"at the end {path} is {new:g}, and {old:g} without the patch"
    more = next((path for path in after if path not in before), None)
    return f"at the end the program holds {more} as well" if more is not None else None


@contextmanager
def logged() -> Iterator[list[str]]:
    """Yield the lines that loggers get within the block, but for those of torch."""
    lines: list[str] = []
    handle = logging.Logger.handle

    def noted(self: logging.Logger, record: logging.LogRecord) -> None:
        if not record.name.startswith("torch"):
            lines.append(f"{record.name}: {record.getMessage()}"[:500])
        handle(self, record)

    logging.Logger.handle = noted  # type: ignore[method-assign]
    try:
        yield lines
    finally:
        logging.Logger.handle = handle  # type: ignore[method-assign]
