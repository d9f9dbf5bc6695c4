"""The keys that JAX compiles programs for, and how two keys of one function differ.

JAX compiles a function again if its arguments have other shapes or types, if they are nested
differently, if a static argument has another value, or if a setting, a device or an option of
``jax.jit`` is another. The differences to the closest program before are reported, as
``jax_explain_cache_misses`` would log them.

Nothing here imports jax: types are recognised by their attributes.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import Any, Final

MOST: Final = 3
"""The most differences that a reason lists; the rest are counted."""
LONGEST: Final = 80
"""The longest value, in characters."""

_ARGUMENT: Final = re.compile(r"[.\[]")
"""The end of an argument's name in the name of an array within it."""
_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]{1,16}")
"""An address, which is another one in each run."""

FORGOTTEN: Final = (
    "nothing differs from before: the program had been forgotten "
    "(jax.clear_caches(), or a cache that was full)"
)


Pairs = tuple[tuple[str, Any], ...]
"""Names and values."""


@dataclass(frozen=True, slots=True)
class Key:
    """The key that one program was compiled for.

    ``arguments`` are names and abstract values, ``statics`` names and values, ``options`` those of
    ``jax.jit``, ``settings`` those of jax that hold while it traces. ``tree`` is how the arguments
    are nested, None if that is not known.
    """

    arguments: Pairs = ()
    tree: Any = None
    statics: Pairs = ()
    shardings: tuple[Any, ...] = ()
    devices: tuple[str, ...] = ()
    options: Pairs = ()
    settings: Pairs = ()


def reason(key: Key, earlier: Sequence[Key]) -> str:
    """Return what differs from the closest program before; of equally close ones, the latest."""
    compared = [(list(differences(before, key)), before) for before in reversed(earlier)]
    closest, _ = min(compared, key=lambda item: (len(item[0]), _far(item[1], key)))
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
    moved = dict(_movements(before, now))
    if not _is_same(before.tree, now.tree):
        yield _trees(before, now)
    else:
        yield from _arguments(before.arguments, now.arguments, moved)
    if before.devices != now.devices:
        yield f"for {_join(before.devices)} before, for {_join(now.devices)} now"
    yield from moved.values()


def _far(before: Key, now: Key) -> int:
    """Return the number of sizes, types and kinds in which the arrays of two programs differ."""
    far = 0
    for (_, old), (_, new) in zip(before.arguments, now.arguments, strict=False):
        shapes = [tuple(getattr(aval, "shape", ())) for aval in (old, new)]
        far += abs(len(shapes[0]) - len(shapes[1]))
        far += sum(not _is_same(*sizes) for sizes in zip(*shapes, strict=False))
        for part in ("dtype", "weak_type"):
            far += not _is_same(getattr(old, part, None), getattr(new, part, None))
    return far


def _movements(before: Key, now: Key) -> Iterator[tuple[str, str]]:
    """Yield the arrays that the user put somewhere else, by name, each with what differs."""
    if before.devices != now.devices or not _is_same(before.tree, now.tree):
        return
    if len(before.shardings) != len(now.shardings):
        return
    names = [name for name, _ in now.arguments]
    names += [""] * (len(now.shardings) - len(names))
    # pmap names its arrays by axes as well, so there are more names than arrays.
    for name, old, new in zip(names, before.shardings, now.shardings, strict=False):
        if not _is_same(old, new):
            at = f"at {_short(name) or 'an argument'}"
            yield name, f"{at}: {sharding(old)} before, {sharding(new)} now"


def _arguments(before: Pairs, now: Pairs, moved: Container[str]) -> Iterator[str]:
    """Yield the arguments that differ; those in ``moved`` only if their type differs, too."""
    if len(before) != len(now):
        yield f"{len(before)} arrays before, {len(now)} now"
        return
    for (_, old), (name, new) in zip(before, now, strict=True):
        if not _is_same(old, new) and not (name in moved and abstract(old) == abstract(new)):
            at = f"at {_short(name) or 'an argument'}"
            yield f"{at}: {_versus(abstract(old), abstract(new), old, new)}"


