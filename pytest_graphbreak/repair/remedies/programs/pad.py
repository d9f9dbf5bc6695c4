"""Fills up the sizes that vary to the next bucket."""

from __future__ import annotations

from typing import Any

import torch

from pytest_graphbreak.repair.remedies.programs.arguments import (
    _graphbreak_arguments,
    _graphbreak_name,
)

_graphbreak_buckets: dict[str, Any] = {}

# The program.


def _graphbreak_pad(model, inner):
    """Fill up the sizes that vary with zeros to the next bucket, and cut the results back."""
    from torch.utils._pytree import tree_flatten, tree_unflatten

    table = _graphbreak_buckets.get(_graphbreak_name(model))
    if table is None:
        return inner
    # On an xla device each size would be a graph again for the padding: there it is the host's.
    at_home = torch.device("cpu")

    def bucket(size, first):
        while first < size:
            first *= 2
        return first

    def padded(tensor, dims):
        where = at_home if tensor.device.type == "xla" else tensor.device
        amounts = [0] * (2 * tensor.dim())
        for dim, first in dims.items():
            amounts[2 * (tensor.dim() - dim) - 1] = bucket(tensor.shape[dim], first) - (
                tensor.shape[dim]
            )
        if not any(amounts):
            return tensor
        return torch.nn.functional.pad(tensor.to(where), amounts).to(tensor.device)

    def call(*args, **kwargs):
        sizes = {}

        def look(name, tensor):
            for dim in table["dims"].get(name, ()):
                if dim < tensor.dim() and tensor.shape[dim]:
                    sizes[name, dim] = tensor.shape[dim]
            return tensor

        _graphbreak_arguments(model, args, kwargs, look)
        if len(sizes) < sum(len(dims) for dims in table["dims"].values()):
            return inner(*args, **kwargs)  # other arguments than those that were seen
        args, kwargs = _graphbreak_arguments(
            model,
            args,
            kwargs,
            lambda name, tensor: padded(tensor, table["dims"].get(name, {})),
        )
        leaves, spec = tree_flatten(inner(*args, **kwargs))
        if len(leaves) != table["results"]:
            raise RuntimeError(f"padding: {len(leaves)} results, not {table['results']}")
        cuts = {}
        for number, dim, name, source in table["follow"]:
            size = sizes[name, source]
            wanted = bucket(size, table["dims"][name][source])
            if leaves[number].shape[dim] != wanted:
                raise RuntimeError(
                    f"padding: size {leaves[number].shape[dim]} of result {number}, not {wanted}"
                )
            if size < wanted:
                cuts.setdefault(number, []).append((dim, size))
        for number, these in cuts.items():
            leaf = leaves[number]
            cut = leaf.to(at_home) if leaf.device.type == "xla" else leaf
            for dim, size in these:
                cut = cut.narrow(dim, 0, size)
            leaves[number] = cut.to(leaf.device)
        return tree_unflatten(leaves, spec)

    return call
