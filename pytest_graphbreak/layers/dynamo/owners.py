"""The model of a program that a graph belongs to: the outermost ``nn.Module`` being called.

Modules are found by the frames of torch that call them, whose locals are the arguments of the call.
The locals of a user's frame are not read: up to Python 3.12 that keeps their values alive.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from types import CodeType, FrameType
from typing import Any, Final

from pytest_graphbreak.model import stacks
from pytest_graphbreak.model.places import Places, function_name
from pytest_graphbreak.model.stacks import Line

_MODULE: Final = ("torch/nn/modules/module.py", "torch\\nn\\modules\\module.py")
EVAL_FRAME: Final = ("_dynamo/eval_frame.py", "_dynamo\\eval_frame.py")
_WRAPPERS: Final = ("torch.nn.parallel.", "torch.distributed.")
"""The modules that run another one on several devices, and are no model themselves."""
_WRAPPING: Final = re.compile(r"[/\\]torch[/\\](?:nn[/\\]parallel|distributed)[/\\]")


def owner(frame: FrameType | None, values: Mapping[str, Any]) -> str:
    """Return the class of the outermost module that runs ``frame``; empty without a module.

    ``values`` are the locals of the function that is compiled, which ``frame`` calls. Where a
    part of the outermost module is compiled, the attribute that holds it is added:
    ``Pipeline.unet``.
    """
    compiled = outermost = _unwrap(values.get("self"))
    in_compiled = True
    for outer in stacks.outwards(frame):
        file = outer.f_code.co_filename
        if file.endswith(stacks.RUNNERS):
            break
        if file.endswith(EVAL_FRAME):
            in_compiled = False
        elif file.endswith(_MODULE):
            module = _unwrap(outer.f_locals.get("self"))
            outermost = outermost if module is None else module
            compiled = outermost if in_compiled else compiled
    if outermost is None:
        return ""
    attribute = "" if compiled is outermost else _holder(outermost, compiled)
    return f"{type(outermost).__name__}{attribute}"


def written_forward(code: CodeType, values: Mapping[str, Any]) -> CodeType | None:
    """Return the ``forward`` that somebody wrote, if ``code`` is a decorator's wrapper of it.

    Every model of transformers is compiled as the same few wrappers. ``values`` are the locals of
    the function that is compiled.
    """
    # No truth, length or attribute of a user's object is asked for: each may run their code.
    module = values.get("self")
    if module is None and type(values.get("args")) is tuple:
        module = next(iter(values["args"]), None)
    if sys.modules["torch"].nn.Module not in type(module).__mro__:
        return None
    function: Any = getattr(type(module), "forward", None)
    is_wrapper = False
    while hasattr(function, "__wrapped__"):
        is_wrapper = is_wrapper or getattr(function, "__code__", None) is code
        function = function.__wrapped__
    return getattr(function, "__code__", None) if is_wrapper else None


def of_graph(graph: Any) -> str:
    """Return the class of the module that most operators come from; empty without one."""
    kinds: Counter[str] = Counter()
    for node in graph.graph.nodes:
        for _, kind in list((node.meta.get("nn_module_stack") or {}).values())[:1]:
            kinds[getattr(kind, "__name__", None) or str(kind).rpartition(".")[2]] += 1
    return next(iter(kinds.most_common(1)), ("",))[0]


def owner_in_log(stack: Iterable[Line], places: Places) -> str:
    """Return the class of the outermost module that was compiled, from a stack in a log.

    That is the class whose ``forward`` torch called, as the source says; a class that inherits it
    is called by that name too. Without a compiled module it is the outermost one; empty without
    a module or without the source.
    """
    compiled = outermost = None
    called = False
    for line in stack:
        if line.file.endswith(EVAL_FRAME):
            compiled = None
        elif line.file.endswith(_MODULE):
            called = True
        elif called and function_name(line.name) == "forward" and not _WRAPPING.search(line.file):
            called = False
            compiled, outermost = compiled or line, outermost or line
    if outermost is None:
        return ""
    shown = places.definition(*(compiled or outermost)[:3]).function
    name = shown.rpartition(".")[0].rpartition(".")[2]
    return "" if name == "<locals>" else name


def _unwrap(value: Any) -> Any:
    """Return a module without what ``torch.compile`` put around it; None if it is none.

    No truth, length or attribute of a user's object is asked for: each may run their code.
    """
    kind = type(value)
    if sys.modules["torch"].nn.Module not in kind.__mro__ or kind.__module__.startswith(_WRAPPERS):
        return None
    return _children(value).get("_orig_mod", value) if kind.__name__ == "OptimizedModule" else value


def _children(module: Any) -> Mapping[str, Any]:
    modules: Mapping[str, Any] = object.__getattribute__(module, "__dict__").get("_modules", {})
    return modules


def _holder(outermost: Any, part: Any) -> str:
    """Return the attribute that holds a part of a module, as ``.unet``; empty if none does."""
    for name, child in _children(outermost).items():
        within = {id(child): child}
        while within and part is not None:
            _, module = within.popitem()
            if _unwrap(module) is part:
                return f".{name}"
            within |= {
                id(child): child for child in _children(module).values() if child is not None
            }
    return ""
