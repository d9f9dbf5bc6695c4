"""Pads the sizes that vary to the next bucket."""

from __future__ import annotations

from typing import Any

import torch

from pytest_graphbreak.repair.remedies.programs.arguments import (
    _graphbreak_arguments,
    _graphbreak_name,
)

_graphbreak_buckets: dict[str, Any] = {}

# The program.


def _graphbreak_bucket(size, first):
    while first < size:
        first *= 2
    return first


def _graphbreak_at_home(tensor):
    """Return the device to pad on: the CPU for xla, where each size would compile another graph."""
    return torch.device("cpu") if tensor.device.type == "xla" else tensor.device


def _graphbreak_padded(table, name, tensor):
    """Return a tensor whose sizes that vary are padded with zeros."""
    amounts = [0] * (2 * tensor.dim())
    for dim, first in table["dims"].get(name, {}).items():
        size = tensor.shape[dim]
        amounts[2 * (tensor.dim() - dim) - 1] = _graphbreak_bucket(size, first) - size
    if not any(amounts):
        return tensor
    where = _graphbreak_at_home(tensor)
    return torch.nn.functional.pad(tensor.to(where), amounts).to(tensor.device)


def _graphbreak_cut_back(table, result, sizes):
    """Cut the results of a padded call to the sizes that the plain call would have given."""
    from torch.utils._pytree import tree_flatten, tree_unflatten

    leaves, spec = tree_flatten(result)
    if len(leaves) != table["results"]:
        raise RuntimeError(f"padding: {len(leaves)} results, not {table['results']}")
    cuts = {}
    for number, dim, name, source in table["follow"]:
        size = sizes[name, source]
        wanted = _graphbreak_bucket(size, table["dims"][name][source])
        if leaves[number].shape[dim] != wanted:
            raise RuntimeError(
                f"padding: size {leaves[number].shape[dim]} of result {number}, not {wanted}"
            )
        if size < wanted:
            cuts.setdefault(number, []).append((dim, size))
    for number, these in cuts.items():
        cut = leaves[number].to(_graphbreak_at_home(leaves[number]))
        for dim, size in these:
            cut = cut.narrow(dim, 0, size)
        leaves[number] = cut.to(leaves[number].device)
    return tree_unflatten(leaves, spec)


def _graphbreak_pad(model, inner):
    """Pad the sizes that vary with zeros to the next bucket, and cut the results back.

    If padding would change a result, the call is made without it.
    """
    table = _graphbreak_buckets.get(_graphbreak_name(model))
    if table is None:
        return inner
    holds = {}

    def padded(name, tensor):
        return _graphbreak_padded(table, name, tensor)

    def call(*args, **kwargs):
        sizes = {}

        def look(name, tensor):
            for dim in table["dims"].get(name, ()):
                if dim < tensor.dim() and tensor.shape[dim]:
                    sizes[name, dim] = tensor.shape[dim]
            return tensor

        def cut_back(result):
            return _graphbreak_cut_back(table, result, sizes)

        _graphbreak_arguments(model, args, kwargs, look)
        wanted = {(name, dim): _graphbreak_bucket(size, table["dims"][name][dim])
                  for (name, dim), size in sizes.items()}
        if len(sizes) < sum(len(dims) for dims in table["dims"].values()) or wanted == sizes:
            return inner(*args, **kwargs)  # not the arguments that were seen, or no padding
        case = tuple(wanted.items())
        if case not in holds:
            holds[case] = _graphbreak_padding_holds(model, inner, padded, cut_back, args, kwargs)
        if not holds[case]:
            return inner(*args, **kwargs)
        args, kwargs = _graphbreak_arguments(model, args, kwargs, padded)
        return cut_back(inner(*args, **kwargs))

    return call


def _graphbreak_padding_holds(model, inner, padded, cut_back, args, kwargs):
    """Return whether the padded call gives the plain results, for these and for other inputs.

    The others have the same sizes: floats that are all above or all below zero, small and large (a
    maximum sees zeros only below, a minimum only above), masks without a zero and with one. The
    check is made once for each bucket. It does not try a row that is masked as a whole.
    """
    module = getattr(model, "__self__", model)
    module = module if isinstance(module, torch.nn.Module) else None
    others = [(0, 0, 1), (1, 1, 1), (-1, -1, 1), (1, -1, 1), (-1, 1, 1), (1, 1, 1e4), (-1, -1, 1e4)]
    with torch.random.fork_rng(devices=[]):
        for odd, even, scale in others:
            for whole in (True, False):  # negative numbers may not be valid indices
                given = _graphbreak_other(model, args, kwargs, (odd, even), scale, whole)
                try:
                    wanted = _graphbreak_plain(model, *given)
                except Exception:
                    if (odd, even) == (0, 0):
                        return False
                    continue
                if not _graphbreak_padding_gives(
                    model, inner, padded, cut_back, module, given, wanted
                ):
                    return False
                break
    return True


def _graphbreak_copy(value):
    """Return a copy of the value that shares nothing; on an xla device this adds no operation."""
    import copy

    if isinstance(value, torch.Tensor):
        one = value.detach().cpu().clone().to(value.device)
        return one.requires_grad_(value.requires_grad)
    return copy.deepcopy(value)


