"""The programs that were compiled so far, by function, and how two of one function differ.

JAX compiles a function again if its arguments have other shapes or types, if they are nested
differently, if a static argument has another value, or if a setting, a device or an option of
``jax.jit`` is another. The differences to the closest program before are reported, as
``jax_explain_cache_misses`` would log them.

Nothing here imports jax: types are recognised by their attributes.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from enum import Enum
from itertools import islice, product
from types import MethodType
from typing import Any, Final, get_args

from pytest_graphbreak.layers.faults import guard, or_else
from pytest_graphbreak.layers.jax.calls import JaxCall, Key, Kind, Pairs
from pytest_graphbreak.layers.jax.functions import definition, parameters
from pytest_graphbreak.text.numbers import plural

Identity = tuple[Any, ...]
"""What programs are compared by: ``("function", id, kind, on_device)``, for a backward pass
``("source", text, kind, on_device)``; for an operation outside of ``jit`` ``("eager", name, file,
line, on_device)``, and ``("parameters", ...)`` for what that was made with."""


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
        is_known, why = self._difference(identity, call.key)
        return why if is_known else self._why_new_function(call, on_device)

    def note_eager(self, name: str, call: JaxCall, *, on_device: bool) -> str:
        """Return why an operation outside of ``jit`` is compiled again for one line; else empty."""
        if call.caller is None:
            return ""
        identity = (name, call.caller.file, call.caller.line, on_device)
        made_with = Key(statics=parameters(call.fun))
        whys = [
            self._difference(("eager", *identity), call.key)[1],
            self._difference(("parameters", *identity), made_with)[1],
        ]
        why = next((why for why in whys if why != FORGOTTEN), "")
        return why.replace("the static argument ", "")  # parameters were compared as such

    def _difference(self, identity: Identity, key: Key) -> tuple[bool, str]:
        """Return whether a program is not the identity's first, and how it differs from before.

        Its key is noted first: of two threads one comes before the other, and neither waits.
        """
        keys = self._keys.setdefault(identity, [])
        keys.append(key)
        earlier = keys[: next(number for number, noted in enumerate(keys) if noted is key)]
        return bool(earlier), reason(key, earlier) if earlier else ""

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


# How two keys of one function differ.

MOST: Final = 3
"""The most differences that a reason lists; the rest are counted."""
LONGEST: Final = 80
"""The longest value, in characters."""

_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]{1,16}")
"""An address, which is another one in each run."""

MOST_PARTS: Final = 10_000
DEEPEST: Final = 40
"""How much of two static values is compared: parts, and how deep these are nested."""
INSIDE: Final = "something static in the arguments"
"""What is said to differ if it has no name."""

FORGOTTEN: Final = (
    "nothing that is known differs from before: the program may have been forgotten "
    "(jax.clear_caches(), or a cache that was full)"
)


def reason(key: Key, earlier: Sequence[Key]) -> str:
    """Return what differs from the closest program before; of equally close ones, the latest."""
    differing = ([*dict.fromkeys(differences(before, key))] for before in reversed(earlier))
    closest = min(differing, key=len)
    if not closest:
        return FORGOTTEN
    if len(closest) > MOST:
        return f"{'; '.join(closest[:MOST])}; and {len(closest) - MOST} more"
    return "; ".join(closest)


def differences(before: Key, now: Key) -> Iterator[str]:
    """Yield ``at x: float32[3] before, float32[4] now``, and so on."""
    yield from _statics(before.statics, now.statics)
    yield from _pairs("the setting ", before.settings, now.settings)
    yield from _pairs("the option ", before.options, now.options, " of jax.jit")
    if not _is_same(before.tree, now.tree):
        yield _trees(before, now)
    else:
        yield from _arguments(before, now)
    if before.devices != now.devices:
        yield f"for {_join(before.devices)} before, for {_join(now.devices)} now"


def _arguments(before: Key, now: Key) -> Iterator[str]:
    """Yield the arrays that differ, by type, or by where the user or JAX put them."""
    if len(before.arguments) != len(now.arguments):
        yield f"{len(before.arguments)} arrays before, {len(now.arguments)} now"
        return
    for number, ((_, old), (name, new)) in enumerate(
        zip(before.arguments, now.arguments, strict=True)
    ):
        was, words = abstract(old), abstract(new)
        if was == words and before.devices == now.devices:
            was, words = (sharding(key.placement(number)) for key in (before, now))
        at = f"at {_short(name) or 'an argument'}"
        if was != words:
            yield f"{at}: {was} before, {words} now"
        elif before.devices == now.devices and not _is_same(old, new):
            yield f"{at}: {abstract(new)}, of another kind than before"


def _statics(before: Pairs, now: Pairs) -> Iterator[str]:
    old, new = dict(before), dict(now)
    for name in dict.fromkeys((*old, *new)):
        argument = f"the static argument {_short(name)}" if name else INSIDE
        if name not in new:
            yield f"{argument} is left out now"
        elif name not in old:
            yield f"{argument} was left out before, is {value(new[name])} now"
        elif not _is_same(old[name], new[name]):
            if fields := [*_fields(old[name], new[name])]:
                yield from (f"{argument}.{text}" for text in fields)
                continue
            before_text, now_text = value(old[name]), value(new[name])
            if not name or (type(new[name]) not in _PLAIN and "..." in now_text):
                yield from [*_inside(old[name], new[name])] or [f"{INSIDE} is another"]
            elif before_text == now_text:
                yield f"{argument}: another {before_text}, which is not equal"
            else:
                yield f"{argument}: {before_text} before, {now_text} now"


def _fields(before: Any, now: Any) -> Iterator[str]:
    """Yield ``peak: 0.1 before, 0.05 now`` for plain attributes of two objects of one class."""
    if type(before) is not type(now) or isinstance(now, Enum):
        return
    try:
        old, new = (object.__getattribute__(item, "__dict__") for item in (before, now))
    except AttributeError:
        return
    for name, text in new.items() if type(old) is type(new) is dict else ():
        if type(old.get(name)) in _PLAIN and type(text) in _PLAIN and old.get(name) != text:
            yield f"{_short(name)}: {value(old.get(name))} before, {value(text)} now"


def _inside(before: Any, now: Any) -> Iterator[str]:
    """Yield the plain values that differ inside of something static."""
    for was, text in dict.fromkeys(islice(_leaves(before, now, [MOST_PARTS]), MOST)):
        yield f"{INSIDE}: {was} before, {text} now"


def _leaves(before: Any, now: Any, budget: list[int], depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the values that differ at the same place of two structures, without user code.

    ``budget`` is the number of parts that are still looked at.
    """
    budget[0] -= 1
    if before is now or budget[0] < 0 or depth > DEEPEST:
        return
    words = value(before), value(now)
    if words[0] != words[1] and not {type(before), type(now)} & {tuple, list}:
        yield words
    elif type(before) is type(now):
        old, new = _parts(before), _parts(now)
        if old.keys() == new.keys():
            for name, part in new.items():
                yield from _leaves(old[name], part, budget, depth + 1)


