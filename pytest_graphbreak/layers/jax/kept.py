"""Executables that XLA made, handed back when an isolated test asks for the same one again.

Caches of JAX are cleared before each test (``traces``), so JAX traces, lowers and asks for each
program again, and each is counted. What XLA made for the same module, options and devices is what
it would make again, and making it is most of what a small program costs. So ``sensors`` asks here
where JAX would call XLA, by ``backend_compile_and_load`` of jax/_src/compiler.py.
"""

from __future__ import annotations

from collections.abc import Hashable
from hashlib import sha256
from typing import Any, Final

from pytest_graphbreak.layers.faults import guard, or_else
from pytest_graphbreak.layers.hooks import Hook
from pytest_graphbreak.layers.jax.functions import home

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
        """Return the key; None if it is not to be kept, or if a tool replaced JAX's function."""
        # JAX calls it with backend, module, devices, options and the Python functions that the
        # module calls. Only a module that calls none is kept.
        is_known = not kwargs and len(args) == 5 and not args[4]
        if not (self.is_on and is_known and _is_of_jax(original)):
            return None
        return or_else(None, self._key_of, *args[:4])  # another backend has other types here

    def _key_of(self, backend: Any, module: Any, devices: Any, options: Any) -> Hashable:
        text = module.operation.get_asm(enable_debug_info=False)
        if len(text) > LONGEST_MODULE or any(part in text for part in _CALLS_PYTHON):
            return None
        where = tuple(int(device.id) for device in devices)
        digest = sha256(text.encode()).digest()
        return id(backend), where, options.SerializeAsString(), digest


def _is_of_jax(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    return code is not None and code.co_filename.startswith(home())
