"""Turns a function into one node of the graph, which runs the function as it is."""

from __future__ import annotations

import torch

# The program.


_graphbreak_ops = []


def _graphbreak_kept(a, b):
    """Return whether a tensor equals its copy: NaN equals NaN, and 0.0 differs from -0.0."""
    same = a == b
    if a.is_floating_point():
        same = same & (torch.signbit(a) == torch.signbit(b))
    return (same | ((a != a) & (b != b))).all()


def _graphbreak_called(function):
    name = getattr(function, "__name__", "")
    return name if name.isidentifier() else "call"


def _graphbreak_parameters(function):
    code = getattr(function, "__code__", None)
    return code.co_varnames[: code.co_argcount] if code is not None else ()


def _graphbreak_checked(name, result, wanted, given, copies):
    """Return the result in the expected form.

    Raises ``TypeError`` if its shape or dtype is another, or if an argument was changed.
    """
    if not isinstance(result, torch.Tensor):
        raise TypeError(f"{name}: the result is no tensor")
    if (result.shape, result.dtype) != (wanted.shape, wanted.dtype):
        raise TypeError(f"{name}: the result is not of the shape and dtype that it was to be")
    if not all(map(_graphbreak_kept, given, copies)):
        raise TypeError(f"{name}: it changes an argument")
    return wanted.copy_(result)


def _graphbreak_op(function, shape=None):
    """Return a function of tensors as one node of the graph, which runs it as it is in each call.

    Its result has the shape and the dtype of its first argument, or the given shape. A numpy
    function gets arrays where the code passes arrays.
    """
    import functools

    name = f"{_graphbreak_called(function)}_{len(_graphbreak_ops)}"
    names = _graphbreak_parameters(function)
    numpy = str(getattr(function, "__module__", "")).partition(".")[0] == "numpy"

    def like(given):
        return torch.empty_like(given[0]) if shape is None else given[0].new_empty(shape)

    def run(given):
        copies = [one.clone() for one in given]
        result = function(*(one.numpy() if numpy else one for one in copies))
        result = torch.as_tensor(result) if numpy else result
        return _graphbreak_checked(name, result, like(given), given, copies)

    op = torch.library.custom_op(
        f"graphbreak::{name}", run, mutates_args=(), schema="(Tensor[] given) -> Tensor"
    )
    op.register_fake(like)
    # Call it even if its result is not used: the function may have side effects.
    torch.fx.node.has_side_effect(op._opoverload)
    _graphbreak_ops.append(op)

    # Do not copy the names: Dynamo recognizes numpy functions by the name of their module.
    @functools.wraps(function, assigned=())
    def call(*args, **kwargs):
        if not torch.compiler.is_compiling():
            return function(*args, **kwargs)
        given = [*args, *(kwargs[key] for key in names[len(args) : len(args) + len(kwargs)])]
        if not numpy or all(isinstance(one, torch.Tensor) for one in given):
            return op(given)
        return op([torch.as_tensor(one) for one in given]).numpy()

    return call


def _graphbreak_scalar_op(function):
    """Return a function as one node of the graph whose result has no dimensions."""
    return _graphbreak_op(function, ())
