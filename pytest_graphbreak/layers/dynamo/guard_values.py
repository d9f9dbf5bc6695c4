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
_TENSOR: Final = re.compile(r"^tensor '(.+?)' (?:size|rank|stride|dtype|dispatch key set) mismatch")
_VALUE: Final = re.compile(r"^([A-Za-z_][^=<>!(]*?) ==")
_IDENTITY: Final = re.compile(r"^___check_obj_id\(([^,()]{1,200}),")
_SIZE: Final = re.compile(r"([A-Za-z_][\w.\[\]']{0,200})\.size\(\)\[")
_LOCAL: Final = re.compile(r"^L\['(\w+)'\]")
_START: Final = re.compile(r"^[A-Za-z_]\w*")
_STEP: Final = re.compile(r"\.([A-Za-z_]\w*)|\[(?:(\d+)|'([^']*)')\]")
_PLAIN: Final = (int, float, bool, str, type(None))
_LONGEST: Final = 40
_WIDEST: Final = 40
_MOST_SHAPES: Final = 400
_NOTHING: Final = object()


def current_value(guard: str, values: Mapping[str, Any]) -> str:
    """Return ``x has shape [5, 3] now`` or ``n is 3 now``; empty if it is not known.

    ``guard`` is Dynamo's text of the first guard that failed, ``values`` are the
    frame's local variables.
    """
    text = text_of(guard)
    match = _TENSOR.match(text) or _SIZE.search(text.partition("  #")[0])
    match = match or _VALUE.match(text) or _IDENTITY.match(text)
    if match is None:
        return ""
    source = _LOCAL.sub(r"\1", match[1].strip())
    value = _look_up(source, values)
    if match.re not in (_VALUE, _IDENTITY):
        return _of_tensor(source, value, text)
    shown = _member(value)
    if type(value) in _PLAIN and match.re is _VALUE:
        shown = repr(value)
    return f"{source} is {shown} now" if shown and len(shown) <= _LONGEST else ""


def _member(value: Any) -> str:
    """Return the name of a member of an enum (``Mode.FAST``); empty for all else."""
    name = _of_instance(value, "_name_")
    is_enum = "enum" in sys.modules and issubclass(type(type(value)), sys.modules["enum"].EnumMeta)
    return f"{type(value).__name__}.{name}" if is_enum and type(name) is str else ""


Signature = Mapping[str, tuple[Any, ...]]
"""The values that distinguish two calls of a function: each local variable, and modes.

``self.scale`` is an attribute of a local; ``self is`` the identity of a module, with the shapes of
its parameters.
"""
_IS: Final = " is"


def signature(values: Mapping[str, Any]) -> Signature:
    """Return what a frame's locals are: tensors' shapes and types, plain values, modules' training.

    This includes what lies in tuples and dictionaries there: a module is compiled as a wrapper that
    takes ``*args`` and ``**kwargs``.
    """
    torch = sys.modules["torch"]
    signature: dict[str, tuple[Any, ...]] = {"": (torch.is_grad_enabled(),)}
    for name, value in _plain_items(values):
        if type(value) in (torch.Tensor, torch.nn.Parameter):
            with plain_tensors():
                signature[name] = (str(value.dtype), *map(str, value.shape))
        elif type(value) in _PLAIN:
            signature[name] = (type(value), value[:_LONGEST] if type(value) is str else value)
        else:
            signature |= _of_object(name, value)
    return signature


def _of_object(name: str, value: Any) -> dict[str, tuple[Any, ...]]:
    """Return the plain attributes of an object, and of a module its identity and shapes."""
    if member := _member(value):
        return {name: (member,)}
    signature: dict[str, tuple[Any, ...]] = {}
    for attribute, member_value in islice(_instance(value).items(), _WIDEST):
        if type(member_value) in _PLAIN:
            shortened = member_value[:_LONGEST] if type(member_value) is str else member_value
            signature[f"{name}.{attribute}"] = (type(member_value), shortened)
        elif member := _member(member_value):
            signature[f"{name}.{attribute}"] = (member,)
    if issubclass(type(value), sys.modules["torch"].nn.Module):
        signature[f"{name}{_IS}"] = (id(value), tuple(islice(_shapes(value), _MOST_SHAPES)))
    return signature


