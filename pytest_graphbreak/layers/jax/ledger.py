"""What was compiled so far, function by function: whether a program is the first of its own."""

from __future__ import annotations

import threading
import weakref
from contextlib import suppress
from itertools import product
from types import MethodType
from typing import Any, get_args

from pytest_graphbreak.layers.jax import keys
from pytest_graphbreak.layers.jax.calls import JaxCall, definition
from pytest_graphbreak.layers.jax.events import Kind
from pytest_graphbreak.layers.jax.keys import Key

Identity = tuple[Any, ...]


class FunctionLedger:
    """The functions of this process since caches were last cleared, of all threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.clear()

    def clear(self) -> None:
        self._keys: dict[Identity, list[Key]] = {}
        self._alive: dict[Identity, weakref.ref[Any]] = {}
        self._made: dict[Identity, str] = {}

    def in_child(self) -> None:
        """After a fork: another thread of the parent may have held the lock."""
        self._lock = threading.RLock()

    def note(self, call: JaxCall, on_device: bool = True) -> str:
        """Why a function is compiled again; empty if it is the first time.

        The device and the host are counted apart: a function whose golden result the host
        computed before is compiled for the device for the first time.
        """
        with self._lock:
            return self._note(call, on_device)

    def _note(self, call: JaxCall, on_device: bool) -> str:
        identity = (*self._identity(call), call.kind, on_device)
        known = self._keys.setdefault(identity, [])
        why = keys.reason(call.key, known) if known else self._anew(call, on_device)
        known.append(call.key)
        return why

    def _identity(self, call: JaxCall) -> Identity:
        """What JAX knows a function by: itself. Of a backward pass only its source is known."""
        fun = call.fun
        if fun is None:
            return ("source", call.source)
        identity = ("function", id(fun))
        alive = self._alive.get(identity)
        if alive is not None and alive() is not fun:  # its number was given to another
            for kind, here in product(get_args(Kind), (True, False)):
                self._keys.pop((*identity, kind, here), None)
        with suppress(TypeError):  # an object without weak references
            self._alive[identity] = weakref.ref(fun)
        return identity

    def _anew(self, call: JaxCall, on_device: bool) -> str:
        """The same code, called from the same line, and another function to JAX."""
        if call.fun is None or call.caller is None:
            return ""
        place = (definition(call.fun), call.caller.file, call.caller.line, call.kind, on_device)
        name = str(getattr(call.fun, "__name__", type(call.fun).__name__))
        if place not in self._made:
            self._made[place] = name
            return ""
        if isinstance(call.fun, MethodType):
            owner = type(call.fun.__self__).__qualname__
            return (
                f"{name} is a method of another {owner}, or was bound anew: "
                "jax.jit compiles for each object"
            )
        return (
            f"{name} is a function made anew at each call: "
            "jax.jit knows functions by identity, not by their code"
        )
