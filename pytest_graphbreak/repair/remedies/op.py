"""Code that Dynamo cannot follow becomes one node of the graph, which runs it as it is.

Before::

    def helper(x):
        seed = hashlib.md5(b"abc").digest()[0]
        return x * seed

After: ``@torch._dynamo.nonstrict_trace`` above it, where the function only computes with tensors
and constants: its operations go into the graph. Where it needs numbers of tensors (numpy, a list),
``@_graphbreak_op``, a custom op whose result has the shape and dtype of its first argument;
``@_graphbreak_scalar_op`` has a result without dimensions. A C function of constants
(``zlib.crc32(b"abc")``) is a constant.

When not: nonstrict_trace does what the function does besides computing once, when it is compiled. A
custom op has no gradient and stays a call of Python: no device compiler takes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import libcst as cst
from libcst import matchers as m

from pytest_graphbreak import advice
from pytest_graphbreak.model.record import Break, Frame
from pytest_graphbreak.repair.patch import Edit, Preamble, Rewrite, SourcePatch
from pytest_graphbreak.repair.remedies.enable import decorating
from pytest_graphbreak.repair.rewrite.helpers import helper
from pytest_graphbreak.repair.rewrite.names import computes, draws
from pytest_graphbreak.repair.rewrite.reasons import inlined_frames
from pytest_graphbreak.repair.rewrite.tree import Tree, calls, parse, places
from pytest_graphbreak.repair.trial import Trial

if TYPE_CHECKING:
    import torch

_CONSTANT: Final = frozenset(
    {"zlib.crc32", "zlib.adler32", "binascii.crc32", "unicodedata.normalize", "textwrap.dedent"}
)
"""C functions whose result depends only on their arguments: constant for constant arguments."""
_SYSTEM: Final = frozenset(
    {"torch", "time", "datetime", "os", "sys", "random", "uuid", "math", "builtins", "logging"}
)
"""Modules whose functions take no tensors, or give what is not computed from them."""
_READ: Final = frozenset({"branch", "compare", "item", "loop", "mask", "nonzero", "tolist"})
"""Families where values are read: only code that runs in each call can help."""
_NEVER: Final = frozenset({"print", "logging", "warnings", "disabled", "graph-break", "assert"})
"""Families that other remedies are for: a node of the graph would only hide the line."""
_PURE: Final = frozenset({"hashlib", "itertools", "math", "numpy", "operator", "torch", "zlib"})
_RESULTS: Final = {"_graphbreak_op": "like its first argument", "_graphbreak_scalar_op": "a scalar"}


def propose(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    name = advice.name(item)
    if name in _NEVER:
        return
    if name not in _READ:
        yield from _propose_calls(item, trial)
    for frame in list(inlined_frames(item, trial))[:2]:
        yield from _propose_function(
            frame, trial, traces=name not in _READ and trial.torch >= (2, 7)
        )


def _propose_calls(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose to make each function of another module that the line calls one node."""
    source = trial.source(item.where)
    for full in _functions(source, item.where) if source else ():
        module = full.rpartition(".")[0]
        load = Preamble(f"import {module}")
        if full in _CONSTANT:
            call = f"lambda *args, _call={full}: _call(*args)"
            line = Preamble(f"{full} = torch._dynamo.assume_constant_result({call})")
            yield SourcePatch(f"{full} of constants is a constant", (load, line))
        elif module and module.partition(".")[0] not in _SYSTEM and module != "numpy.random":
            for decorator in _RESULTS:
                wrap = Preamble(f"{full} = {decorator}({full})")
                yield _custom_op(full, decorator, load, *_HELPERS, wrap)


def _functions(source: str, where: Frame) -> list[str]:
    """Return the full names of the functions of other modules that the lines of a place call."""
    names = [
        name
        for place in places(source, where)
        for call in calls(place.node)
        for name in sorted(place.tree.names_of(call.func))
        if "<locals>" not in name and _is_imported(call.func, place.tree)
    ]
    return list(dict.fromkeys(names))


def _is_imported(node: cst.BaseExpression, tree: Tree) -> bool:
    while isinstance(node, cst.Attribute):
        node = node.value
    access = tree.accesses.get(node) or tree.accesses.get(tree.parents.get(node, node))
    nodes = [getattr(referent, "node", None) for referent in access.referents] if access else []
    return bool(nodes) and all(isinstance(node, cst.Import | cst.ImportFrom) for node in nodes)