def _parts(item: Any) -> dict[Any, Any]:
    """Return the parts of a container, a tree of JAX or an object; empty for anything else.

    Private attributes are left out, which may be hashes and caches.
    """
    if type(item) in (tuple, list):
        return dict(enumerate(item))
    if type(item) is dict:
        return item
    if type(item).__name__ == "PyTreeDef":
        kind, static = item.node_data() or (None, None)
        return {(kind, number): part for number, part in enumerate((static, *item.children()))}
    slots = (vars(kind).get("__slots__", ()) for kind in type(item).__mro__)
    names = [name for group in slots if type(group) is tuple for name in group]
    parts = {name: or_else(None, object.__getattribute__, item, name) for name in names}
    parts |= or_else({}, lambda: dict(object.__getattribute__(item, "__dict__")))
    return {name: part for name, part in parts.items() if not str(name).startswith("_")}


def _pairs(what: str, before: Pairs, now: Pairs, of: str = "") -> Iterator[str]:
    old = dict(before)
    for name, new in now:
        if name in old and not _is_same(old[name], new):
            before_text, now_text = value(old[name]), value(new)
            words = (
                f"{before_text} before, {now_text} now"
                if before_text != now_text
                else "another than before"
            )
            yield f"{what}{_short(name)}{of}: {words}"