def _graphbreak_other(model, args, kwargs, signs, scale, whole):
    """Return arguments of the same shapes and dtypes, whose tensors take the two signs in turn.

    If ``whole`` is false, integers that are not a mask stay as they are.
    """
    from torch.utils._pytree import tree_map

    turn = []

    def other(name, tensor):
        turn.append(name)
        sign, value = signs[len(turn) % 2], tensor.detach().cpu()
        if sign == 0 or not value.numel():
            return tensor
        if value.is_floating_point() or value.is_complex():
            value = (value.abs() + 1) * (sign * scale)
        elif value.dtype == torch.bool or bool(((value == 0) | (value == 1)).all()):
            value = torch.ones_like(value)
            if sign < 0 and value.dim() and value.shape[-1] > 1:
                value[..., 0] = 0
        elif sign < 0 and whole and tensor.device.type in ("cpu", "xla"):
            value = -value.abs() - 1
        value = value.to(tensor.dtype).to(tensor.device)
        return value.requires_grad_(tensor.requires_grad)

    args, kwargs = tree_map(_graphbreak_copy, (list(args), dict(kwargs)))
    return _graphbreak_arguments(model, args, kwargs, other)


def _graphbreak_plain(model, args, kwargs):
    """Return the result of the uncompiled model; for xla it runs on the host, to make no graph."""
    from torch.utils._pytree import tree_map

    def at_home(value):
        if not isinstance(value, torch.Tensor):
            return value
        return value.detach().cpu() if value.device.type == "xla" else value

    args, kwargs = tree_map(lambda one: at_home(_graphbreak_copy(one)), (args, kwargs))
    with torch.no_grad():
        if not isinstance(model, torch.nn.Module):
            return _graphbreak_brought_home(model)(*args, **kwargs)
        state = {name: at_home(one) for name, one in model.named_parameters()}
        state |= {name: at_home(_graphbreak_copy(one)) for name, one in model.named_buffers()}
        return torch.func.functional_call(model, state, tuple(args), kwargs)


def _graphbreak_brought_home(function):
    """Return a function with the modules and tensors on an xla device that it reads on the host."""
    import types

    if not isinstance(function, types.FunctionType):
        return function
    read = {name: function.__globals__.get(name) for name in function.__code__.co_names}
    held = {name: _graphbreak_on_host(value) for name, value in read.items()}
    moved = {name: value for name, value in held.items() if value is not read[name]}
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    closure = [_graphbreak_on_host(value) for value in cells]
    if not moved and all(new is old for new, old in zip(closure, cells)):
        return function
    found = types.FunctionType(
        function.__code__,
        {**function.__globals__, **moved},
        function.__name__,
        function.__defaults__,
        tuple(map(types.CellType, closure)),
    )
    found.__kwdefaults__ = function.__kwdefaults__
    return found


def _graphbreak_on_host(value):
    """Return a copy on the host of a module or a tensor on an xla device, else the value itself.

    The copy of a module gets its tensors beforehand: on the device they would add operations.
    """
    import copy

    if isinstance(value, torch.Tensor):
        return value.detach().cpu() if value.device.type == "xla" else value
    if not isinstance(value, torch.nn.Module):
        return value
    tensors = [one for one in (*value.parameters(), *value.buffers()) if one.device.type == "xla"]
    if not tensors:
        return value
    known = {}
    for one in tensors:
        host = one.detach().cpu()
        weight = isinstance(one, torch.nn.Parameter)
        known[id(one)] = torch.nn.Parameter(host, one.requires_grad) if weight else host.clone()
    return copy.deepcopy(value, known)


def _graphbreak_padding_gives(model, inner, padded, cut_back, module, given, wanted):
    """Return whether the padded call gives the wanted result and leaves what it pads unchanged."""
    from torch.utils._pytree import tree_leaves

    filled = []

    def fill(name, tensor):
        one = padded(name, tensor)
        if one is not tensor:
            filled.append((one, _graphbreak_copy(one)))
        return one

    args, kwargs = _graphbreak_arguments(model, given[0], given[1], fill)
    buffers = list(module.buffers()) if module is not None else []
    before = [_graphbreak_copy(one) for one in buffers]
    result = cut_back(inner(*args, **kwargs))
    kept = [_graphbreak_same(old, one) for one, old in zip(buffers, before)]
    with torch.no_grad():
        for one, old, same in zip(buffers, before, kept):
            if not same:
                one.copy_(old)
    pairs = [*filled, *zip(tree_leaves(result), tree_leaves(wanted))]
    return all(kept) and all(_graphbreak_same(old, new) for new, old in pairs)


def _graphbreak_same(old, new):
    """Return whether two values are equal: floats up to rounding, NaN only equal to NaN."""
    if not isinstance(old, torch.Tensor) or not isinstance(new, torch.Tensor):
        return type(old) is type(new) and (old == new or old != old)
    old, new = old.detach().cpu(), new.detach().cpu()
    if (old.shape, old.dtype) != (new.shape, new.dtype):
        return False
    if not old.is_floating_point() and not old.is_complex():
        return torch.equal(old, new)
    wide = old.abs().double()
    scale = max(1.0, torch.where(wide.isfinite(), wide, 0.0).max().item() if wide.numel() else 1.0)
    near = torch.finfo(old.dtype).eps ** (2 / 3)
    return torch.allclose(new, old, rtol=near, atol=near * scale, equal_nan=True)
