"""How sensors get into a module: around one of its functions, and when it is imported."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Hook = Callable[..., Any]
"""Called as ``hook(original, *args, **kwargs)``; returns what the original returns."""


class Patch:
    """One function replaced by a wrapper, and put back.

    Another tool may have wrapped ours by the time it has to go. Then ours stays
    in the chain and only passes calls on: taking it out would throw theirs away.
    """

    def __init__(self, owner: Any, attribute: str, hook: Hook) -> None:
        self._owner = owner
        self._attribute = attribute
        self._inherited = isinstance(owner, type) and attribute not in vars(owner)
        self._original = original = getattr(owner, attribute)
        self._live = True

        @functools.wraps(original)
        def patched(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            if not self._live:
                return original(*args, **kwargs)
            return hook(original, *args, **kwargs)

        self._patched = patched
        setattr(owner, attribute, patched)

    def remove(self) -> None:
        self._live = False
        if vars(self._owner).get(self._attribute) is not self._patched:
            return
        if self._inherited:
            delattr(self._owner, self._attribute)
        else:
            setattr(self._owner, self._attribute, self._original)


class OnImport:
    """Calls back once when a module has been imported, whoever imports it.

    A finder before all others, which leaves the finding to the others and only
    follows the module's own loader to its end. ``remove`` takes it out again.
    """

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self._name = name
        self._then = then
        self._asking = False
        sys.meta_path.insert(0, self)

    def remove(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._name or self._asking:
            return None
        self._asking = True  # one of the others may be another one of these, and ask us
        try:
            for finder in list(sys.meta_path):
                find = getattr(finder, "find_spec", None)
                spec: ModuleSpec | None = find(name, path, target) if find is not None else None
                if spec is not None:
                    self._follow(spec)
                    return spec
        finally:
            self._asking = False
        return None

    def _follow(self, spec: ModuleSpec) -> None:
        """Have the loader call back at its end. A loader that does not let us is left alone."""
        loader: Any = spec.loader
        if not hasattr(loader, "exec_module") or not hasattr(loader, "__dict__"):
            return
        before = vars(loader).get("exec_module")

        def exec_module(module: ModuleType) -> None:
            if before is None:
                del loader.exec_module  # the class has its own again
            else:
                loader.exec_module = before
            loader.exec_module(module)
            self._then()

        loader.exec_module = exec_module