def _shapes(module: Any) -> Iterator[tuple[int, ...]]:
    """Yield the shapes of the parameters of a module and of all modules in it."""
    torch = sys.modules["torch"]
    attributes = _instance(module)
    for value in dict.values(attributes.get("_parameters") or {}):
        if type(value) is torch.nn.Parameter:
            with plain_tensors():
                yield tuple(map(int, value.shape))
    for inner in dict.values(attributes.get("_modules") or {}):
        yield from _shapes(inner) if inner is not None else ()


def other_instance(
    guard: str, then: Signature | None, now: Signature | None, values: Mapping[str, Any]
) -> str:
    """Return the class of a module if the failed guard is about another instance of it.

    It is if it begins with the local variable that is another module now, or if the two modules
    have parameters of other shapes, which their inputs follow.
    """
    if then is None or now is None:
        return ""
    text = text_of(guard)
    for name in (name.removesuffix(_IS) for name in now if name.endswith(_IS)):
        was, is_now = then.get(f"{name}{_IS}"), now[f"{name}{_IS}"]
        if was is None or was[0] == is_now[0]:
            continue
        if re.search(rf"\b{re.escape(name)}\b'?\]?[.)]", text) or was[1] != is_now[1]:
            return type(values[name]).__name__
    return ""


def _plain_items(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
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
    signatures: Mapping[str, Signature],
    now: Signature,
    reported: Collection[str] = (),
) -> list[str]:
    """Sort the guards that failed, one for each time a function was compiled, the closest first.

    Each names what did not fit that time, so the closest names what had to be the same for this
    call to fit: for an engine with many sizes, the guard of the size that is called now.
    ``signatures`` are by compile id. Those that an earlier recompile ``reported`` come last: a
    value that was set once does not change again. Guards that are as close keep their order.
    """
    return sorted(
        guards,
        key=lambda guard: (text_of(guard) in reported, _distance(signatures.get(_id(guard)), now)),
    )


def version_of(guard: str, signatures: Mapping[str, Signature]) -> Signature | None:
    """Return the values of the call for which the version was compiled that a guard is of."""
    return signatures.get(_id(guard))


def text_of(guard: str) -> str:
    """Return a guard without the id of its compile."""
    return _PREFIX.sub("", guard.strip())


def _id(guard: str) -> str:
    match = _PREFIX.match(guard.strip())
    return match[0].strip().rstrip(":") if match else ""


def _distance(then: Signature | None, now: Signature) -> int:
    """Return the number of sizes, types, values and modes in which two calls differ."""
    if then is None:
        return sys.maxsize
    return sum(_difference(then.get(name, ()), now.get(name, ())) for name in {*then, *now})


def _difference(then: tuple[Any, ...], now: tuple[Any, ...]) -> int:
    if len(then) != len(now):
        return max(len(then), len(now))
    return sum(a != b for a, b in zip(then, now, strict=True))


def _of_tensor(source: str, value: Any, text: str) -> str:
    torch = sys.modules["torch"]
    if type(value) not in (torch.Tensor, torch.nn.Parameter):
        return ""
    with plain_tensors():  # this keeps out the user's modes, too
        if "dispatch key set mismatch" in text:
            return _of_inference(source, value, text)
        if "dtype mismatch" in text:
            return f"{source} is of {str(value.dtype).removeprefix('torch.')} now"
        if "stride mismatch" in text:
            return f"{source} has strides {list(value.stride())} now"
        return f"{source} has shape {list(value.shape)} now"


def _of_inference(source: str, value: Any, text: str) -> str:
    """Return whether a tensor is one of ``inference_mode``, if this is what differs."""
    # Only what autograd follows has its keys; another device has them, too, under other names.
    if len({"Autograd" in keys for keys in text.split(", actual ")}) < 2:
        return ""
    kind = "an inference tensor" if value.is_inference() else "no inference tensor"
    return f"{source} is {kind} now"


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
        value = _take_step(value, step)
        at = step.end()
    return value


def _take_step(value: Any, step: re.Match[str]) -> Any:
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
    return dict.get(_instance(value), attribute, _NOTHING)


def _instance(value: Any) -> dict[str, Any]:
    """Return the dictionary of an instance; empty if it has none."""
    try:
        holder = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return holder if type(holder) is dict else {}
