"""Turns Python numbers into tensors."""

from __future__ import annotations

from typing import Any

import torch

from pytest_graphbreak.repair.remedies.programs.arguments import _graphbreak_name

_graphbreak_vary: dict[str, Any] = {}

# The program.


def _graphbreak_dtype_for(kind, given):
    """Return the dtype that acts like a Python number with these tensors; None if there is none."""
    from torch.utils._pytree import tree_leaves

    tensors = [one for one in tree_leaves(given) if isinstance(one, torch.Tensor)]
    dtypes = {one.dtype for one in tensors if one.is_floating_point() or one.is_complex()}
    short = [one for one in tensors if one.dtype in (torch.bfloat16, torch.float16)]
    if kind is int:
        others = {one.dtype for one in tensors} - dtypes - {torch.int64, torch.bool}
        return None if others or short else torch.int64
    if not dtypes & {torch.float64, torch.complex128}:
        return torch.get_default_dtype() if all(one.dim() for one in short) else None
    whole = all(one.is_floating_point() or one.is_complex() for one in tensors)
    return torch.float64 if whole and len(dtypes) == 1 else None


def _graphbreak_near(number, given):
    """Return a tensor on the xla device of those given: a scalar that .to() moves is pending."""
    from torch.utils._pytree import tree_leaves

    devices = [one.device for one in tree_leaves(given) if isinstance(one, torch.Tensor)]
    device = next((one for one in devices if one.type == "xla"), None)
    if device is None:
        return number
    import torch_xla.core.xla_model as xm

    return xm.send_cpu_data_to_device([number], device)[0]


def _graphbreak_numbers_as_tensors(model, inner):
    """Pass Python numbers that vary as tensors: arguments, and closures of functions."""
    import inspect
    import types

    vary = _graphbreak_vary.get(_graphbreak_name(model), ())
    called = model.forward if isinstance(model, torch.nn.Module) else model
    names = list(inspect.signature(called).parameters)

    def closed(name, function, given):
        """Return the function with tensors in place of the numbers that vary in its closure."""
        cells = [
            types.CellType(as_tensor(f"{name}.{inside}", cell.cell_contents, given))
            if f"{name}.{inside}" in vary
            else cell
            for inside, cell in zip(function.__code__.co_freevars, function.__closure__)
        ]
        made = types.FunctionType(function.__code__, function.__globals__, closure=tuple(cells))
        made.__defaults__, made.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
        return made

    def as_tensor(name, value, given):
        exact = _graphbreak_dtype_for(type(value), given) if type(value) in (int, float) else None
        if name in vary and exact is not None:
            return _graphbreak_near(torch.tensor(value, dtype=exact), given)
        if isinstance(value, types.FunctionType) and any(
            one.startswith(f"{name}.") for one in vary
        ):
            return closed(name, value, given)
        return value

    def call(*args, **kwargs):
        given = (args, kwargs)
        named = [*zip(names, args), *(("", one) for one in args[len(names) :])]
        kwargs = {name: as_tensor(name, one, given) for name, one in kwargs.items()}
        return inner(*(as_tensor(name, one, given) for name, one in named), **kwargs)

    return call
