"""How the key of a program differs from those that its function was compiled for before.

``programs`` asks for the ``reason`` why JAX compiles a function again, with the ``Key`` of the
program and the keys of earlier ones (``keys``). It is said as ``jax_explain_cache_misses`` would
log it: ``at x: float32[3] before, float32[4] now``.

Static arguments and their nesting are objects of the user's. No code of theirs is run but what JAX
runs as well: hashes, and comparisons where these are equal (``_is_same``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from functools import cached_property
from inspect import getattr_static
from itertools import islice
from typing import Any, Final

from pytest_graphbreak.layers.faults import guard, or_else
from pytest_graphbreak.layers.jax.keys import Key, Pairs
from pytest_graphbreak.layers.jax.values import MOST, PLAIN, abstract, join, sharding, short, value
from pytest_graphbreak.text.numbers import plural

MOST_PARTS: Final = 10_000
"""The most parts of two static values that are compared."""
DEEPEST: Final = 40
"""The deepest nesting of these parts that is looked into."""
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
        yield f"for {join(before.devices)} before, for {join(now.devices)} now"


def _pairs(what: str, before: Pairs, now: Pairs, of: str = "") -> Iterator[str]:
    """Yield the settings or options that differ: a key has all of them, or none are known."""
    old = dict(before)
    for name, new in now:
        if name in old and not _is_same(old[name], new):
            before_text, now_text = value(old[name]), value(new)
            words = (
                f"{before_text} before, {now_text} now"
                if before_text != now_text
                else "another than before"
            )
            yield f"{what}{short(name)}{of}: {words}"


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


# Arrays, and how they are nested.


def _arguments(before: Key, now: Key) -> Iterator[str]:
    """Yield the arrays that differ, by type, or by where the user or JAX put them."""
    if len(before.arguments) != len(now.arguments):
        yield f"{len(before.arguments)} arrays before, {len(now.arguments)} now"
        return
    is_of_same_devices = before.devices == now.devices
    for number, ((_, old), (name, new)) in enumerate(
        zip(before.arguments, now.arguments, strict=True)
    ):
        old_text, new_text = abstract(old), abstract(new)
        if old_text == new_text and is_of_same_devices:  # they may be sharded differently
            old_text, new_text = (sharding(key.placement(number)) for key in (before, now))
        at = f"at {short(name) or 'an argument'}"
        if old_text != new_text:
            yield f"{at}: {old_text} before, {new_text} now"
        elif is_of_same_devices and not _is_same(old, new):
            yield f"{at}: {abstract(new)}, of another kind than before"


def _trees(before: Key, now: Key) -> str:
    """Return how the arguments are nested differently, by the first of these that says something:
    the arrays that came or went, the nesting as JAX prints it, static values inside of it.
    """
    differently = "arguments put together differently"
    if arrays := [*_other_arrays(before, now)]:
        return f"{differently}: {', '.join(arrays)}"
    old_text, new_text = _tree(before.tree), _tree(now.tree)
    if old_text != new_text and _is_readable(old_text) and _is_readable(new_text):
        return f"{differently}: {old_text} before, {new_text} now"
    if parts := [*_inside(before.tree, now.tree)]:
        return "; ".join(parts)
    if old_text == new_text:
        return f"{differently}: the same arrays, in which something static is another"
    return f"{differently}: the arrays are the same, the rest not"


def _other_arrays(before: Key, now: Key) -> Iterator[str]:
    """Yield which arrays are there only before or now, by their names, or how many if unnamed."""
    old, new = [[name for name, _ in key.arguments] for key in (before, now)]
    if "" in (*old, *new) and len(old) != len(new):
        yield f"{plural(len(old), 'array')} before, {len(new)} now"
    if added := [name for name in new if name and name not in set(old)]:
        yield f"{join(added)} not there before"
    if gone := [name for name in old if name and name not in set(new)]:
        yield f"{join(gone)} not there now"


def _tree(tree: Any) -> str:
    """Return a tree as JAX prints it; its static parts may refuse to be printed."""
    return short(or_else("a tree of arrays", str, tree))


def _is_readable(tree: str) -> bool:
    """Return whether a printed tree is whole: ``PyTreeDef({'w': *})``, but no ``CustomNode``."""
    return "CustomNode" not in tree and not tree.endswith("...")


# Static values: whole arguments, and what is inside of them.


def _statics(what: str, before: Pairs, now: Pairs) -> Iterator[str]:
    """Yield the static arguments that differ, or were left out in one of the two calls."""
    old, new = dict(before), dict(now)
    for name in dict.fromkeys((*old, *new)):
        argument = f"{what}{short(name)}" if name else INSIDE
        if name not in new:
            yield f"{argument} is left out now"
        elif name not in old:
            yield f"{argument} was left out before, is {value(new[name])} now"
        elif not _is_same(old[name], new[name]):
            yield from _static(argument, old[name], new[name], is_named=bool(name))


def _static(argument: str, before: Any, now: Any, *, is_named: bool) -> Iterator[str]:
    """Yield what differs between two values of a static argument: the first of these that holds.

    ::

        n.peak: 0.1 before, 0.05 now    objects of one class, with a plain attribute that differs
        (inside): 1 before, 2 now       a value without a name, or too long to show: its parts
        (inside) is another             these differ in no part that can be shown
        n: another Config object, ...   both are shown alike
        n: 2 before, 3 now              all others

    where ``(inside)`` is ``INSIDE``.
    """
    if fields := [*_fields(before, now)]:
        yield from (f"{argument}.{text}" for text in fields)
        return
    before_text, now_text = value(before), value(now)
    is_cut = type(now) not in PLAIN and "..." in now_text  # a str may have dots of its own
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
    attributes = or_else(None, object.__getattribute__, before, "__dict__")
    now_attributes = or_else(None, object.__getattribute__, now, "__dict__")
    # A class may make of ``__dict__`` what it likes.
    if not type(attributes) is type(now_attributes) is dict:
        return
    for name in dict.fromkeys((*now_attributes, *attributes)):
        old, new = attributes.get(name), now_attributes.get(name)
        if type(old) not in PLAIN or type(new) not in PLAIN:
            continue
        if name in attributes and name in now_attributes:
            if old != new:
                yield f"{short(name)}: {value(old)} before, {value(new)} now"
        # The first use of a cached property sets an attribute: the user did not.
        elif type(getattr_static(type(now), name, None)) is not cached_property:
            is_new = name in now_attributes
            words = f"was not there before, is {value(new)} now" if is_new else "is not there now"
            yield f"{short(name)} {words}"


def _inside(before: Any, now: Any) -> Iterator[str]:
    """Yield the plain values that differ inside of something static."""
    leaves = _leaves(before, now, [MOST_PARTS])
    for old_text, new_text in dict.fromkeys(islice(leaves, MOST)):
        yield f"{INSIDE}: {old_text} before, {new_text} now"


def _leaves(before: Any, now: Any, budget: list[int], depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the texts that differ at the same place of two structures, without user code.

    Of ``(1, ["fast"])`` and ``(1, ["slow"])`` these are ``'fast'`` and ``'slow'``. ``budget`` is
    the number of parts that are still looked at, in a list that all calls for two values share.
    """
    budget[0] -= 1
    if before is now or budget[0] < 0 or depth > DEEPEST:
        return
    texts = value(before), value(now)
    is_sequence = type(before) in (tuple, list) or type(now) in (tuple, list)
    if texts[0] != texts[1] and not is_sequence:  # of a sequence, the parts say it
        yield texts
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
