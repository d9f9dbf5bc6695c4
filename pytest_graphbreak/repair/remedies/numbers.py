"""A Python number that varies becomes a tensor, whose value is no constant of the graph.

Before::

    python_offset = 0

    def score_mod(score, b, h, q_idx, kv_idx):
        return score + (q_idx + python_offset)

After::

    python_offset = 0
    python_offset_tensor = torch.tensor(python_offset)

    def score_mod(score, b, h, q_idx, kv_idx):
        return score + (q_idx + python_offset_tensor)

and the tensor is made again wherever the number is set. Numbers that are arguments, or that a
function among the arguments closes over, are passed as tensors by a wrapper of ``torch.compile``.

When not: where the number is a size, an index of a list, or decides an ``if``. Where no dtype acts
like the number with the tensors of a call (bfloat16 without dimensions), it stays a number.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

import libcst as cst
from libcst import matchers as m

from pytest_graphbreak import advice
from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.patch import Edit, Rewrite, SourcePatch
from pytest_graphbreak.repair.rewrite.helpers import helper, wrap_calls
from pytest_graphbreak.repair.rewrite.tree import Tree, parse, statements
from pytest_graphbreak.repair.trial import Trial

if TYPE_CHECKING:
    import torch

_OTHERS: Final = frozenset({"size", "zero-one", "shape-branch", "stride"})
"""Families of guards that are about a size, not about a number."""


def recompiles(trial: Trial) -> Iterator[SourcePatch]:
    for name, frame in _globals(trial).items():
        title = f"the number {name} of the module became a tensor"
        change = _ON_DEVICE if trial.record.graphs.get("xla") else of_module
        yield SourcePatch(title, (Rewrite(change, frame),))
    numbers = arguments(trial)
    families = {advice.name(item) for item in trial.record.recompile_list} - {""}
    if numbers and families - _OTHERS:
        yield SourcePatch("Python numbers that vary became tensors", numbers)


def arguments(trial: Trial) -> tuple[Edit, ...]:
    """Return the edits that pass Python numbers that vary as tensors; empty if none varies."""
    if not trial.numbers:
        return ()
    wrap = wrap_calls(_graphbreak_as_tensors, dict(trial.numbers))
    return helper(_graphbreak_like), *wrap


def _globals(trial: Trial) -> dict[str, Frame]:
    """Return the numbers of modules that failed guards name, each with a place for its rewrite."""
    frames: dict[str, Frame] = {}
    for item in trial.record.recompile_list:
        name = item.reason.partition(" == ")[0].strip()
        for frame in (item.guard, item.where):
            source = trial.source(frame) if name.isidentifier() else ""
            if source and name not in frames and _set_at(parse(source), name):
                frames[name] = Frame(frame.file, "<module>", 0, name)
    return frames


@lru_cache(maxsize=64)
def of_module(source: str, where: Frame, on_device: bool = False) -> str | None:
    """Return a file in which functions read a tensor in place of a number of the module.

    The code of the place is the name of the number. torch_xla splits a graph at a tensor on the CPU
    (``torch_xla/_dynamo/dynamo_bridge.py``): ``on_device`` makes it there.
    """
    tree, name = parse(source), where.code
    arguments = f'{name}, device="xla"' if on_device else name
    conversion = statements(f"{name}_tensor = torch.tensor({arguments})")
    changes: dict[cst.CSTNode, list[cst.CSTNode]] = {}
    for node in _set_at(tree, name):
        if isinstance(node, cst.For) and isinstance(node.body, cst.IndentedBlock):
            changes[node.body] = [node.body.with_changes(body=[*conversion, *node.body.body])]
        else:
            changes[node] = [node, *conversion]
    readers = _readers(tree, name)
    if not changes or not readers:
        return None
    changes |= {node: [cst.Name(f"{name}_tensor")] for node in readers}
    for node in m.findall(tree.module, m.Global()):
        names = cst.ensure_type(node, cst.Global).names
        if any(item.name.value == name for item in names):
            both = [cst.NameItem(item.name) for item in names]
            changes[node] = [cst.Global([*both, cst.NameItem(cst.Name(f"{name}_tensor"))])]
    return tree.replaced(changes)


_ON_DEVICE: Final = partial(of_module, on_device=True)


def _set_at(tree: Tree, name: str) -> list[cst.CSTNode]:
    """Return the statements that set a variable of the module: lines, and ``for`` loops."""
    scope, lines = tree.scopes[tree.module], []
    for assignment in scope.assignments[name] if scope is not None else ():
        node: cst.CSTNode = getattr(assignment, "node", tree.module)
        if not isinstance(node, cst.Name):
            return []
        while not isinstance(node, cst.SimpleStatementLine | cst.For | cst.With | cst.Module):
            node = tree.parents[node]
        if not isinstance(node, cst.SimpleStatementLine | cst.For):
            return []
        lines.append(node)
    return list(dict.fromkeys(lines))


def _readers(tree: Tree, name: str) -> list[cst.CSTNode]:
    """Return where functions read a variable of the module that they do not set."""
    scope = tree.scopes[tree.module]
    assert scope is not None
    read = [access for assignment in scope.assignments[name] for access in assignment.references]
    setters = {tree.scopes[node] for node in m.findall(tree.module, m.Global())}
    return list({x.node: None for x in read if x.scope is not scope and x.scope not in setters})


def _graphbreak_like(kind: Any, inputs: Any) -> Any:
    """Return the dtype that acts like a Python number with these tensors; None if there is none."""
    from torch.utils._pytree import tree_leaves

    tensors = [leaf for leaf in tree_leaves(inputs) if isinstance(leaf, torch.Tensor)]
    dtypes = {x.dtype for x in tensors if x.is_floating_point() or x.is_complex()}
    short = [x for x in tensors if x.dtype in (torch.bfloat16, torch.float16)]
    if kind is int:
        others = {x.dtype for x in tensors} - dtypes - {torch.int64, torch.bool}
        return None if others or short else torch.int64
    if not dtypes & {torch.float64, torch.complex128}:
        return torch.get_default_dtype() if all(x.dim() for x in short) else None
    all_floats = all(x.is_floating_point() or x.is_complex() for x in tensors)
    return torch.float64 if all_floats and len(dtypes) == 1 else None


# Longer than a function of ours should be: it is pasted, and a fixed file gets one for all numbers.
def _graphbreak_as_tensors(model: Any, inner: Any, table: Any) -> Any:
    """Pass Python numbers that vary as tensors: arguments, and closures of functions."""
    import inspect
    import types

    vary = table.get(getattr(model, "__qualname__", type(model).__qualname__), ())
    called = model.forward if isinstance(model, torch.nn.Module) else model
    names = list(inspect.signature(called).parameters)

    def with_tensors(name: str, function: Any, inputs: Any) -> Any:
        pairs = zip(function.__code__.co_freevars, function.__closure__)
        cells = [
            types.CellType(as_tensor(f"{name}.{variable}", cell.cell_contents, inputs))
            if f"{name}.{variable}" in vary
            else cell
            for variable, cell in pairs
        ]
        twin = types.FunctionType(function.__code__, function.__globals__, closure=tuple(cells))
        twin.__defaults__, twin.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
        return twin

    def on_device(number: Any, inputs: Any) -> Any:
        tensors = [x for x in torch.utils._pytree.tree_leaves(inputs) if hasattr(x, "device")]
        device = next((x.device for x in tensors if x.device.type == "xla"), None)
        if device is None:
            return number
        import torch_xla.core.xla_model as xm

        return xm.send_cpu_data_to_device([number], device)[0]  # what .to() moves is a constant

    def as_tensor(name: str, value: Any, inputs: Any) -> Any:
        dtype = _graphbreak_like(type(value), inputs) if type(value) in (int, float) else None
        if name in vary and dtype is not None:
            return on_device(torch.tensor(value, dtype=dtype), inputs)
        if isinstance(value, types.FunctionType) and any(x.startswith(f"{name}.") for x in vary):
            return with_tensors(name, value, inputs)
        return value

    def call(*args: Any, **kwargs: Any) -> Any:
        inputs = (args, kwargs)
        pairs = [*zip(names, args), *(("", argument) for argument in args[len(names) :])]
        kwargs = {name: as_tensor(name, argument, inputs) for name, argument in kwargs.items()}
        return inner(*(as_tensor(name, argument, inputs) for name, argument in pairs), **kwargs)

    return call
