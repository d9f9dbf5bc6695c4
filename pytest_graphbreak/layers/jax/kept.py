"""Executables that XLA made, handed back where an isolated test asks for the same one again.

Caches of JAX are cleared before each test, so JAX traces, lowers and asks for each program anew,
and each is counted. What XLA made for the same module, options and devices is what it would
make again, and making it is most of what a small program costs.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from hashlib import sha256
from typing import Any, Final

from pytest_graphbreak.layers.hooks import Hook
from pytest_graphbreak.layers.jax.calls import home

MOST: Final = 1024
"""Executables; those not used longest go first."""
LONGEST: Final = 1_000_000
"""Characters of a module that is kept."""
_FOREIGN: Final = ("callback", "Partition")
"""Parts of the names of targets that call Python: what they call is not told by the module."""


class KeptExecutables:
    """Those of this process; nothing is kept before the first test that is isolated."""

    def __init__(self) -> None:
        self.is_on = False
        self.in_child()
        self._found: OrderedDict[Hashable, tuple[Any, Any]] = OrderedDict()

    def in_child(self) -> None:
        """After a fork: another thread of the parent may have held the lock."""
        self._lock = threading.Lock()

    def made(self, original: Hook, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What ``backend_compile_and_load`` returns for these arguments."""
        __tracebackhide__ = True
        key = self._key(original, args, kwargs)
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                return self._found[key][1]
        made = original(*args, **kwargs)
        if key is not None:
            with self._lock:  # the backend is held, since its number stands in the key
                self._found[key] = args[0], made
                if len(self._found) > MOST:
                    self._found.popitem(last=False)
        return made

    def _key(self, original: Hook, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
        """None for what is not kept, and where another tool stands in place of JAX's function."""
        if not self.is_on or kwargs or len(args) != 5 or args[4] or not _is_of_jax(original):
            return None
        backend, module, devices, options, _ = args
        try:
            text = module.operation.get_asm(enable_debug_info=False)
            if len(text) > LONGEST or any(part in text for part in _FOREIGN):
                return None
            where = tuple(int(device.id) for device in devices)
            digest = sha256(text.encode()).digest()
            return id(backend), where, options.SerializeAsString(), digest
        except (AttributeError, TypeError, ValueError):  # another backend's kinds of these
            return None


def _is_of_jax(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    return code is not None and code.co_filename.startswith(home())
