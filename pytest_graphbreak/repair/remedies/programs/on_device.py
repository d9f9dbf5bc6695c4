"""Moves CPU tensors that the code holds to the device of its inputs."""

from __future__ import annotations

import torch

# The program.


def _graphbreak_on_cpu(value):
    return type(value) is torch.Tensor and value.device.type == "cpu"


def _graphbreak_version(tensor):
    """Return a value that changes when a tensor is written to; always, for inference tensors."""
    return object() if tensor.is_inference() else tensor._version


def _graphbreak_holders(value, seen):
    """Yield where code holds CPU tensors, as pairs of functions that get and set the tensor."""
    import types

    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, torch.nn.Module):
        for part in value.modules():
            yield from _graphbreak_attributes(part._buffers, part._buffers, seen)
            yield from _graphbreak_attributes(part.__dict__, part.__dict__, seen)
            yield from _graphbreak_holders(type(part).forward, seen)
    elif isinstance(value, types.MethodType):
        yield from _graphbreak_holders(value.__self__, seen)
        yield from _graphbreak_holders(value.__func__, seen)
    elif isinstance(value, types.FunctionType) and not (value.__module__ or "").startswith("torch"):
        names = value.__globals__.keys() & set(value.__code__.co_names)
        yield from _graphbreak_attributes(value.__globals__, names, seen)
        for cell in value.__closure__ or ():
            yield from _graphbreak_in_cell(cell, seen)


def _graphbreak_attributes(names, wanted, seen):
    for name in list(wanted):
        if _graphbreak_on_cpu(names[name]):
            yield lambda name=name: names[name], lambda one, name=name: names.update({name: one})
        else:
            yield from _graphbreak_holders(names[name], seen)


def _graphbreak_in_cell(cell, seen):
    try:
        value = cell.cell_contents
    except ValueError:  # an empty cell
        return
    if _graphbreak_on_cpu(value):
        yield lambda: cell.cell_contents, lambda one: setattr(cell, "cell_contents", one)
    else:
        yield from _graphbreak_holders(value, seen)


def _graphbreak_on_device(model, inner):
    """Keep CPU tensors that the code holds on the device of its inputs while a call lasts.

    Values that are written into them elsewhere are copied to the device before a call, and values
    that the call writes into them are copied back after it.
    """
    from torch.utils._pytree import tree_map

    copies = {}
    holders = []

    def held(value, device):
        one = copies.get(id(value))
        if one is None or one[2] != _graphbreak_version(value):
            one = copies[id(value)] = [value, value.to(device), _graphbreak_version(value)]
        return one[1]

    def call(*args, **kwargs):
        device = _graphbreak_device_of(model, args, kwargs)
        if device is None:
            return inner(*args, **kwargs)
        if not holders:
            holders.extend(_graphbreak_holders(model, set()))
        found = [(put, get(), get) for get, put in holders if _graphbreak_on_cpu(get())]
        pairs = [(value, held(value, device)) for _, value, _ in found]

        def moved(leaf):
            return _graphbreak_moved(leaf, device, pairs)

        args, kwargs = tree_map(moved, (args, kwargs))
        versions = [_graphbreak_version(there) for _, there in pairs]
        for (put, _, _), (_, there) in zip(found, pairs):
            put(there)
        try:
            return inner(*args, **kwargs)
        finally:
            _graphbreak_put_back(found, pairs)
            _graphbreak_write_back(pairs, versions, copies)

    return call


def _graphbreak_device_of(model, args, kwargs):
    """Return the device of the inputs or the weights; None if everything is on the CPU."""
    from torch.utils._pytree import tree_leaves

    leaves = tree_leaves((args, kwargs))
    module = getattr(model, "__self__", model)
    if isinstance(module, torch.nn.Module):
        leaves += [*module.parameters(), *module.buffers()]
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    return next((one.device for one in tensors if one.device.type != "cpu"), None)


def _graphbreak_moved(leaf, device, pairs):
    """Return an input on the device, and add it to the pairs if it had to be moved."""
    if not _graphbreak_on_cpu(leaf):
        return leaf
    pairs.append((leaf, leaf.to(device)))
    return pairs[-1][1]


def _graphbreak_put_back(found, pairs):
    """Give the code its own tensors back, except where the call replaced them."""
    for (put, value, get), (_, there) in zip(found, pairs):
        if get() is there:
            put(value)


def _graphbreak_write_back(pairs, versions, copies):
    """Copy what a call wrote into tensors on the device to the tensors that the code holds."""
    for (value, there), version in zip(pairs, versions):
        if _graphbreak_version(there) != version:
            with torch.no_grad():
                value.copy_(there)
            if id(value) in copies:
                copies[id(value)][2] = _graphbreak_version(value)
