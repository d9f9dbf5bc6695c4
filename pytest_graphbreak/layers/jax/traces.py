"""Isolation keeps a part of JAX's caches: traces and lowerings of JAX's own functions.

Most of what isolation costs is eager ``jnp`` code, traced and lowered again in each test. What
stays in JAX's caches is its own module-level functions and primitives, called with plain values
(``is_plain``): no code of the user's is in their traces. What they were compiled to does not stay,
so that each program is asked for again, and counted, just as after ``jax.clear_caches()``: the same
calls share a trace, and the same traces a lowering.

The caches, by their names in ``private``, with what a key refers to weakly (~>) and strongly (->)::

    PRIMITIVES  (primitive, params)              jit(fun) -> fun, which JAX made for the key
    TRACES      (~> fun, settings, args, ...)    (jaxpr, tree of the results)
    LOWERINGS   (~> jaxpr, settings, ...)        computation -> its executable, once compiled

An entry goes when what its key refers to weakly is gone. So a trace lives as long as its function,
which a module of JAX or PRIMITIVES holds, and a lowering as long as the jaxpr of its trace.

``KeptTraces.clear`` evicts from TRACES and LOWERINGS all that must not stay, takes the executables
off the computations that stay, and calls ``jax.clear_caches()`` with these three caches taken out
of its list (CACHES) meanwhile. If they are not found as expected (jax 0.7 has others), it clears
all.

Sources: jax/_src/util.py, api.py, dispatch.py, pjit.py, interpreters/pxla.py of jax 0.10.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from functools import partial
from types import BuiltinFunctionType, FunctionType
from typing import Any, Final

from pytest_graphbreak.layers.jax import private
from pytest_graphbreak.layers.jax.functions import home, is_of_primitive
from pytest_graphbreak.layers.private_names import MissingName

MOST: Final = 4096
"""The most traces that are kept; if there are more, all are cleared."""
_VALUES: Final = (type(None), bool, int, float, complex, str, bytes)
"""The types of values that are plain by themselves."""
_NODES: Final = (type(None), tuple, list, dict)
"""The containers of a pytree of JAX that run no code of the user's."""
_LIBRARIES: Final = ("jax", "jaxlib", "numpy", "ml_dtypes")
"""The packages whose objects are plain, but for classes by ``_WITH_CODE``."""
_WITH_CODE: Final = ("Jaxpr", "Tree", "Fun")
"""Parts of the names of classes of JAX that hold functions of the user's."""


class _Unexpected(Exception):
    """The caches hold what cannot be kept, or what is not known: all are to be cleared."""


class KeptTraces:
    """Clears the caches before a test, and remembers which entries stayed."""

    def __init__(self) -> None:
        self._staying: dict[int, Any] = {}
        """Arguments of the traces that stayed, by ``id``, which is theirs alone while held here."""
        self._primitives: set[int] = set()
        """The primitives of JAX's modules, by ``id``."""
        self._modules_seen = 0
        """How many modules of all packages there were when these were collected."""

    def clear(self) -> None:
        """Call ``jax.clear_caches()`` except for what stays. Raises ``MissingName`` without it."""
        clear = private.value(private.CLEAR)
        try:
            caches = self._evict()
        except (_Unexpected, MissingName, AttributeError, LookupError, TypeError, ValueError):
            self._staying = {}
            caches = {}
        with _hide(caches):
            clear()

    def _evict(self) -> dict[Any, str]:
        """Evict all that must not stay; return the caches that hold nothing else, and their names.

        Raises one of several exceptions if JAX's caches are not as they are expected to be.
        """
        traces, lowerings = private.value(private.TRACES), private.value(private.LOWERINGS)
        self._staying = self._evict_traces(traces)
        jaxprs = [jaxpr for jaxpr, _ in _values(traces, _is_trace)]
        if len(jaxprs) > MOST:
            raise _Unexpected
        # The lowering of one with effects holds the Python functions that it calls.
        _evict_lowerings(lowerings, {id(jaxpr) for jaxpr in jaxprs if not jaxpr.effects})
        is_computation = partial(_is_computation, private.value(private.LOWERED))
        for computation in _values(lowerings, is_computation):
            computation._executable = None
        listed = private.value(private.CACHES)
        kept = traces, lowerings, private.value(private.PRIMITIVES)
        return {cache: listed[cache] for cache in kept}

    def _evict_traces(self, traces: Any) -> dict[int, Any]:
        """Evict the traces that must not stay; return the arguments of the others by ``id``."""
        staying = {}
        # A key: a weak reference to the function, the settings, further arguments, keywords.
        for reference, _, args, _ in traces.cache_keys():
            if (fun := reference()) is None:
                continue
            has_stayed = id(args) in self._staying
            if has_stayed or self._may_stay(fun, args):
                staying[id(args)] = args
            elif is_of_primitive(fun):  # PRIMITIVES holds it, and cannot evict single entries
                raise _Unexpected
            else:
                traces.evict_weakref(fun)
        return staying

    def _may_stay(self, fun: Any, args: tuple[Any, ...]) -> bool:
        if is_of_primitive(fun):
            # It is made by xla_primitive_callable(prim, **params) of jax/_src/dispatch.py.
            closure = dict(zip(fun.__code__.co_freevars, fun.__closure__, strict=True))
            params = closure["params"].cell_contents
            return self._knows(closure["prim"].cell_contents) and is_plain(tuple(params.values()))
        return _is_defined(fun) and _is_plain_tree(args[0].tree)

    def _knows(self, primitive: Any) -> bool:
        """Return whether a module of jax defines a primitive, not a library with its own rules.

        If it is not known, and modules were imported since, they are looked through once more.
        """
        if id(primitive) not in self._primitives and self._modules_seen != len(sys.modules):
            self._modules_seen = len(sys.modules)
            self._primitives = {
                id(value)
                for name, module in list(sys.modules.items())
                if name.startswith("jax.")
                for attribute, value in list(getattr(module, "__dict__", {}).items())
                if attribute.endswith("_p")
            }
        return id(primitive) in self._primitives


