"""The keys that programs of JAX are compiled for, and how two of one function differ.

JAX compiles a function again if its arguments have other shapes or types, if they are nested
differently, if a static argument has another value, or if a setting, a device or an option of
``jax.jit`` is another. ``calls`` reads the key of a program from JAX's frames, ``programs`` keeps
the keys of each function, and ``reason`` says here how a key differs from the closest one before,
as ``jax_explain_cache_misses`` would log it.

Nothing here imports jax: types are recognised by their attributes. Values are the user's, and no
code of theirs is run but what JAX runs as well: hashes, and comparisons where these are equal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from functools import cached_property
from inspect import getattr_static
from itertools import islice
from types import GetSetDescriptorType, MethodType
from typing import Any, Final

from msgspec import Struct

from pytest_graphbreak.layers.faults import guard, or_else
from pytest_graphbreak.text.numbers import plural

Pairs = tuple[tuple[str, Any], ...]
"""Names and values."""


class Key(Struct, frozen=True):
    """The key that one program was compiled for: what JAX looks it up by."""

    arguments: Pairs = ()
    """Names and abstract values of the arrays; a name may be empty."""
    tree: Any = None
    """How the arguments are nested, None if that is not known."""
    statics: Pairs = ()
    """Names and values of static arguments; a name may be empty."""
    parameters: Pairs = ()
    """Those of a primitive that is called outside of ``jit``."""
    shardings: tuple[Any, ...] = ()
    """Where the user put each of the arrays, None where that was left to JAX."""
    devices: tuple[str, ...] = ()
    """What the program runs on: ``cpu:0``."""
    options: Pairs = ()
    """Those of ``jax.jit``."""
    settings: Pairs = ()
    """Those of jax that hold while it traces."""

    def placement(self, number: int) -> Any:
        """Return where an array lies, by the user's doing, else by its type."""
        placed = self.shardings[number] if number < len(self.shardings) else None
        return placed or getattr(self.arguments[number][1], "sharding", None)


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
    yield from _statics("the static argument ", before.statics, now.statics)
    yield from _statics("", before.parameters, now.parameters)
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
        # Of one type on one device: then they may be sharded differently.
        if was == words and before.devices == now.devices:
            was, words = (sharding(key.placement(number)) for key in (before, now))
        at = f"at {_short(name) or 'an argument'}"
        if was != words:
            yield f"{at}: {was} before, {words} now"
        elif before.devices == now.devices and not _is_same(old, new):
            yield f"{at}: {abstract(new)}, of another kind than before"


def _statics(what: str, before: Pairs, now: Pairs) -> Iterator[str]:
    old, new = dict(before), dict(now)
    for name in dict.fromkeys((*old, *new)):
        argument = f"{what}{_short(name)}" if name else INSIDE
        if name not in new:
            yield f"{argument} is left out now"
        elif name not in old:
            yield f"{argument} was left out before, is {value(new[name])} now"
        elif not _is_same(old[name], new[name]):
            yield from _static(argument, old[name], new[name], is_named=bool(name))


def _static(argument: str, before: Any, now: Any, *, is_named: bool) -> Iterator[str]:
    """Yield what differs between two values of a static argument.

    Of two objects of one class these are the plain attributes. A value without a name, or one that
    is too long to print, is looked into. All others are printed.
    """
    if fields := [*_fields(before, now)]:
        yield from (f"{argument}.{text}" for text in fields)
        return
    before_text, now_text = value(before), value(now)
    is_cut = type(now) not in _PLAIN and "..." in now_text
    if is_cut or not is_named:
        yield from [*_inside(before, now)] or [f"{INSIDE} is another"]
    elif before_text == now_text:
        yield f"{argument}: another {before_text}, which is not equal"
    else:
        yield f"{argument}: {before_text} before, {now_text} now"


