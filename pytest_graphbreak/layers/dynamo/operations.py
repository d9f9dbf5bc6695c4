"""The operations of an FX graph: counted while Dynamo compiles, and named when a window is read.

``graphs`` asks ``shape_of`` when a backend is called, since the backend may change the graph.
``explain`` asks ``functions``, which reads the stacks as text: nothing is parsed meanwhile.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from pytest_graphbreak.model.places import Places

Calls = tuple[tuple[str, int], ...]
"""The number of operators of an FX graph that come from each stack, as Dynamo writes it::

    (('  File "/home/me/model.py", line 12, in forward\\n    return x + 1\\n', 1),)
"""

Shape = tuple[int, int, int, Calls]
"""The operators, inputs and outputs of an FX graph, and where its operators come from."""

NO_SHAPE: Shape = (0, 0, 0, ())

_CONTEXTS: Final = re.compile(
    r"_(?:enter|exit)_(?:autocast|inference_mode)|_saved_tensors_hooks_(?:enable|disable)"
    r"|_set_grad_enabled|_backend_from_string|_sdpa_kernel"
)
"""The functions that a graph calls where code enters or leaves a context (seen on torch 2.13).

They compute nothing, and are gone when the context is entered outside of the compiled function.
"""


def shape_of(gm: Any) -> Shape:
    """Return what is noted of an FX graph: counts, and the places of its operators.

    Bodies of higher-order operators (``checkpoint``, ``cond``, ``while_loop``) are graphs of their
    own in it; their operators count, too.
    """
    inputs = outputs = 0
    calls: Counter[str] = Counter()
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            inputs += 1
        elif node.op == "output":
            outputs = len(node.args[0]) if isinstance(node.args[0], (tuple, list)) else 1
    for graph in _with_bodies(gm):
        for node in graph.nodes:
            is_call = node.op.startswith("call_")
            if is_call and not _CONTEXTS.fullmatch(getattr(node.target, "__name__", "")):
                calls[node.meta.get("stack_trace") or ""] += 1
    return calls.total(), inputs, outputs, tuple(calls.items())


def _with_bodies(gm: Any) -> Iterator[Any]:
    """Yield a graph, and those of the modules that it hands to higher-order operators."""
    todo = [gm]
    while todo:
        module = todo.pop()
        yield module.graph
        names = {node.target for node in module.graph.nodes if node.op == "get_attr"}
        bodies = (getattr(module, name, None) for name in names if "." not in name)
        todo += [body for body in bodies if hasattr(body, "graph")]


MOST_FUNCTIONS: Final = 40
"""The most functions of one graph that are reported: those with the most operations."""

_STACK_FRAME: Final = re.compile(r'File "([^"\n]*)", line (\d{1,9}), in ([^\n]*)')
"""``File "/home/me/model.py", line 12, in forward``"""
_PASSES_ALL_ON: Final = re.compile(r"\(.{0,80}\*\w+.{0,80}\*\*\w+")
"""The line of a decorator's wrapper that calls its function: ``return f(*args, **kwargs)``."""


def functions(calls: Calls, places: Places) -> dict[str, int]:
    """Return how many operations each function holds, with those of the functions that it calls.

    The keys are ``file::qualified.name``, the most operations first; only the user's functions, and
    not the wrapper of a decorator.
    """
    counts: Counter[str] = Counter()
    names: dict[tuple[str, str, str], str] = {}
    for stack, number in calls:
        lines: list[tuple[str, str, str]] = _STACK_FRAME.findall(stack)
        for line in lines:
            if line not in names:
                names[line] = _function_name(*line, places)
        for name in {names[line] for line in lines} - {""}:
            counts[name] += number
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MOST_FUNCTIONS])


def _function_name(file: str, line: str, name: str, places: Places) -> str:
    """Return the function of a frame; empty if it is not to be reported."""
    if not places.is_user(file):
        return ""
    frame = places.frame(file, int(line), name.strip())
    return "" if _PASSES_ALL_ON.search(frame.code) else f"{frame.file}::{frame.function}"