def _versus(old: str, new: str, old_value: Any, new_value: Any) -> str:
    if old != new:
        return f"{old} before, {new} now"
    shards = [getattr(value, "sharding", None) for value in (old_value, new_value)]
    if not _is_same(*shards):
        return f"{old}, {sharding(shards[0])} before, {sharding(shards[1])} now"
    return f"{old}, of another kind than before"


def _statics(before: Pairs, now: Pairs) -> Iterator[str]:
    old, new = dict(before), dict(now)
    for name in dict.fromkeys((*old, *new)):
        argument = f"the static argument {_short(name)}"
        if name not in new:
            yield f"{argument} is left out now"
        elif name not in old:
            yield f"{argument} was left out before, is {value(new[name])} now"
        elif not _is_same(old[name], new[name]):
            before_text, now_text = value(old[name]), value(new[name])
            if before_text == now_text:
                yield f"{argument}: another {before_text}, which is not equal"
            else:
                yield f"{argument}: {before_text} before, {now_text} now"


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
    """Return how the arguments are nested differently, and by which arrays."""
    old, new = [[name for name, _ in key.arguments] for key in (before, now)]
    gone = [name for name in old if name not in set(new)]
    added = [name for name in new if name not in set(old)]
    words = list(islice(_root(before.tree, now.tree, old), MOST))
    if added:
        words.append(f"{_join(added)} not there before")
    if gone:
        words.append(f"{_join(gone)} not there now")
    if not words:
        before_text, now_text = _tree(before.tree), _tree(now.tree)
        which = f"{before_text} before, {now_text} now"
        words = [
            f"{before_text}, in which something static is another"
            if before_text == now_text
            else which
        ]
    return f"arguments put together differently: {', '.join(words)}"


def _root(before: Any, now: Any, names: Sequence[str]) -> Iterator[str]:
    """Yield what differs in the arguments of a call: by position, and by keyword."""
    calls = [_parts(tree) for tree in (before, now)]
    if any(kind is not tuple or len(parts) != 2 for kind, _, parts in calls):
        return
    (_, _, (old, old_named)), (_, _, (new, new_named)) = calls
    (_, _, old_parts), (_, _, new_parts) = _parts(old), _parts(new)
    (_, old_keys, old_values), (_, new_keys, new_values) = _parts(old_named), _parts(new_named)
    if len(old_parts) != len(new_parts):
        yield f"{len(old_parts)} arguments by position before, {len(new_parts)} now"
    for words, some, others in (("before", old_keys, new_keys), ("now", new_keys, old_keys)):
        if only := [str(key) for key in some if key not in others]:
            yield f"{_join(only)} by keyword only {words}"
    if len(old_parts) == len(new_parts) and old_keys == new_keys:
        at = 0
        nodes = zip((*old_parts, *old_values), (*new_parts, *new_values), strict=True)
        for old_node, new_node in nodes:
            name = names[at] if at < len(names) else "an argument"
            yield from _nodes(old_node, new_node, _ARGUMENT.split(name)[0])
            at += old_node.num_leaves


def _nodes(before: Any, now: Any, name: str) -> Iterator[str]:
    """Yield the outermost parts of one argument that differ, by kind, length or keys."""
    (old, old_keys, old_parts), (new, new_keys, new_parts) = _parts(before), _parts(now)
    if old is not new:
        yield f"{_short(name)} is {_kind(old)} before, {_kind(new)} now"
    elif len(old_parts) != len(new_parts):
        lengths = f"{len(old_parts)} before, {len(new_parts)} now"
        yield f"{_short(name)} is {_kind(old)} of length {lengths}"
    elif not _is_same(old_keys, new_keys):
        yield f"{_short(name)} is {_kind(old)} with something static that is another"
    else:
        labels = old_keys if old is dict else range(len(old_parts))
        for label, old_part, new_part in zip(labels, old_parts, new_parts, strict=True):
            yield from _nodes(old_part, new_part, f"{name}[{value(label)}]")


