"""What a frame that Dynamo compiles was called with: its model, and the values that guards met.

Modules are found by the frames of torch that call them, whose locals are the arguments of the call;
values are read from the frame that is compiled again, while its guards are looked at. The locals of
a user's frame are not read: up to Python 3.12 that keeps their values alive.

No code of the user runs for it: no truth, length or attribute of an object is asked for. Only local
variables, instance dictionaries and builtin containers are looked into, and only exact builtin
values and plain tensors are shown.
"""

from __future__ import annotations

import enum
import re
import sys
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from itertools import islice
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

from pytest_graphbreak.layers.dynamo.private import plain_tensors
from pytest_graphbreak.model import stacks

_MODULE_FILES: Final = ("torch/nn/modules/module.py", "torch\\nn\\modules\\module.py")
_WRAPPERS: Final = ("torch.nn.parallel.", "torch.distributed.")
"""The modules that run another one on several devices, and are no model themselves."""


def owner(frame: FrameType | None, values: Mapping[str, Any]) -> str:
    """Return the class of the outermost module that runs ``frame``; empty without a module.

    ``values`` are the locals of the function that is compiled, which ``frame`` calls.
    """
    outermost = _unwrap(values.get("self"))
    for outer in stacks.outwards(frame):
        file = outer.f_code.co_filename
        if file.endswith(stacks.RUNNERS):
            break
        if not file.endswith(_MODULE_FILES):
            continue
        if (module := _unwrap(outer.f_locals.get("self"))) is not None:
            outermost = module
    return "" if outermost is None else type(outermost).__name__


def owner_of_graph(graph: Any) -> str:
    """Return the class of the module that most operators come from; empty without one."""
    kinds: Counter[str] = Counter()
    for node in graph.graph.nodes:
        for _, kind in list((node.meta.get("nn_module_stack") or {}).values())[:1]:
            kinds[getattr(kind, "__name__", None) or str(kind).rpartition(".")[2]] += 1
    return next(iter(kinds.most_common(1)), ("",))[0]


def _unwrap(value: Any) -> Any:
    """Return a module without what ``torch.compile`` put around it; None if it is none."""
    if not _is_module(value) or type(value).__module__.startswith(_WRAPPERS):
        return None
    if type(value).__name__ != "OptimizedModule":
        return value
    return _dict_attribute(value, "_modules").get("_orig_mod", value)


def _is_module(value: Any) -> bool:
    return issubclass(type(value), sys.modules["torch"].nn.Module)


def written_forward(code: CodeType, values: Mapping[str, Any]) -> CodeType | None:
    """Return the ``forward`` that somebody wrote, if ``code`` is a decorator's wrapper of it.

    Every model of transformers is compiled as the same few wrappers. ``values`` are the locals of
    the function that is compiled.
    """
    module = values.get("self")
    if module is None and type(values.get("args")) is tuple:  # of a wrapper(*args, **kwargs)
        module = next(iter(values["args"]), None)
    if not _is_module(module):
        return None
    function: Any = getattr(type(module), "forward", None)
    is_wrapper = False
    while hasattr(function, "__wrapped__"):
        is_wrapper = is_wrapper or getattr(function, "__code__", None) is code
        function = function.__wrapped__
    return getattr(function, "__code__", None) if is_wrapper else None


# The values that a failed guard met: Dynamo says what it expected, not always what came.

_PREFIX: Final = re.compile(r"^!?[\d/]+:\s*")
_TENSOR: Final = re.compile(r"^tensor '(.+?)' (?:size|rank|stride|dtype|dispatch key set) mismatch")
_VALUE: Final = re.compile(r"^([A-Za-z_][^=<>!(]*?) ==")
_IDENTITY: Final = re.compile(r"^___check_obj_id\(([^,()]{1,200}),")
_TYPE: Final = re.compile(r"^___check_type_id\(([^,()]{1,200}),")
_SIZE: Final = re.compile(r"([A-Za-z_][\w.\[\]']{0,200})\.size\(\)\[")
_LOCAL: Final = re.compile(r"^L\['(\w+)'\]")
_START: Final = re.compile(r"^[A-Za-z_]\w*")
_STEP: Final = re.compile(r"\.([A-Za-z_]\w*)|\[(?:(\d+)|'([^']*)')\]")
_PLAIN: Final = (int, float, bool, str, type(None))
_LONGEST: Final = 40
_MOST_SHAPES: Final = 400
_NOTHING: Final = object()


def current_value(guard: str, values: Mapping[str, Any]) -> str:
    """Return ``x has shape [5, 3] now`` or ``n is 3 now``; empty if it is not known.

    ``guard`` is Dynamo's text of the first guard that failed, ``values`` are the
    frame's local variables.
    """
    text = _text_of(guard)
    match = _TENSOR.match(text) or _SIZE.search(text.partition("  #")[0])
    match = match or _VALUE.match(text) or _IDENTITY.match(text) or _TYPE.match(text)
    if match is None:
        return ""
    kind = match.re
    source = _LOCAL.sub(r"\1", match[1].strip())
    value = _look_up(source, values)
    if kind is _TYPE:
        return "" if value is _NOTHING else f"{source} is of type {type(value).__name__} now"
    if kind is _TENSOR or kind is _SIZE:
        return _tensor_now(source, value, text)
    is_plain = kind is _VALUE and type(value) in _PLAIN
    shown = repr(value) if is_plain else _enum_member(value)
    return f"{source} is {shown} now" if shown and len(shown) <= _LONGEST else ""