@contextmanager
def _hide(caches: dict[Any, str]) -> Iterator[None]:
    """Take these caches out of JAX's list meanwhile."""
    listed = private.value(private.CACHES) if caches else {}
    try:
        for cache in caches:
            del listed[cache]
        yield
    finally:
        listed.update(caches)


def _evict_lowerings(lowerings: Any, stay: set[int]) -> None:
    """Evict the lowerings of all jaxprs but these (``id()``)."""
    for reference, *_ in lowerings.cache_keys():
        jaxpr = reference()
        if jaxpr is not None and id(jaxpr) not in stay:
            lowerings.evict_weakref(jaxpr)


def _values(cache: Any, is_value: Callable[[Any], bool]) -> list[Any]:
    """Return the values of a cache. JAX shows only its keys; the garbage collector knows the rest.

    Only as many as there are keys are surely these; there are others while a thread traces.
    """
    values = [referent for referent in gc.get_referents(cache) if is_value(referent)]
    if len(values) != len(cache.cache_keys()):
        raise _Unexpected
    return values


def _is_trace(value: Any) -> bool:
    if type(value) is not tuple or len(value) != 2:
        return False
    return hasattr(value[0], "jaxpr") and hasattr(value[0], "effects")


def _is_computation(kind: type, value: Any) -> bool:
    """Return whether a value is a computation, which has its executable where we look for it."""
    return type(value) is kind and "_executable" in vars(value)


def _is_defined(fun: Any) -> bool:
    """Return whether a module of jax defines a function, and not inside of another function.

    What JAX makes of a user's function has the names of that function.
    """
    return (
        type(fun) is FunctionType
        and fun.__code__.co_filename.startswith(home())
        and str(fun.__module__).partition(".")[0] == "jax"
        and "<" not in fun.__qualname__
    )


def _is_plain_tree(tree: Any) -> bool:
    """Return whether arguments are in builtin containers, and plain where they are static."""
    if (node := tree.node_data()) is None:
        return True
    kind, data = node
    if kind.__name__ == "Static":
        return is_plain(data.val)
    return kind in _NODES and all(map(_is_plain_tree, tree.children()))


def is_plain(value: Any) -> bool:
    """Return whether a value can bring no user code into a program, and is no program itself."""
    if type(value) in _VALUES:
        return True
    if isinstance(value, (tuple, list, frozenset)):
        return all(map(is_plain, value))
    if isinstance(value, dict):
        return is_plain((tuple(value), tuple(value.values())))
    if isinstance(value, type):
        return value.__module__.partition(".")[0] in (*_LIBRARIES, "builtins")
    if callable(value):
        return isinstance(value, BuiltinFunctionType) or _is_defined(value)
    kind = type(value)
    if kind.__module__.partition(".")[0] not in _LIBRARIES:
        return False
    return isinstance(value, Enum) or not any(part in kind.__name__ for part in _WITH_CODE)
