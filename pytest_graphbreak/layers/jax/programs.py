"""The programs that were compiled so far, by function, and why one is compiled again.

``sensors`` asks here for each program, with the call of JAX that it is compiled for (``calls``):
whether the function had one before, and how its key differs (``differences``), or whether it is the
same code as a function object made anew.
"""

from __future__ import annotations

import weakref
from contextlib import suppress
from itertools import product
from types import MethodType
from typing import Any, get_args

from pytest_graphbreak.layers.jax.calls import JaxCall, Kind
from pytest_graphbreak.layers.jax.differences import FORGOTTEN, reason
from pytest_graphbreak.layers.jax.functions import definition, parameters
from pytest_graphbreak.layers.jax.keys import Key

Identity = tuple[Any, ...]
"""Only programs of one identity are compared with each other::

    ("function", id(fun), kind, on_device)            a function
    ("source", "f at model.py:12", kind, on_device)   a backward pass: JAX has only its source
    ("eager", "sin", file, line, on_device)           an operation outside of ``jit``
    ("parameters", "sin", file, line, on_device)      what such an operation was made with
"""


class FunctionLedger:
    """The functions compiled in this process since caches were last cleared, of all threads."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._keys: dict[Identity, list[Key]] = {}
        """What each function was compiled for, in order."""
        self._alive: dict[Identity, weakref.ref[Any]] = {}
        """The functions by what they are known by: an id may be used again."""
        self._first_at: dict[Identity, object] = {}
        """A token of the first function that was made of some code, and called from one line."""

    def note(self, call: JaxCall, *, on_device: bool = True) -> str:
        """Return why a function is compiled again; empty if it is the first time.

        The device and the host are counted apart: a function whose golden result the host
        computed before is compiled for the device for the first time.
        """
        identity = (*self._identity(call), call.kind, on_device)
        why = self._why_again(identity, call.key)
        return self._why_new_function(call, on_device) if why is None else why

    def note_eager(self, name: str, call: JaxCall, *, on_device: bool) -> str:
        """Return why an operation outside of ``jit`` is compiled again for one line; else empty."""
        if call.caller is None:
            return ""
        identity = (name, call.caller.file, call.caller.line, on_device)
        made_with = Key(parameters=parameters(call.fun))
        # None for the first of an identity; ``FORGOTTEN`` where the other of the two may say more.
        whys = [
            self._why_again(("eager", *identity), call.key),
            self._why_again(("parameters", *identity), made_with),
        ]
        return next((why for why in whys if why != FORGOTTEN), None) or ""

    def _why_again(self, identity: Identity, key: Key) -> str | None:
        """Return how a program differs from those before of its identity; None for the first.

        Its key is noted first: of two threads one comes before the other, and neither waits.
        """
        keys = self._keys.setdefault(identity, [])
        keys.append(key)
        earlier = keys[: next(number for number, noted in enumerate(keys) if noted is key)]
        return reason(key, earlier) if earlier else None

    def _identity(self, call: JaxCall) -> Identity:
        """Return what JAX knows a function by: the object, or the source of a backward pass."""
        fun = call.fun
        if fun is None:
            return ("source", call.source)
        identity = ("function", id(fun))
        alive = self._alive.get(identity)
        if alive is not None and alive() is not fun:  # its id was reused for another object
            for kind, here in product(get_args(Kind), (True, False)):
                self._keys.pop((*identity, kind, here), None)
        with suppress(TypeError):  # an object without weak references
            self._alive[identity] = weakref.ref(fun)
        return identity

    def _why_new_function(self, call: JaxCall, on_device: bool) -> str:
        """Return why the same code, called from the same line, is another function to JAX."""
        if call.fun is None or call.caller is None:
            return ""
        place = (definition(call.fun), call.caller.file, call.caller.line, call.kind, on_device)
        name = str(getattr(call.fun, "__name__", type(call.fun).__name__))
        mine = object()
        if self._first_at.setdefault(place, mine) is mine:  # one step: threads do not wait
            return ""
        if isinstance(call.fun, MethodType):
            owner = type(call.fun.__self__).__qualname__
            return (
                f"{name} is a method of another {owner}, or was bound again: "
                "jax.jit compiles for each object"
            )
        return (
            f"{name} is a new function object at each call: "
            "jax.jit knows functions by identity, not by their code"
        )
