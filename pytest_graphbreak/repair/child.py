"""Runs a script or a test in a process of its own, for an order of a bench."""

from __future__ import annotations

import importlib
import importlib.machinery
import linecache
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pytest_graphbreak.repair.source import read

Answer = dict[str, Any]

_replaced: Final[dict[str, str]] = {}
"""Files that are imported or run, and others that are read in their place."""
_ORDERS: Final = ("measure", "border", "cut", "exporting")
"""The modules that carry out an order: ``work(order, go)``, where ``go`` runs the target."""


def work(order: Answer) -> Answer:
    """Carry out an order of ``trial``, and return the answer."""
    os.chdir(order["cwd"])
    target = Path(order["path"])
    sys.argv = [str(target), *order["arguments"]]
    sys.path[0] = str(target.resolve().parent)
    _replaced.update({os.path.realpath(old): new for old, new in order["replaced"].items()})
    if _replaced:
        _replace()
    assert order["kind"] in _ORDERS
    module = importlib.import_module(f"pytest_graphbreak.repair.{order['kind']}")
    answer: Answer = module.work(order, lambda window: go(order, window))
    return answer


def _replace() -> None:
    """Let an import of one file read another: a module with a patch in place of that without."""
    loader = importlib.machinery.SourceFileLoader
    contents, stats = loader.get_data, loader.path_stats

    def get_data(self: Any, path: str) -> bytes:
        return _contents(path) if os.path.realpath(path) in _replaced else contents(self, path)

    def path_stats(self: Any, path: str) -> Any:
        if os.path.realpath(path) in _replaced:
            raise OSError("there is no compiled code of it")
        return stats(self, path)

    loader.get_data, loader.path_stats = get_data, path_stats  # type: ignore[method-assign]


def _contents(path: str) -> bytes:
    """Return what a file contains, or what is read in its place; its lines have its own name."""
    new = _replaced.get(os.path.realpath(path))
    if new is None:
        return Path(path).read_bytes()
    text = read(Path(new)).text
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    return Path(new).read_bytes()


def go(order: Answer, window: Callable[[], Any]) -> Answer | None:
    if order["test"]:
        from pytest_graphbreak.repair import tested

        return tested.run(order, window)
    _script(order, window)
    return None


def _script(order: Answer, window: Callable[[], Any]) -> None:
    """Run a file as Python does: as ``__main__``, with its directory first on the path."""
    path = order["path"]
    module = types.ModuleType("__main__")
    module.__file__ = path
    module.__builtins__ = __builtins__  # type: ignore[attr-defined]
    sys.modules["__main__"] = module
    with window():
        code = compile(_contents(path), path, "exec", dont_inherit=True)
        exec(code, module.__dict__)
