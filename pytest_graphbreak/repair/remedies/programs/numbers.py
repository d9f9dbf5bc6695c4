"""Makes Python floats tensors."""

from __future__ import annotations

import torch

# The program.


def _graphbreak_numbers_as_tensors(model, inner):
    """Python floats that are arguments of the compiled code are tensors."""

    def call(*args, **kwargs):
        def as_tensor(value):
            # As exact as a Python float, and without a say in the dtype of what has dimensions.
            exact = torch.float64
            return torch.tensor(value, dtype=exact) if type(value) is float else value

        kwargs = {key: as_tensor(value) for key, value in kwargs.items()}
        return inner(*map(as_tensor, args), **kwargs)

    return call