def _propose_function(frame: Frame, trial: Trial, *, traces: bool) -> Iterator[SourcePatch]:
    """Propose to make the function of a frame one node."""
    source, short = trial.source(frame), frame.function.rpartition(".")[2]
    tree = parse(source) if source else None
    node = next((x for name, x in tree.functions if name == frame.function), None) if tree else None
    if tree is None or node is None:
        return
    if traces:
        title = f"nonstrict_trace: {short} is one node of Dynamo's graph"
        edit = Rewrite(nonstrict, frame, decorator="torch._dynamo.nonstrict_trace")
        once = f"what {short} does or reads besides its arguments happens once, when compiled"
        yield SourcePatch(title, (edit,), drops="" if _only_computes(node, tree) else once)
    if not node.params.params or node.params.params[0].name.value not in ("self", "cls"):
        for decorator in _RESULTS:
            edit = Rewrite(_DECORATES[decorator], frame, decorator=decorator)
            yield _custom_op(short, decorator, *_HELPERS, edit)


def _only_computes(node: cst.FunctionDef, tree: Tree) -> bool:
    """Return whether a function visibly reads only its arguments, and changes nothing."""
    bad = m.Global() | m.Nonlocal() | m.Yield() | m.AugAssign() | m.With() | m.Del() | m.Import()
    stores = m.AssignTarget(target=m.OneOf(m.Attribute(), m.Subscript()))
    if m.findall(node.body, bad | stores) or draws([node.body]):
        return False
    for call in calls(node.body):
        roots = {name.partition(".")[0] for name in tree.names_of(call.func)}
        if not computes(call) and not (roots and roots <= _PURE and _is_imported(call.func, tree)):
            return False
    module = tree.scopes[tree.module]
    nodes = {x for x in tree.accesses if tree.start(node) <= tree.start(x) < tree.end(node)}
    outer = [a for x in nodes for a in tree.accesses[x].referents if a.scope is module]
    return all(isinstance(getattr(x, "node", None), cst.Import | cst.ImportFrom) for x in outer)


def _custom_op(name: str, decorator: str, *edits: Edit) -> SourcePatch:
    return SourcePatch(
        f"a custom op: {name}, uncompiled inside of the graph, gives {_RESULTS[decorator]}",
        edits,
        note=f"{name} runs as it is, inside of the graph; its gradients are not known",
    )


nonstrict: Final = decorating("torch._dynamo.nonstrict_trace")
_DECORATES: Final = {name: decorating(name) for name in _RESULTS}


# Longer than a function of ours should be: it is pasted, and a fixed file gets one for an op.
def _graphbreak_op(function: Any, shape: Any = None) -> Any:
    """Return a function of tensors as one node of the graph, which runs it as it is in each call.

    Its result has the shape and the dtype of its first argument, or the given shape. A function of
    numpy gets arrays where the code passes arrays. Raises TypeError for another result, and where
    it changes an argument: the change would be lost.
    """
    import functools

    name = str(getattr(function, "__name__", "call"))
    names = getattr(getattr(function, "__code__", None), "co_varnames", ())
    numpy = str(getattr(function, "__module__", "")).partition(".")[0] == "numpy"

    def like(tensors: Any) -> Any:
        return torch.empty_like(tensors[0]) if shape is None else tensors[0].new_empty(shape)

    def equal(a: Any, b: Any) -> Any:
        same = a == b
        if a.is_floating_point():  # 0.0 is not -0.0
            same = same & (torch.signbit(a) == torch.signbit(b))
        return (same | ((a != a) & (b != b))).all()

    def run(tensors: Any) -> Any:
        copies, output = [x.clone() for x in tensors], like(tensors)
        result = function(*(x.numpy() if numpy else x for x in copies))
        result = torch.as_tensor(result) if numpy else result
        if not isinstance(result, torch.Tensor):
            raise TypeError(f"{name}: the result is no tensor")
        if (result.shape, result.dtype) != (output.shape, output.dtype):
            raise TypeError(f"{name}: the result is not of the shape and dtype that it was to be")
        if not all(map(equal, tensors, copies)):
            raise TypeError(f"{name}: it changes an argument")
        return output.copy_(result)

    op: Any = torch.library.custom_op(
        f"graphbreak::{name if name.isidentifier() else 'call'}_{id(function)}",
        run,
        mutates_args=(),
        schema="(Tensor[] tensors) -> Tensor",
    )
    op.register_fake(like)
    torch.fx.node.has_side_effect(op._opoverload)  # called even if its result is not used

    # Without the names: Dynamo recognizes functions of numpy by the name of their module.
    @functools.wraps(function, assigned=())
    def call(*args: Any, **kwargs: Any) -> Any:
        if not torch.compiler.is_compiling():
            return function(*args, **kwargs)
        tensors = [*args, *(kwargs[key] for key in names[len(args) : len(args) + len(kwargs)])]
        if not numpy or all(isinstance(x, torch.Tensor) for x in tensors):
            return op(tensors)
        return op([torch.as_tensor(x) for x in tensors]).numpy()

    return call


def _graphbreak_scalar_op(function: Any) -> Any:
    """Return a function as one node of the graph whose result has no dimensions."""
    return _graphbreak_op(function, ())


_HELPERS: Final = (helper(_graphbreak_op), helper(_graphbreak_scalar_op))
