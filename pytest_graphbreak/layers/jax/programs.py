"""The programs that were compiled so far, by function, to tell which are compiled again."""

from __future__ import annotations

import re
import threading
import weakref
from collections import OrderedDict
from collections.abc import Hashable
from contextlib import suppress
from hashlib import sha256
from itertools import product
from types import MethodType
from typing import Any, Final, get_args

from pytest_graphbreak.layers.hooks import Hook
from pytest_graphbreak.layers.jax import keys
from pytest_graphbreak.layers.jax.calls import JaxCall, definition, home, parameters
from pytest_graphbreak.layers.jax.events import Kind
from pytest_graphbreak.layers.jax.keys import Key

Identity = tuple[Any, ...]


class FunctionLedger:
    """The functions compiled in this process since caches were last cleared, of all threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.clear()

    def clear(self) -> None:
        self._keys: dict[Identity, list[Key]] = {}
        self._alive: dict[Identity, weakref.ref[Any]] = {}
        self._made: dict[Identity, str] = {}
        self._ahead: dict[tuple[str, str], tuple[str, ...]] = {}

    def after_fork(self) -> None:
        """Replace the lock after a fork: another thread of the parent may have held it."""
        self._lock = threading.RLock()

    def note(self, call: JaxCall, on_device: bool = True) -> str:
        """Return why a function is compiled again; empty if it is the first time.

        The device and the host are counted apart: a function whose golden result the host
        computed before is compiled for the device for the first time.
        """
        with self._lock:
            identity = (*self._identity(call), call.kind, on_device)
            is_known = identity in self._keys
            why = self._difference(identity, call.key)
            return why if is_known else self._why_new_function(call, on_device)

    def note_eager(self, name: str, call: JaxCall, on_device: bool) -> str:
        """Return why an operation outside of ``jit`` is compiled again for one line; else empty."""
        if call.caller is None:
            return ""
        identity = (name, call.caller.file, call.caller.line, on_device)
        made_with = Key(statics=parameters(call.fun))
        with self._lock:
            whys = [self._difference(("eager", *identity), call.key)]
            whys.append(self._difference(("parameters", *identity), made_with))
        why = next((why for why in whys if why != keys.FORGOTTEN), "")
        return why.replace("the static argument ", "")

    def note_ahead(self, name: str, call: JaxCall, module: Any) -> str:
        """Return how the arguments of a program differ from the one compiled ahead before it."""
        if call.caller is None:
            return ""
        now = arguments(module)
        with self._lock:
            before = self._ahead.get((name, call.caller.file))
            self._ahead[name, call.caller.file] = now
        pairs = zip(before or now, now, strict=False)
        changed = ((at, *pair) for at, pair in enumerate(pairs) if pair[0] != pair[1])
        return next((f"argument {at} is {was} before, {now} now" for at, was, now in changed), "")

    def _difference(self, identity: Identity, key: Key) -> str:
        """Return how a program differs from the closest before; empty for an identity's first."""
        earlier = self._keys.setdefault(identity, [])
        why = keys.reason(key, earlier) if earlier else ""
        earlier.append(key)
        return why

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
        if place not in self._made:
            self._made[place] = name
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


_SHARDED: Final = ("sdy.sharding", "mhlo.sharding")
_SPEC: Final = re.compile(r"^#sdy\.sharding<@\w{1,100}, (.{1,200})>$")


def arguments(module: Any) -> tuple[str, ...]:
    """Return the type of each argument of a program, with its sharding if it has one."""
    for operation in module.body.operations:
        if str(operation.attributes["sym_name"]).strip('"') == "main":
            attributes = [
                {attribute.name: attribute.attr for attribute in argument}
                for argument in operation.arg_attrs
            ]
            return tuple(map(_argument, operation.type.inputs, attributes))
    return ()


def _argument(kind: Any, attributes: dict[str, Any]) -> str:
    text = str(kind).removeprefix("tensor<").removesuffix(">")
    sharding = next((str(attributes[name]) for name in _SHARDED if name in attributes), "")
    spec = _SPEC.match(sharding)
    words = spec[1] if spec else sharding
    return f"{text} sharded {words}" if words else f"{text} without a sharding"


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
        self.after_fork()
        self._found: OrderedDict[Hashable, tuple[Any, Any]] = OrderedDict()

    def after_fork(self) -> None:
        """Replace the lock after a fork: another thread of the parent may have held it."""
        self._lock = threading.Lock()

    def executable(self, original: Hook, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what ``backend_compile_and_load`` returns for these arguments."""
        __tracebackhide__ = True
        key = self._key(original, args, kwargs)
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                return self._found[key][1]
        executable = original(*args, **kwargs)
        if key is not None:
            with self._lock:  # the backend is kept alive, since its id is in the key
                self._found[key] = args[0], executable
                if len(self._found) > MOST_KEPT:
                    self._found.popitem(last=False)
        return executable

    def _key(self, original: Hook, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
        """Return the key, or None if not to be kept, or if another tool replaced JAX's function."""
        if not self.is_on or kwargs or len(args) != 5 or args[4] or not _is_of_jax(original):
            return None
        backend, module, devices, options, _ = args
        try:
            text = module.operation.get_asm(enable_debug_info=False)
            if len(text) > LONGEST_MODULE or any(part in text for part in _CALLS_PYTHON):
                return None
            where = tuple(int(device.id) for device in devices)
            digest = sha256(text.encode()).digest()
            return id(backend), where, options.SerializeAsString(), digest
        except (AttributeError, TypeError, ValueError):  # another backend has other types here
            return None


def _is_of_jax(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    return code is not None and code.co_filename.startswith(home())
