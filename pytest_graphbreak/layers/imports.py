"""Which modules are loaded, and when they are imported: what a hook of torch's has to know.

``loaded``        the module in ``sys.modules``, unless a test has put a stand-in there
``is_whole``      whether it is loaded and its code has run to the end
``is_extension``  whether it is loaded and compiled: ``torch._C`` of a torch that can compile
``is_installed``  whether it can be found, loaded or not

An ``ImportWatch`` is told by the method of Python's loader of source files that runs a module: the
method is replaced while there is a watch. A finder in ``sys.meta_path`` would do as well, but other
code would meet it there: code that takes out its own finder by position, or that counts finders.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Collection
from functools import cache
from importlib.machinery import (
    ExtensionFileLoader,
    ModuleSpec,
    PathFinder,
    SourceFileLoader,
)
from types import ModuleType
from typing import Any, Final

from pytest_graphbreak.layers.dynamo.kept_out import keep_out
from pytest_graphbreak.layers.faults import guard


def loaded(name: str) -> Any:
    """Return a module that Python has loaded; None for what somebody else put in its place."""
    module = sys.modules.get(name)
    return None if _spec(module) is None else module


def directory(name: str) -> str:
    """Return the directory of a package that Python has loaded, with a separator at its end.

    A directory of the same name may be the user's, as ``tests/torch`` of tt-xla is.
    """
    return os.path.join(os.path.dirname(loaded(name).__file__), "")


def is_whole(name: str) -> bool:
    """Return whether a module is loaded, and its code has run to the end.

    ``sys.modules`` has a module from the moment on at which it begins to run.
    """
    spec = _spec(sys.modules.get(name))
    return spec is not None and not getattr(spec, "_initializing", False)


def is_extension(name: str) -> bool:
    """Return whether a compiled extension module is loaded."""
    spec = _spec(sys.modules.get(name))
    return spec is not None and type(spec.loader) is ExtensionFileLoader


def _spec(module: Any) -> ModuleSpec | None:
    if not issubclass(type(module), ModuleType):  # a Mock may say that it is one
        return None
    spec = object.__getattribute__(module, "__dict__").get("__spec__")
    return spec if type(spec) is ModuleSpec else None


@cache
def is_installed(name: str) -> bool:
    """Return whether a package can be found, whatever a test has put into ``sys.modules``.

    Cached: searching ``sys.path`` is slow.
    """
    if loaded(name) is not None or PathFinder.find_spec(name) is not None:
        return True
    with guard():  # the finders of somebody else: an editable install has one
        return importlib.util.find_spec(name) is not None
    return False


class ImportWatch:
    """Calls ``then`` after each import of one of ``modules``, by any code, while attached."""

    def __init__(self, modules: Collection[str], then: Callable[[], None]) -> None:
        self._modules = modules
        self._then = then

    def attach(self) -> None:
        if self not in _watches and not all(map(is_whole, self._modules)):
            _watches.append(self)
            _follow()

    def detach(self) -> None:
        if self in _watches:
            _watches.remove(self)
            _follow()

    def begins(self, name: str) -> bool:
        """Return whether ``ends`` is to be called after this module, which is about to run."""
        return name in self._modules

    def ends(self, is_loaded: bool) -> None:
        """Handle the end of that module: ``is_loaded`` says whether it raised nothing."""
        if is_loaded:
            self._then()


class AroundImports(ImportWatch):
    """Calls ``before`` and ``after`` around each import that this thread makes of a new module.

    What that imports in turn is part of it. ``suite.leaks`` tells by it what an import changed.
    """

    def __init__(self, before: Callable[[], None], after: Callable[[], None]) -> None:
        super().__init__((), after)
        self._before = before
        self._thread = threading.get_ident()
        self._is_importing = False

    def attach(self) -> None:
        _watches.append(self)
        _follow()

    def begins(self, name: str) -> bool:
        if self._is_importing or threading.get_ident() != self._thread:
            return False
        self._is_importing = True
        self._before()
        return True

    def ends(self, is_loaded: bool) -> None:
        self._is_importing = False
        self._then()


_watches: Final[list[ImportWatch]] = []
"""Those that are attached; without one the method is Python's own again."""
_METHOD: Final = "exec_module"
"""The method of ``SourceFileLoader`` that runs a module."""


class _Loader:
    """The state of ``SourceFileLoader``: what its method was, whether ours is in its place.

    ``replaced`` is the method that ours replaces, or did last; ``is_inherited`` says that a base
    class has it. ``is_followed``: ours is put in, and may have been wrapped by somebody else since.
    """

    replaced: Callable[[Any, ModuleType], object] = SourceFileLoader.exec_module
    is_inherited = True
    is_followed = False


def _follow() -> None:
    """Have the method ours while there is a watch. No lock: a thread may be held by an import."""
    if _watches and not _Loader.is_followed:
        _Loader.is_followed = True
        keep_out(_begin)
        keep_out(_end)
        _Loader.is_inherited = _METHOD not in vars(SourceFileLoader)
        _Loader.replaced = getattr(SourceFileLoader, _METHOD)
        setattr(SourceFileLoader, _METHOD, _exec_module)
    # Where somebody has wrapped ours since, it stays, and passes on.
    elif not _watches and vars(SourceFileLoader).get(_METHOD) is _exec_module:
        if _Loader.is_inherited:
            delattr(SourceFileLoader, _METHOD)
        else:
            setattr(SourceFileLoader, _METHOD, _Loader.replaced)
        _Loader.is_followed = False
        if _watches:  # another thread came meanwhile
            _follow()


def _exec_module(loader: Any, module: ModuleType) -> None:
    run = _Loader.replaced
    waiting = _begin(loader) if _watches else ()
    is_loaded = False
    try:
        run(loader, module)
        is_loaded = True
    finally:
        if waiting:
            _end(waiting, is_loaded)


# Python leaves frames of its import system out of tracebacks, and warnings with a ``stacklevel``
# pass over them (remove_importlib_frames of Python/import.c, _is_internal_frame of warnings.py):
# ours, between two of them, would show, and would be named as who is warned.
_exec_module.__code__ = _exec_module.__code__.replace(
    co_filename="<frozen importlib._bootstrap_external>"
)


def _begin(loader: Any) -> list[ImportWatch]:
    """Return the watches that wait for the module that is about to run."""
    waiting: list[ImportWatch] = []
    with guard():
        for watch in [*_watches]:
            if watch.begins(loader.name):
                waiting.append(watch)
    return waiting


def _end(waiting: Collection[ImportWatch], is_loaded: bool) -> None:
    for watch in waiting:
        with guard():
            watch.ends(is_loaded)
