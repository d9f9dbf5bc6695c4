"""Makes Python floats tensors."""

from __future__ import annotations

import torch

# The program.


def _graphbreak_numbers_as_tensors(model, inner):
    """Python floats that are arguments of the compiled code are tensors."""

    from torch.utils._pytree import tree_leaves

    def dtype_for(given):
        """The dtype that gives what a Python float gives with these tensors; None if none does."""
        tensors = [one for one in tree_leaves(given) if isinstance(one, torch.Tensor)]
        dtypes = {one.dtype for one in tensors if one.is_floating_point() or one.is_complex()}
        if not dtypes & {torch.float64, torch.complex128}:
            short = [one for one in tensors if one.dtype in (torch.bfloat16, torch.float16)]
            return torch.get_default_dtype() if all(one.dim() for one in short) else None
        whole = all(one.is_floating_point() or one.is_complex() for one in tensors)
        return torch.float64 if whole and len(dtypes) == 1 else None

    def call(*args, **kwargs):
        exact = dtype_for((args, kwargs))

        def as_tensor(value):
            known = exact is not None and type(value) is float
            return torch.tensor(value, dtype=exact) if known else value

        kwargs = {key: as_tensor(value) for key, value in kwargs.items()}
        return inner(*map(as_tensor, args), **kwargs)

    return call
