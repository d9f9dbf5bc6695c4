"""What a frame that Dynamo compiles belongs to: a model's module, a written function, torch itself.

The sensors ask for each attempt, before Dynamo compiles it: ``torch_is_compiling`` says
whether it counts, ``owner`` and ``written_forward`` what it is reported as. ``guards`` reads values
by the functions for attributes of an instance, which are in the middle.

Modules are found by the frames of torch that call them, whose locals are the arguments of the call.
The locals of a user's frame are not read: up to Python 3.12 that keeps their values alive.

No code of the user runs for it: no truth, length or attribute of an object is asked for. Only local
variables, instance dictionaries and builtin containers are looked into.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, OrderedDict
from collections.abc import Mapping
from types import CodeType, FrameType
from typing import Any, Final

from pytest_graphbreak.model import stacks

CONVERT_FRAME: Final = ("_dynamo/convert_frame.py", "_dynamo\\convert_frame.py")
"""The file of the functions by which Dynamo takes a frame."""
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
    if not is_module(value) or type(value).__module__.startswith(_WRAPPERS):
        return None
    if type(value).__name__ != "OptimizedModule":
        return value
    return dict_attribute(value, "_modules").get("_orig_mod", value)


def is_module(value: Any) -> bool:
    return issubclass(type(value), sys.modules["torch"].nn.Module)


def written_forward(code: CodeType, values: Mapping[str, Any]) -> CodeType | None:
    """Return the ``forward`` that somebody wrote, if ``code`` is a decorator's wrapper of it.

    Every model of transformers is compiled as the same few wrappers. ``values`` are the locals of
    the function that is compiled.
    """
    module = values.get("self")
    if module is None and type(values.get("args")) is tuple:  # of a wrapper(*args, **kwargs)
        module = next(iter(values["args"]), None)
    if not is_module(module):
        return None
    function: Any = getattr(type(module), "forward", None)
    is_wrapper = False
    while hasattr(function, "__wrapped__"):
        is_wrapper = is_wrapper or getattr(function, "__code__", None) is code
        function = function.__wrapped__
    return getattr(function, "__code__", None) if is_wrapper else None


NOTHING: Final = object()
"""The value of what is not there."""


def instance_attribute(value: Any, attribute: str) -> Any:
    """Return what the dictionary of an instance has by that name, or ``NOTHING``."""
    return dict.get(_instance_dict(value), attribute, NOTHING)


def _instance_dict(value: Any) -> dict[str, Any]:
    """Return the dictionary of an instance; empty if it has none."""
    try:
        holder = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return holder if type(holder) is dict else {}


def dict_attribute(value: Any, attribute: str) -> dict[str, Any]:
    """Return a dict that an instance has by that name; empty for another mapping, which runs code.

    A ScriptModule has an ``OrderedModuleDict`` of C++ there (torch/jit/_script.py of 2.13).
    """
    holder = _instance_dict(value).get(attribute)
    return holder if type(holder) is dict or type(holder) is OrderedDict else {}


# Code that Dynamo meets while torch itself is compiling: it belongs to nobody.
#
# Elsewhere Dynamo's hook is off while torch compiles. It is in while compiled autograd captures a
# backward pass, and while code that left the compiler makes fake tensors. Then it comes to what
# works out symbolic sizes (sympy), as far as no answer is cached, and to what is imported there.

_CAPTURE: Final = re.compile(r"[/\\]torch[/\\]_dynamo[/\\]compiled_autograd\.py$")
_RUNS_CAPTURED: Final = "runtime_wrapper"
"""The function of that file that runs what was captured; all others capture."""
_SYMBOLIC_SIZES: Final = re.compile(
    r"[/\\]torch[/\\](?:_subclasses|utils[/\\]_sympy)[/\\]"
    r"|[/\\]torch[/\\]fx[/\\]experimental[/\\](?:recording|sym_node|symbolic_shapes)\.py$"
)
_TORCH: Final = re.compile(r"[/\\]torch[/\\]")


def torch_is_compiling(frame: FrameType | None) -> bool:
    """Return whether torch was compiling when Dynamo's hook, whose frame is given, was called."""
    is_nearest = True  # only torch's innermost frame says whether sizes are worked out
    for outer in stacks.outwards(frame):
        file = outer.f_code.co_filename
        if _CAPTURE.search(file) and outer.f_code.co_name != _RUNS_CAPTURED:
            return True
        if is_nearest and _TORCH.search(file) and not file.endswith(CONVERT_FRAME):
            if _SYMBOLIC_SIZES.search(file):
                return True
            is_nearest = False
    return False
