"""The functions that a fixed file gets, read from their own source without annotations.

A helper is a function of the module of its remedy, or of this one; its name begins with
``_graphbreak_``, it imports what it needs but ``torch``, and it stands in a fixed file once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import libcst as cst

from pytest_graphbreak.repair.patch import Preamble

if TYPE_CHECKING:
    import torch


@cache
def helper(function: Callable[..., Any]) -> Preamble:
    """Return a function of this package as statements for the head of a fixed file."""
    module = cst.parse_module(inspect.getsource(function))
    return Preamble(module.visit(_WithoutTypes()).code.strip())


class _WithoutTypes(cst.CSTTransformer):
    def leave_Param(self, original_node: cst.Param, updated_node: cst.Param) -> cst.Param:
        equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
        changed = updated_node.with_changes(annotation=None)
        return changed.with_changes(equal=equal) if changed.default is not None else changed

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        one_line = cst.SimpleWhitespace("")
        return updated_node.with_changes(returns=None, whitespace_before_params=one_line)

    def leave_AnnAssign(
        self, original_node: cst.AnnAssign, updated_node: cst.AnnAssign
    ) -> cst.Assign | cst.AnnAssign:
        if updated_node.value is None:
            return updated_node
        return cst.Assign([cst.AssignTarget(updated_node.target)], updated_node.value)


def wrap_calls(wrap: Callable[..., Any], *options: Any) -> tuple[Preamble, ...]:
    """Return the statements that wrap each call of what torch.compile compiles.

    ``wrap(model, compiled, *given)`` is a helper that returns what is called in its place.
    """
    text = ", ".join([wrap.__name__, *map(repr, options)])
    call = Preamble(f"torch.compile = _graphbreak_around({text})")
    return helper(_graphbreak_around), helper(wrap), call


def _graphbreak_around(wrap: Any, *extra: Any) -> Any:
    """Return a torch.compile that gives wrap(model, compiled, ...) in place of what it compiled."""
    import functools

    compile = torch.compile

    @functools.wraps(compile)
    def wrapped(model: Any = None, **options: Any) -> Any:
        if model is None:
            return lambda function: wrapped(function, **options)
        compiled = compile(model, **options)
        is_module = isinstance(compiled, torch.nn.Module)
        inner = compiled.forward if is_module else compiled
        outer = wrap(model, inner, *extra)

        @functools.wraps(inner)
        def call(*args: Any, **kwargs: Any) -> Any:
            return (inner if torch.compiler.is_compiling() else outer)(*args, **kwargs)

        if is_module:
            compiled.__dict__["forward"] = call
            return compiled
        return call

    return wrapped


def _graphbreak_tensors(model: Any, args: Any, kwargs: Any) -> Any:
    """Return the tensors of a call with their names: x, batch['ids'], *2."""
    import inspect

    from torch.utils._pytree import keystr, tree_flatten_with_path

    called = model.forward if isinstance(model, torch.nn.Module) else model
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in inspect.signature(called).parameters.values() if p.kind in kinds]
    names += [f"*{at}" for at in range(len(names), len(args))]
    return [
        (name + keystr(path), leaf)
        for name, value in [*zip(names, args), *kwargs.items()]
        for path, leaf in tree_flatten_with_path(value)[0]
        if isinstance(leaf, torch.Tensor)
    ]
