"""Says whose a frame is that Dynamo is about to compile: a model's, or torch's own.

``sensors`` asks when an attempt begins, ``captures`` for a function that is captured as a whole.
The answers are fields of the ``Attempt``:

``torch_is_compiling``  ``is_torchs``: the frame is torch's own work, and is not reported
``owner``               ``owner``: the class of the model, ``Bert`` for a frame of any layer in it
``written_forward``     ``written``: the function to show where a decorator's wrapper is compiled

Modules are found by the frames of torch that call them, whose locals are the arguments of the call.
The locals of a user's frame are not read: up to Python 3.12 that keeps their values alive. No code
of the user runs for it (``objects``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from types import CodeType, FrameType
from typing import Any, Final

from pytest_graphbreak.layers.dynamo.objects import (
    NOTHING,
    dict_attribute,
    instance_attribute,
    is_module,
)
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
    """Return the class of the module that most operators come from; empty without one.

    It is asked for where the frames show no module: a model is called by a plain function, which is
    compiled.
    """
    kinds: Counter[str] = Counter()
    for node in graph.graph.nodes:
        # {"L__self__": ("L['self']", Bert), ...}, the outermost module first
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
    codes = [*_wrapped_codes(getattr(type(module), "forward", NOTHING))]
    is_wrapper = any(wrapper is code for wrapper in codes[:-1])
    return codes[-1] if is_wrapper else None


def _wrapped_codes(function: Any) -> Iterator[CodeType | None]:
    """Yield the code of a function and of those that it wraps (``functools.wraps``), if it has one.

    One that wraps itself ends it.
    """
    seen: set[int] = set()
    while function is not NOTHING and id(function) not in seen:
        seen.add(id(function))
        yield getattr(function, "__code__", None)
        function = instance_attribute(function, "__wrapped__")


# Code that Dynamo meets while torch itself is compiling. Elsewhere Dynamo's hook is off then; it is
# in while compiled autograd captures a backward pass, and while code that left the compiler makes
# fake tensors. There it comes to what works out symbolic sizes (sympy), as far as no answer is
# cached, and to what is imported for that.

_CAPTURE: Final = re.compile(r"[/\\]torch[/\\]_dynamo[/\\]compiled_autograd\.py$")
_RUNS_CAPTURED: Final = "runtime_wrapper"
"""The function of that file that runs what was captured; all others capture."""
_SYMBOLIC_SIZES: Final = re.compile(
    # ``torch/_subclasses/fake_tensor.py``, ``torch/utils/_sympy/functions.py``
    r"[/\\]torch[/\\](?:_subclasses|utils[/\\]_sympy)[/\\]"
    # ``torch/fx/experimental/symbolic_shapes.py``
    r"|[/\\]torch[/\\]fx[/\\]experimental[/\\](?:recording|sym_node|symbolic_shapes)\.py$"
)
_TORCH: Final = re.compile(r"[/\\]torch[/\\]")


def torch_is_compiling(frame: FrameType | None) -> bool:
    """Return whether torch was compiling when Dynamo's hook, whose frame is given, was called."""
    is_innermost = True
    for outer in stacks.outwards(frame):
        file = outer.f_code.co_filename
        if _CAPTURE.search(file) and outer.f_code.co_name != _RUNS_CAPTURED:
            return True
        # Sizes are worked out if torch's innermost frame does: frames of torch further out may have
        # called the user's code, which called that one.
        if is_innermost and _TORCH.search(file) and not file.endswith(CONVERT_FRAME):
            if _SYMBOLIC_SIZES.search(file):
                return True
            is_innermost = False
    return False