def _fields(before: Any, now: Any) -> Iterator[str]:
    """Yield ``peak: 0.1 before, 0.05 now`` for plain attributes of two objects of one class."""
    if type(before) is not type(now) or issubclass(type(now), Enum):
        return
    old, new = (or_else(None, object.__getattribute__, item, "__dict__") for item in (before, now))
    if not type(old) is type(new) is dict:  # a class may make of ``__dict__`` what it likes
        return
    for name in dict.fromkeys((*new, *old)):
        was, text = old.get(name), new.get(name)
        if type(was) not in _PLAIN or type(text) not in _PLAIN:
            continue
        if name in old and name in new:
            if was != text:
                yield f"{_short(name)}: {value(was)} before, {value(text)} now"
        # The first use of a cached property sets an attribute: the user did not.
        elif type(getattr_static(type(now), name, None)) is not cached_property:
            is_new = name in new
            words = f"was not there before, is {value(text)} now" if is_new else "is not there now"
            yield f"{_short(name)} {words}"


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
    is_sequence = type(before) in (tuple, list) or type(now) in (tuple, list)
    if words[0] != words[1] and not is_sequence:
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
        # The kind is in the names, so that nodes of two kinds have no part in common.
        return {(kind, number): part for number, part in enumerate((static, *item.children()))}
    slots = (vars(kind).get("__slots__", ()) for kind in type(item).__mro__)
    names = [name for group in slots if type(group) is tuple for name in group]
    parts = {name: or_else(None, object.__getattribute__, item, name) for name in names}
    parts |= or_else({}, lambda: dict(object.__getattribute__(item, "__dict__")))
    return {name: part for name, part in parts.items() if not str(name).startswith("_")}


def _pairs(what: str, before: Pairs, now: Pairs, of: str = "") -> Iterator[str]:
    """Yield the settings or options that differ: a key has all of them, or none are known.

    Static arguments may also be left out (``_statics``).
    """
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
    """Return how the arguments are nested differently, by the first of these that says something:
    the arrays that came or went, the nesting as JAX prints it, static values inside of it.
    """
    differently = "arguments put together differently"
    if arrays := [*_other_arrays(before, now)]:
        return f"{differently}: {', '.join(arrays)}"
    was, text = _tree(before.tree), _tree(now.tree)
    if was != text and _is_readable(was) and _is_readable(text):
        return f"{differently}: {was} before, {text} now"
    if parts := [*_inside(before.tree, now.tree)]:
        return "; ".join(parts)
    if was == text:
        return f"{differently}: the same arrays, in which something static is another"
    return f"{differently}: the arrays are the same, the rest not"


def _other_arrays(before: Key, now: Key) -> Iterator[str]:
    """Yield which arrays are there only before or now, by their names, or how many if unnamed."""
    old, new = [[name for name, _ in key.arguments] for key in (before, now)]
    if "" in (*old, *new) and len(old) != len(new):
        yield f"{plural(len(old), 'array')} before, {len(new)} now"
    if added := [name for name in new if name and name not in set(old)]:
        yield f"{_join(added)} not there before"
    if gone := [name for name in old if name and name not in set(new)]:
        yield f"{_join(gone)} not there now"


def _tree(tree: Any) -> str:
    """Return a tree as JAX prints it; its static parts may refuse to be printed."""
    return _short(or_else("a tree of arrays", str, tree))


def _is_readable(tree: str) -> bool:
    return "CustomNode" not in tree and not tree.endswith("...")


# Types, places and values in words.


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
"""The types whose values are printed as Python does it."""


def value(constant: Any, budget: list[int] | None = None) -> str:
    """Return a value in few words: only its type if it may run user code or hold an address.

    ``budget`` is the number of parts that are still looked at. Each has a character at least, so
    of more parts than are shown nothing is seen.
    """
    budget = [LONGEST] if budget is None else budget
    budget[0] -= 1
    if budget[0] < 0:
        return "..."
    kind = type(constant)
    if issubclass(kind, Enum):
        return _short(f"{_name(kind)}.{object.__getattribute__(constant, '_name_')}")
    if kind in _PLAIN:
        return _repr(constant)
    if kind in (tuple, list):
        inner = ", ".join(value(part, budget) for part in constant[:8])
        inner += ", ..." if len(constant) > 8 else ""
        comma = "," if kind is tuple and len(constant) == 1 else ""
        return _short(f"({inner}{comma})" if kind is tuple else f"[{inner}]")
    if kind.__module__ in ("numpy", "numpy.dtypes"):
        return _short(str(constant))
    if kind is MethodType:
        return value(constant.__func__, budget)
    return _short(or_else(None, _name, constant) or f"{_name(kind)} object")


def _name(constant: Any) -> str | None:
    """Return the name of a function or class, or of what wraps one, without user code."""
    if issubclass(type(constant), type):
        return str(type.__dict__["__qualname__"].__get__(constant))
    name = getattr_static(constant, "__qualname__", None)
    if type(name) is GetSetDescriptorType:  # Python's own, of a function
        name = name.__get__(constant)
    return name if type(name) is str else None


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
