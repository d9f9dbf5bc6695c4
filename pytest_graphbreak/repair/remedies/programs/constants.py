"""Turns numbers that are read from tensors into constants of the graph, which checks them."""

from __future__ import annotations

import torch

from pytest_graphbreak.repair.remedies.programs.arguments import _graphbreak_arguments

# The program.


_graphbreak_case = ""


def _graphbreak_read(tensor):
    return tensor.tolist()


_graphbreak_constant = torch._dynamo.assume_constant_result(_graphbreak_read)


def _graphbreak_numbers(value):
    """Return the numbers of tensors as constants of the graph, which checks them in each call."""
    if isinstance(value, (list, tuple)):
        return type(value)([_graphbreak_numbers(one) for one in value])
    if not isinstance(value, torch.Tensor):
        return value
    if not torch.compiler.is_compiling():
        return value.tolist()
    if _graphbreak_case == "":  # reading it adds a guard: other small inputs get another graph
        pass
    numbers = _graphbreak_constant(value)
    known = torch.tensor(numbers, dtype=value.dtype, device=value.device)
    same = (value == known) | ((value != value) & (known != known))
    if value.is_floating_point():  # 0.0 == -0.0, and 1 / x distinguishes them
        same = same & ((torch.signbit(value) == torch.signbit(known)) | (value != value))
    torch._assert_async(same.all(), "graphbreak: numbers that are constants of the graph changed")
    return numbers


def _graphbreak_nonzero(mask):
    """Return where a tensor is not zero; the number of places is a constant, which is checked."""
    if not torch.compiler.is_compiling():
        return mask.nonzero()
    return torch.nonzero_static(mask, size=_graphbreak_numbers((mask != 0).sum()))


def _graphbreak_places(index):
    """Return where a mask is not zero, as a tuple; return anything else unchanged."""
    if not isinstance(index, torch.Tensor) or index.dtype != torch.bool:
        return index
    return _graphbreak_nonzero(index).unbind(1)


def _graphbreak_each(index):
    """Return the places of a mask, or the index itself, as a tuple: one part of a longer index."""
    places = _graphbreak_places(index)
    return (index,) if places is index else places


# Set these even if the file is only imported: its functions call them.
_graphbreak_set = torch._graphbreak_numbers = _graphbreak_numbers
_graphbreak_set = torch._graphbreak_nonzero = _graphbreak_nonzero
_graphbreak_set = torch._graphbreak_places = _graphbreak_places
_graphbreak_set = torch._graphbreak_each = _graphbreak_each


def _graphbreak_by_case(model, inner):
    """Compile again for other values of small integer arguments, except for ids and labels."""
    free = ("input_ids", "position_ids", "labels")

    def call(*args, **kwargs):
        global _graphbreak_case
        case = []

        def see(name, tensor):
            whole = not tensor.is_floating_point() and not tensor.is_complex()
            if whole and tensor.numel() <= 4096 and not name.endswith(free):
                case.append((name, tensor.tolist()))
            return tensor

        _graphbreak_arguments(model, args, kwargs, see)
        _graphbreak_case = repr(case)
        return inner(*args, **kwargs)

    return call