def _trees(before: Key, now: Key) -> str:
    """Return how the arguments are nested differently: by which arrays, else in JAX's notation."""
    old, new = [[name for name, _ in key.arguments] for key in (before, now)]
    words = []
    if "" in (*old, *new) and len(old) != len(new):
        words.append(f"{plural(len(old), 'array')} before, {len(new)} now")
    if added := [name for name in new if name and name not in set(old)]:
        words.append(f"{_join(added)} not there before")
    if gone := [name for name in old if name and name not in set(new)]:
        words.append(f"{_join(gone)} not there now")
    if not words:
        was, text = _tree(before.tree), _tree(now.tree)
        is_readable = not any("CustomNode" in part or part.endswith("...") for part in (was, text))
        if was != text and is_readable:
            words = [f"{was} before, {text} now"]
        elif parts := [*_inside(before.tree, now.tree)]:
            return "; ".join(parts)
        elif was == text:
            words = ["the same arrays, in which something static is another"]
        else:
            words = ["the arrays are the same, the rest not"]
    return f"arguments put together differently: {', '.join(words)}"


def _tree(tree: Any) -> str:
    """Return a tree as JAX prints it; its static parts may refuse to be printed."""
    return _short(or_else("a tree of arrays", str, tree))


def abstract(aval: Any) -> str:
    """Return ``float32[3]``; a weak type is that of a Python number."""
    shape, dtype = getattr(aval, "shape", None), getattr(aval, "dtype", None)
    if shape is None or dtype is None:
        return _short(str(aval))
    words = f"{getattr(dtype, 'name', dtype)}[{','.join(map(str, shape))}]"
    return f"{words} of weak type" if getattr(aval, "weak_type", False) else words


def sharding(layout: Any) -> str:
    """Return where an array lies, in few words."""
    if layout is None:
        return "on no device of its own"
    spec, mesh = getattr(layout, "spec", None), getattr(layout, "mesh", None)
    if spec is not None and mesh is not None:
        axes = ", ".join(f"{name}={size}" for name, size in dict(mesh.shape).items())
        if not axes:
            return "not sharded"
        if not any(spec):
            return _short(f"replicated over {axes}")
        return _short(f"sharded {tuple(spec)} over {axes}")
    devices = getattr(layout, "device_set", None)
    if devices:
        return f"on {_join(sorted(map(_device, devices)))}"
    return _short(str(layout))


def _device(device: Any) -> str:
    return f"{getattr(device, 'platform', '?')}:{getattr(device, 'id', '?')}"


_PLAIN: Final = (bool, int, float, complex, str, bytes, type(None))


def value(constant: Any) -> str:
    """Return a value in few words: only its type if it may run user code or hold an address."""
    kind = type(constant)
    if isinstance(constant, Enum):
        return _short(f"{kind.__qualname__}.{constant._name_}")
    if kind in _PLAIN:
        return _repr(constant)
    if kind in (tuple, list):
        inner = ", ".join(map(value, constant[:8])) + (", ..." if len(constant) > 8 else "")
        comma = "," if kind is tuple and len(constant) == 1 else ""
        return _short(f"({inner}{comma})" if kind is tuple else f"[{inner}]")
    if kind.__module__ in ("numpy", "numpy.dtypes"):
        return _short(str(constant))
    name = or_else(None, getattr, constant, "__qualname__", None)
    return _short(name if isinstance(name, str) else f"{kind.__qualname__} object")


def _repr(constant: Any) -> str:
    """Return the start of a value as Python prints it."""
    try:
        return _short(repr(constant[:LONGEST] if isinstance(constant, (str, bytes)) else constant))
    except ValueError:  # a number of more digits than Python prints
        return "a large int"


def _is_same(before: Any, now: Any) -> bool:
    """Return whether JAX takes two values for one.

    Where hashes differ it does not compare, nor do we: a comparison of the user's may compute, and
    compile, whatever it likes.
    """
    if before is now:
        return True
    with guard():  # from the user's own hash
        if hash(before) != hash(now):
            return False
    return or_else(False, lambda: bool(before == now))


def _join(names: Iterable[str]) -> str:
    shortened = [_short(name) for name in names]
    if len(shortened) > MOST + 1:
        return f"{', '.join(shortened[:MOST])} and {len(shortened) - MOST} more"
    return ", ".join(shortened) or "nothing"


def _short(text: str) -> str:
    text = _ADDRESS.sub("", " ".join(text.split()))
    text = "".join(char if char.isprintable() else "?" for char in text[: LONGEST + 1])
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
