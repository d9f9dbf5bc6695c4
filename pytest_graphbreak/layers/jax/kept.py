"""What isolation of a test keeps of JAX: traces of JAX's own functions, and executables.

Most of what isolation costs is eager ``jnp`` code, traced and lowered again in each test. What
stays in JAX's caches is its own module-level functions and primitives, called with plain values
(``is_plain``): no code of the user's is in their traces. What they were compiled to does not stay,
so that each program is asked for again, and counted, just as after ``jax.clear_caches()``: the same
calls share a trace, and the same traces a lowering.

``jax.clear_caches()`` itself is called, with these caches taken out of its list meanwhile. If they
are not found as expected (jax 0.7 has others), it clears all. The caches, by their names in
``private``::

    PRIMITIVES  (primitive, params)      -> jit(fun), which holds a fun that JAX made for these
    TRACES      (weak fun, args, ...)    -> (jaxpr, tree of the results)
    LOWERINGS   (weak jaxpr, options)    -> a computation, with its executable

So a trace lives as long as its function, and a lowering as long as the jaxpr of its trace.

Beside that, executables are kept outside of JAX (``KeptExecutables``): a program is asked for
again, and XLA does not make it again.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from enum import Enum
from hashlib import sha256
from types import BuiltinFunctionType, FunctionType
from typing import Any, Final

from pytest_graphbreak.layers.faults import guard, or_else
from pytest_graphbreak.layers.hooks import Hook
from pytest_graphbreak.layers.jax import private
from pytest_graphbreak.layers.jax.functions import home
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


class KeptTraces:
    """Clears the caches, and remembers which entries may stay."""

    def __init__(self) -> None:
        self._staying: dict[int, Any] = {}
        """Arguments of the traces that stayed, by ``id``, which holds while they are alive."""
        self._primitives: set[int] = set()
        self._modules_seen = 0

    def clear(self) -> None:
        """Call ``jax.clear_caches()`` except for what stays. Raises ``MissingName`` without it."""
        clear = private.value(private.CLEAR)
        try:
            caches = self._evict()
        except (MissingName, AttributeError, LookupError, TypeError, ValueError):
            caches = ()
        with _hide(caches):
            clear()

    def _evict(self) -> tuple[Any, ...]:
        """Evict all that must not stay; return the caches that hold nothing else."""
        traces = private.value(private.TRACES)
        lowerings = private.value(private.LOWERINGS)
        staying = {}
        # A key: a weak reference to the function, the settings, further arguments, keywords.
        for reference, _, args, _ in traces.cache_keys():
            if (fun := reference()) is None:
                continue
            # In ``_staying``: looked at before, and alive since, so that the id is of no other.
            if id(args) in self._staying or self._may_stay(fun, args):
                staying[id(args)] = args
            elif getattr(fun, "_apply_primitive", False):
                # JAX marks the function that it makes for one primitive (jax/_src/dispatch.py of
                # 0.10): PRIMITIVES holds it, and cannot evict single entries.
                return self._keep_none()
            else:
                traces.evict_weakref(fun)
        # Only as many values as there are keys are surely those of the cache.
        jaxprs = [value[0] for value in _values(traces, tuple) if _is_traced(value)]
        if not len(jaxprs) == len(traces.cache_keys()) <= MOST:  # a thread traces, or too many
            return self._keep_none()
        self._staying = staying
        stay = {id(jaxpr) for jaxpr in jaxprs if not jaxpr.effects}
        caches = traces, lowerings, private.value(private.PRIMITIVES)
        return caches if _only_lowered(lowerings, stay) else self._keep_none()

    def _keep_none(self) -> tuple[Any, ...]:
        self._staying = {}
        return ()

    def _may_stay(self, fun: Any, args: tuple[Any, ...]) -> bool:
        if getattr(fun, "_apply_primitive", False):
            closure = dict(zip(fun.__code__.co_freevars, fun.__closure__, strict=True))
            params = closure["params"].cell_contents
            return self._knows(closure["prim"].cell_contents) and is_plain(tuple(params.values()))
        return _is_defined(fun) and _is_plain_tree(args[0].tree)

    def _knows(self, primitive: Any) -> bool:
        """Return whether a module of jax defines a primitive, not a library with its own rules."""
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
def _hide(caches: tuple[Any, ...]) -> Iterator[None]:
    """Hide these caches from JAX meanwhile."""
    listed = private.value(private.CACHES) if caches else {}
    names = {cache: listed.pop(cache) for cache in caches}
    try:
        yield
    finally:
        listed.update(names)


def _values(cache: Any, kind: type) -> list[Any]:
    """Return what a cache holds: JAX shows only its keys, the garbage collector knows the rest."""
    return [value for value in gc.get_referents(cache) if type(value) is kind]


def _only_lowered(lowerings: Any, stay: set[int]) -> bool:
    """Evict the lowerings of all jaxprs but these (``id()``), and the executables of the rest.

    Returns False if the content of the cache is not known.
    """
    for reference, *_ in lowerings.cache_keys():
        if id(jaxpr := reference()) not in stay and jaxpr is not None:
            lowerings.evict_weakref(jaxpr)
    lowered = _values(lowerings, private.value(private.LOWERED))
    compiled = [lowering for lowering in lowered if "_executable" in vars(lowering)]
    if not len(compiled) == len(lowered) == len(lowerings.cache_keys()):
        return False
    for lowering in lowered:
        lowering._executable = None
    return True


def _is_traced(value: tuple[Any, ...]) -> bool:
    return len(value) == 2 and hasattr(value[0], "jaxpr") and hasattr(value[0], "effects")


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


# Executables that XLA made, returned when an isolated test asks for the same one again.
#
# Caches of JAX are cleared before each test, so JAX traces, lowers and asks for each program again,
# and each is counted. What XLA made for the same module, options and devices is what it would
# make again, and making it is most of what a small program costs.

MOST_KEPT: Final = 1024
"""The most executables that are kept; the least recently used go first."""
LONGEST_MODULE: Final = 1_000_000
"""The longest module that is kept, in characters."""
_CALLS_PYTHON: Final = ("callback", "Partition")
"""Parts of the names of targets that call Python: the module does not say what they call."""


class KeptExecutables:
    """The kept executables of this process; none before the first isolated test."""

    def __init__(self) -> None:
        self.is_on = False
        self._executables: dict[Hashable, tuple[Any, Any]] = {}
        """The backend and the executable by key, the least recently used first."""

    def executable(self, original: Hook, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what ``backend_compile_and_load`` returns for these arguments."""
        __tracebackhide__ = True
        key = self._key(original, args, kwargs)
        # No lock: another thread that comes between two of these lines compiles for itself.
        compiled = self._executables.pop(key, None)
        if compiled is None:
            compiled = args[0] if args else None, original(*args, **kwargs)
        if key is not None:  # the backend is kept alive, since its id is in the key
            self._executables[key] = compiled
            if len(self._executables) > MOST_KEPT:
                with guard():  # another thread may drop it
                    del self._executables[next(iter(self._executables))]
        return compiled[1]

    def _key(self, original: Hook, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
        """Return the key, or None if not to be kept, or if another tool replaced JAX's function."""
        # The fifth is ``host_callbacks``: Python functions that the program calls.
        if not self.is_on or kwargs or len(args) != 5 or args[4] or not _is_of_jax(original):
            return None
        return or_else(None, self._key_of, *args)  # another backend has other types here

    def _key_of(self, backend: Any, module: Any, devices: Any, options: Any, _: Any) -> Hashable:
        text = module.operation.get_asm(enable_debug_info=False)
        if len(text) > LONGEST_MODULE or any(part in text for part in _CALLS_PYTHON):
            return None
        where = tuple(int(device.id) for device in devices)
        digest = sha256(text.encode()).digest()
        return id(backend), where, options.SerializeAsString(), digest


def _is_of_jax(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    return code is not None and code.co_filename.startswith(home())
