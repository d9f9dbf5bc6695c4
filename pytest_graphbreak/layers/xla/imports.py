"""Calls back when torch_xla is imported while a window is open.

A test may import torch_xla in its body. The sensors are then put in as soon as
the module has run, before the test can use it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

TARGETS = ("torch_xla", "torch_xla._dynamo.dynamo_bridge")


class ImportWatch(MetaPathFinder):
    """While attached, calls ``then`` after each of ``TARGETS`` was imported."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then

    def attach(self) -> None:
        missing = any(name not in sys.modules for name in TARGETS)
        if missing and self not in sys.meta_path and _installed():
            sys.meta_path.insert(0, self)

    def detach(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname not in TARGETS:
            return None
        for finder in list(sys.meta_path):
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(fullname, path, target)
                if spec is not None:
                    self._follow(spec)
                    return spec
        return None

    def _follow(self, spec: ModuleSpec) -> None:
        loader = spec.loader
        execute = getattr(loader, "exec_module", None)
        if loader is None or execute is None:
            return

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module  # the class has its own again
            execute(module)
            self._then()

        try:
            loader.exec_module = exec_module  # type: ignore[method-assign]
        except AttributeError:  # a loader with slots: close() sees that nothing was attached
            return


@cache
def _installed() -> bool:
    return "torch_xla" in sys.modules or find_spec("torch_xla") is not None
