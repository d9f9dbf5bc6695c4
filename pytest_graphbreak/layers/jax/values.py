"""Values of JAX and of the user in a few words, for a reason why something is compiled again.

``differences`` asks for them. No code of the user's is run for it (``__repr__``, ``__getattr__``),
and no address is shown, since it is another one in each run. Nothing here imports jax: its types
are recognised by their attributes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from inspect import getattr_static
from types import GetSetDescriptorType, MethodType
from typing import Any, Final

from pytest_graphbreak.layers.faults import or_else

MOST: Final = 3
"""The most names or differences that are listed; the rest are counted."""
LONGEST: Final = 80
"""The longest value, in characters."""
PLAIN: Final = (bool, int, float, complex, str, bytes, type(None))
"""The types whose values are shown as Python prints them."""

_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]{1,16}")
"""The address in ``<function f at 0x7f8a2c>``."""
_PARTS: Final = 8
"""The most parts of a tuple or list that are shown."""


def abstract(aval: Any) -> str:
    """Return the type of an array: ``float32[3]``; a Python number has a weak type."""
    shape, dtype = getattr(aval, "shape", None), getattr(aval, "dtype", None)
    if shape is None or dtype is None:
        return short(str(aval))
    words = f"{getattr(dtype, 'name', dtype)}[{','.join(map(str, shape))}]"
    return f"{words} of weak type" if getattr(aval, "weak_type", False) else words


def sharding(layout: Any) -> str:
    """Return where an array lies, by its sharding.

    Over the mesh ``data=4``, by its partition, or without a mesh by its devices::

        sharded ('data',) over data=4
        replicated over data=4
        not sharded                    the mesh has no axis
        on cpu:0, cpu:1
        on no device of its own        JAX has not put it anywhere
    """
    if layout is None:
        return "on no device of its own"
    spec, mesh = getattr(layout, "spec", None), getattr(layout, "mesh", None)
    if spec is not None and mesh is not None:
        axes = ", ".join(f"{name}={size}" for name, size in dict(mesh.shape).items())
        if not axes:
            return "not sharded"
        if not any(spec):
            return short(f"replicated over {axes}")
        return short(f"sharded {tuple(spec)} over {axes}")
    devices = getattr(layout, "device_set", None)
    if devices:
        return f"on {join(sorted(map(_device, devices)))}"
    return short(str(layout))


def _device(device: Any) -> str:
    return f"{getattr(device, 'platform', '?')}:{getattr(device, 'id', '?')}"


def value(constant: Any, budget: list[int] | None = None) -> str:
    """Return a value in few words: only its type if printing it may run the user's code.

    ::

        2, 'fast', None               (1, [2.5, None])             Mode.FAST
        wave                          a function or a class
        Config object                 any other object

    ``budget`` is the number of parts that are still looked at, in a list that all calls for one
    value share. Each part has a character at least, so more than ``LONGEST`` would not be seen.
    """
    budget = [LONGEST] if budget is None else budget
    budget[0] -= 1
    if budget[0] < 0:
        return "..."
    kind = type(constant)
    if issubclass(kind, Enum):
        return short(f"{_name(kind)}.{object.__getattribute__(constant, '_name_')}")
    if kind in PLAIN:
        return _repr(constant)
    if kind in (tuple, list):
        inner = ", ".join(value(part, budget) for part in constant[:_PARTS])
        inner += ", ..." if len(constant) > _PARTS else ""
        comma = "," if kind is tuple and len(constant) == 1 else ""
        return short(f"({inner}{comma})" if kind is tuple else f"[{inner}]")
    if kind.__module__ in ("numpy", "numpy.dtypes"):
        return short(str(constant))
    if kind is MethodType:
        return value(constant.__func__, budget)
    return short(or_else(None, _name, constant) or f"{_name(kind)} object")


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
        return short(repr(constant[:LONGEST] if isinstance(constant, (str, bytes)) else constant))
    except ValueError:  # a number of more digits than Python prints
        return "a large int"


def join(names: Iterable[str]) -> str:
    """Return ``x, y``; of five names ``x, y, z and 2 more``."""
    shortened = [short(name) for name in names]
    if len(shortened) > MOST + 1:
        return f"{', '.join(shortened[:MOST])} and {len(shortened) - MOST} more"
    return ", ".join(shortened) or "nothing"


def short(text: str) -> str:
    """Return a text in one line of at most ``LONGEST`` printable characters, without addresses."""
    text = _ADDRESS.sub("", " ".join(text.split()))
    text = "".join(char if char.isprintable() else "?" for char in text[: LONGEST + 1])
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