def _enum_member(value: Any) -> str:
    """Return the name of a member of an enum (``Mode.FAST``); empty for all else."""
    name = _instance_attribute(value, "_name_")
    is_enum = issubclass(type(type(value)), enum.EnumMeta)
    return f"{type(value).__name__}.{name}" if is_enum and type(name) is str else ""


class _ModuleState(NamedTuple):
    """What distinguishes a module from another of its class; ``shapes`` are of its parameters."""

    id: int
    shapes: tuple[tuple[int, ...], ...]


Modules = Mapping[str, _ModuleState]
"""The modules among the local variables of a call, by the name of the variable."""


def modules(values: Mapping[str, Any]) -> Modules:
    """Return what distinguishes the modules of one call of a function from those of another."""
    return {
        name: _ModuleState(id(value), tuple(islice(_shapes(value), _MOST_SHAPES)))
        for name, value in values.items()
        if _is_module(value)
    }


def _shapes(module: Any) -> Iterator[tuple[int, ...]]:
    """Yield the shapes of the parameters of a module and of all modules in it."""
    torch = sys.modules["torch"]
    for value in _dict_attribute(module, "_parameters").values():
        if type(value) is torch.nn.Parameter:
            with plain_tensors():
                yield tuple(map(int, value.shape))
    for inner in _dict_attribute(module, "_modules").values():
        yield from _shapes(inner) if inner is not None else ()


def other_instance(guard: str, before: Modules, now: Modules, values: Mapping[str, Any]) -> str:
    """Return the class of a module if the failed guard is about another instance of it.

    It is if it begins with the local variable that is another module now, or if the two modules
    have parameters of other shapes, which their inputs follow.
    """
    text = _text_of(guard)
    for name, module in now.items():
        earlier = before.get(name, module)
        if earlier.id == module.id:
            continue
        begins_with_it = re.search(rf"\b{re.escape(name)}\b'?\]?[.)]", text)
        if begins_with_it or earlier.shapes != module.shapes:
            return type(values[name]).__name__
    return ""


def compile_of(guard: str) -> str:
    """Return the id of the compile that a guard is of, ``0/0``; empty if it does not say."""
    match = _PREFIX.match(guard.strip())
    return match[0].strip().rstrip(":") if match else ""


def _text_of(guard: str) -> str:
    """Return a guard without the id of its compile."""
    return _PREFIX.sub("", guard.strip())


def _tensor_now(source: str, value: Any, text: str) -> str:
    torch = sys.modules["torch"]
    if type(value) not in (torch.Tensor, torch.nn.Parameter):
        return ""
    with plain_tensors():  # this keeps out the user's modes, too
        if "dispatch key set mismatch" in text:
            return _inference_now(source, value, text)
        if "dtype mismatch" in text:
            return f"{source} is of {str(value.dtype).removeprefix('torch.')} now"
        if "stride mismatch" in text:
            return f"{source} has strides {list(value.stride())} now"
        return f"{source} has shape {list(value.shape)} now"


def _inference_now(source: str, value: Any, text: str) -> str:
    """Return whether a tensor is one of ``inference_mode``, if this is what differs."""
    # Only what autograd follows has its keys; another device has them, too, under other names.
    if len({"Autograd" in keys for keys in text.split(", actual ")}) < 2:
        return ""
    kind = "an inference tensor" if value.is_inference() else "no inference tensor"
    return f"{source} is {kind} now"


def _look_up(source: str, values: Mapping[str, Any]) -> Any:
    """Return the object that an expression like ``self.layers[0].scale`` names, or ``_NOTHING``."""
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
        return _instance_attribute(value, attribute)
    if key is not None:
        return dict.get(value, key, _NOTHING) if type(value) is dict else _NOTHING
    if type(value) in (list, tuple) and int(index) < len(value):
        return value[int(index)]
    return _NOTHING


def _instance_attribute(value: Any, attribute: str) -> Any:
    """Return what the dictionary of an instance has by that name, or ``_NOTHING``."""
    return dict.get(_instance_dict(value), attribute, _NOTHING)


def _instance_dict(value: Any) -> dict[str, Any]:
    """Return the dictionary of an instance; empty if it has none."""
    try:
        holder = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return holder if type(holder) is dict else {}


def _dict_attribute(value: Any, attribute: str) -> dict[str, Any]:
    """Return a dict that an instance has by that name; empty for another mapping, which runs code.

    A ScriptModule has an ``OrderedModuleDict`` of C++ there (torch/jit/_script.py of 2.13).
    """
    holder = _instance_dict(value).get(attribute)
    return holder if type(holder) is dict or type(holder) is OrderedDict else {}
