"""The values that a failed guard met: Dynamo says what it expected, not always what came.

They are read from the frame that is compiled again, while its guards are looked at. No code of the
user runs for it: only local variables, instance dictionaries and builtin containers are looked
into, and only exact builtin values and plain tensors are shown.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from pytest_graphbreak.layers.dynamo.private import plain_tensors

_PREFIX: Final = re.compile(r"^!?[\d/]+:\s*")
_TENSOR: Final = re.compile(r"^tensor '(.+?)' (?:size|rank|stride|dtype) mismatch")
_VALUE: Final = re.compile(r"^([A-Za-z_][^=<>!(]*?) ==")
_SIZE: Final = re.compile(r"([A-Za-z_][\w.\[\]']{0,200})\.size\(\)\[")
_LOCAL: Final = re.compile(r"^L\['(\w+)'\]")
_START: Final = re.compile(r"^[A-Za-z_]\w*")
_STEP: Final = re.compile(r"\.([A-Za-z_]\w*)|\[(?:(\d+)|'([^']*)')\]")
_PLAIN: Final = (int, float, bool, str, type(None))
_LONGEST: Final = 40
_WIDEST: Final = 40
_NOTHING: Final = object()


def current_value(guard: str, values: Mapping[str, Any]) -> str:
    """Return ``x has shape [5, 3] now`` or ``n is 3 now``; empty if it is not known.

    ``guard`` is Dynamo's text of the first guard that failed, ``values`` are the
    frame's local variables.
    """
    text = text_of(guard)
    found = _TENSOR.match(text) or _SIZE.search(text.partition("  #")[0]) or _VALUE.match(text)
    if found is None:
        return ""
    source = _LOCAL.sub(r"\1", found[1].strip())
    value = _look_up(source, values)
    if found.re is not _VALUE:
        return _of_tensor(source, value, text)
    if type(value) not in _PLAIN:
        return ""
    shown = repr(value)
    return f"{source} is {shown} now" if len(shown) <= _LONGEST else ""


Signature = Mapping[str, tuple[Any, ...]]
"""The values that distinguish two calls of a function: each local variable, and modes."""


def signature(values: Mapping[str, Any]) -> Signature:
    """Return what a frame's locals are: tensors' shapes and types, plain values, modules' training.

    This includes what lies in tuples and dictionaries there: a module is compiled as a wrapper that
    takes ``*args`` and ``**kwargs``.
    """
    torch = sys.modules["torch"]
    found: dict[str, tuple[Any, ...]] = {"": (torch.is_grad_enabled(),)}
    for name, value in _each(values):
        if type(value) in (torch.Tensor, torch.nn.Parameter):
            with plain_tensors():
                found[name] = (str(value.dtype), *map(str, value.shape))
        elif type(value) in _PLAIN:
            found[name] = (type(value), value[:_LONGEST] if type(value) is str else value)
        elif (training := _of_instance(value, "training")) is not _NOTHING:
            found[name] = (training is True,)
    return found


def _each(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if type(value) in (tuple, list):
            yield from ((f"{name}[{at}]", item) for at, item in enumerate(value[:_WIDEST]))
        elif type(value) is dict:
            items = islice(value.items(), _WIDEST)
            yield from ((f"{name}[{key}]", item) for key, item in items if type(key) is str)
        else:
            yield name, value


def closest(
    guards: Sequence[str],
    known: Mapping[str, Signature],
    now: Signature,
    reported: Collection[str] = (),
) -> list[str]:
    """Sort the guards that failed, one for each time a function was compiled, the closest first.

    Each names what did not fit that time, so the closest names what had to be the same for this
    call to fit: for an engine with many sizes, the guard of the size that is called now. ``known``
    has the signatures by compile id. Those that an earlier recompile ``reported`` come last: a
    value that was set once does not change again. Guards that are as close keep their order.
    """
    return sorted(
        guards,
        key=lambda guard: (text_of(guard) in reported, _distance(known.get(_id(guard)), now)),
    )


def text_of(guard: str) -> str:
    """Return a guard without the id of its compile."""
    return _PREFIX.sub("", guard.strip())


def _id(guard: str) -> str:
    found = _PREFIX.match(guard.strip())
    return found[0].strip().rstrip(":") if found else ""


def _distance(then: Signature | None, now: Signature) -> int:
    """Return the number of sizes, types, values and modes in which two calls differ."""
    if then is None:
        return sys.maxsize
    return sum(_difference(then.get(name, ()), now.get(name, ())) for name in {*then, *now})


def _difference(one: tuple[Any, ...], other: tuple[Any, ...]) -> int:
    if len(one) != len(other):
        return max(len(one), len(other))
    return sum(a != b for a, b in zip(one, other, strict=True))


def _of_tensor(source: str, value: Any, text: str) -> str:
    torch = sys.modules["torch"]
    if type(value) not in (torch.Tensor, torch.nn.Parameter):
        return ""
    with plain_tensors():  # this keeps out the user's modes, too
        if "dtype mismatch" in text:
            return f"{source} is of {str(value.dtype).removeprefix('torch.')} now"
        if "stride mismatch" in text:
            return f"{source} has strides {list(value.stride())} now"
        return f"{source} has shape {list(value.shape)} now"


def _look_up(source: str, values: Mapping[str, Any]) -> Any:
    """Return the object that an expression like ``self.layers[0].scale`` names."""
    start = _START.match(source)
    if start is None or start[0] not in values:
        return _NOTHING
    value = values[start[0]]
    at = start.end()
    while at < len(source):
        step = _STEP.match(source, at)
        if step is None:
            return _NOTHING
        value = _inside(value, step)
        at = step.end()
    return value


def _inside(value: Any, step: re.Match[str]) -> Any:
    attribute, index, key = step.groups()
    if attribute is not None:
        return _of_instance(value, attribute)
    if key is not None:
        return dict.get(value, key, _NOTHING) if type(value) is dict else _NOTHING
    if type(value) in (list, tuple) and int(index) < len(value):
        return value[int(index)]
    return _NOTHING


def _of_instance(value: Any, attribute: str) -> Any:
    """Return what the dictionary of an instance has by that name."""
    try:
        holder = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return _NOTHING
    return dict.get(holder, attribute, _NOTHING) if type(holder) is dict else _NOTHING