def _parts(tree: Any) -> tuple[Any, Any, Sequence[Any]]:
    """Return the kind of a node, what is static in it (the keys of a dict), and its children.

    A leaf has no kind, and neither has anything that is no tree.
    """
    with suppress(Exception):  # the static part of a tree is the user's, and may raise anything
        if (node := tree.node_data()) is not None:
            return node[0], () if node[1] is None else node[1], tree.children()
    return None, (), ()


def _kind(node_type: Any) -> str:
    if node_type is None:
        return "an array"
    name = str(getattr(node_type, "__name__", node_type))
    return "None" if node_type is type(None) else _short(f"a {name}")


def _tree(tree: Any) -> str:
    """Return a tree as JAX prints it; its static parts may refuse to be printed."""
    try:
        return _short(str(tree))
    except Exception:
        return "a tree of arrays"


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


def value(constant: Any) -> str:
    """Return a value in few words: only its type if it may run user code or hold an address."""
    if isinstance(constant, Enum):
        return _short(f"{type(constant).__qualname__}.{constant._name_}")
    if constant is None or isinstance(constant, bool):
        return str(constant)
    if isinstance(constant, _PLAIN):
        return _repr(constant)
    if type(constant).__name__ in _TRACED:
        return "function"
    if (
        type(constant).__module__ in ("numpy", "numpy.dtypes")
        and getattr(constant, "ndim", None) == 0
    ):
        if not hasattr(constant, "item"):  # a dtype has ``ndim``, but no value
            return str(constant.name)
        return (
            _repr(constant.item()) if isinstance(constant.item(), _PLAIN) else str(constant.dtype)
        )
    if type(constant) in (tuple, list):
        inner = ", ".join(map(value, constant[:8])) + (", ..." if len(constant) > 8 else "")
        ends = "()" if isinstance(constant, tuple) else "[]"
        return _short(
            f"{ends[0]}{inner}{',' if ends == '()' and len(constant) == 1 else ''}{ends[1]}"
        )
    try:
        name = constant.__qualname__
    except Exception:  # the user's own attributes may raise anything
        name = None
    return (
        _short(name) if isinstance(name, str) else _short(f"{type(constant).__qualname__} object")
    )


_TRACED: Final = ("ClosedJaxpr", "Jaxpr")
_PLAIN: Final = (int, float, complex, str, bytes)


def _repr(constant: Any) -> str:
    """Return the start of a value as Python prints it, whatever a subclass makes of that."""
    plain_type: Any = next(candidate for candidate in _PLAIN if isinstance(constant, candidate))
    if plain_type in (str, bytes):
        constant = plain_type.__getitem__(constant, slice(LONGEST))
    try:
        return _short(plain_type.__repr__(constant))
    except ValueError:  # a number of more digits than Python prints
        return f"a large {type(constant).__qualname__}"


def _is_same(before: Any, now: Any) -> bool:
    """Return whether JAX takes two values for one.

    Where hashes differ it does not compare, nor do we: a comparison of the user's may compute, and
    compile, whatever it likes.
    """
    if before is now:
        return True
    with suppress(Exception):  # from the user's own hash
        if hash(before) != hash(now):
            return False
    try:
        return bool(before == now)
    except Exception:  # from the user's own comparison
        return False


def _join(names: Iterable[str]) -> str:
    shortened = [_short(name) for name in names]
    if len(shortened) > MOST + 1:
        return f"{', '.join(shortened[:MOST])} and {len(shortened) - MOST} more"
    return ", ".join(shortened) or "nothing"


def _short(text: str) -> str:
    text = _ADDRESS.sub("", " ".join(text.split()))
    text = "".join(char if char.isprintable() else "?" for char in text[: LONGEST + 1])
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
