"""Makes numbers that are read from tensors constants of the graph, which checks them."""

from __future__ import annotations

import torch

from pytest_graphbreak.repair.remedies.programs.arguments import _graphbreak_arguments

# The program.


_graphbreak_case = ""


def _graphbreak_read(tensor):
    return tensor.tolist()


_graphbreak_constant = torch._dynamo.assume_constant_result(_graphbreak_read)


def _graphbreak_numbers(tensor):
    """The numbers of a tensor as constants of the graph, which checks them in each call."""
    if not isinstance(tensor, torch.Tensor):
        return tensor
    if not torch.compiler.is_compiling():
        return tensor.tolist()
    if _graphbreak_case == "":  # to read it is a guard: other small inputs, another graph
        pass
    numbers = _graphbreak_constant(tensor)
    known = torch.tensor(numbers, dtype=tensor.dtype, device=tensor.device)
    same = (tensor == known) | (tensor != tensor)
    torch._assert_async(same.all(), "graphbreak: numbers that are constants of the graph changed")
    return numbers


_graphbreak_set = torch._graphbreak_numbers = _graphbreak_numbers


def _graphbreak_by_case(model, inner):
    """Compile anew for other values of small integer arguments, but for ids and labels."""

    def call(*args, **kwargs):
        global _graphbreak_case
        case = []

        def see(name, tensor):
            whole = not tensor.is_floating_point() and not tensor.is_complex()
            if whole and tensor.numel() <= 4096 and not name.endswith(("ids", "labels")):
                case.append((name, tensor.tolist()))
            return tensor

        _graphbreak_arguments(model, args, kwargs, see)
        _graphbreak_case = repr(case)
        return inner(*args, **kwargs)

    return call
