"""Passes values to functions that Dynamo calls after the graph, which take tensors and constants.

A number that is an input of the graph, or read from a tensor, is neither: it is passed as a tensor.
"""

from __future__ import annotations

import torch

# The program.


def _graphbreak_given(value, copies=False):
    """Return a value for a function that is called later, and whether it was a number."""
    if isinstance(value, torch.Tensor):
        return value.clone() if copies else value, False
    if type(value) is float:
        return torch.tensor(value, dtype=torch.float64), True
    if type(value) is int:
        return torch.tensor(value, dtype=torch.int64), True
    return value, False


def _graphbreak_values(given):
    """Return the values that were passed in this way."""
    return [one.item() if number else one for one, number in zip(given[::2], given[1::2])]


def _graphbreak_held(address):
    """Return the object with this id: the code that is compiled for it holds it."""
    import ctypes

    return ctypes.cast(address, ctypes.py_object).value
