"""Moves CPU tensors that the code holds to the device of its inputs."""

from __future__ import annotations

import torch

# The program.


def _graphbreak_on_device(model, inner):
    """CPU tensors that the code holds are moved to its inputs' device."""
    import contextlib, types
    from torch.utils._pytree import tree_leaves, tree_map

    def on_cpu(value):
        return type(value) is torch.Tensor and value.device.type == "cpu"

    def device_of(args, kwargs):
        leaves = tree_leaves((args, kwargs))
        module = getattr(model, "__self__", model)
        if isinstance(module, torch.nn.Module):
            leaves += [*module.parameters(), *module.buffers()]
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        return next((one.device for one in tensors if one.device.type != "cpu"), None)

    def in_names(names, device, seen):
        for name, value in list(names.items()):
            if on_cpu(value):
                names[name] = value.to(device)
            else:
                walk(value, device, seen)

    def walk(value, device, seen):
        if id(value) in seen:
            return
        seen.add(id(value))
        if isinstance(value, torch.nn.Module):
            for part in value.modules():
                in_names(part._buffers, device, seen)
                for name, item in list(vars(part).items()):
                    if on_cpu(item):
                        part.__dict__[name] = item.to(device)
                walk(type(part).forward, device, seen)
        elif isinstance(value, types.MethodType):
            walk(value.__self__, device, seen)
            walk(value.__func__, device, seen)
        elif isinstance(value, types.FunctionType) and not value.__module__.startswith("torch"):
            used = value.__globals__.keys() & set(value.__code__.co_names)
            found = {name: value.__globals__[name] for name in used}
            in_names(found, device, seen)
            value.__globals__.update(found)
            for cell in value.__closure__ or ():
                with contextlib.suppress(ValueError):
                    held = {"it": cell.cell_contents}
                    in_names(held, device, seen)
                    cell.cell_contents = held["it"]

    walked = []

    def call(*args, **kwargs):
        device = device_of(args, kwargs)
        if device is not None:
            if not walked:
                walked.append(True)
                walk(model, device, set())
            args, kwargs = tree_map(
                lambda leaf: leaf.to(device) if on_cpu(leaf) else leaf, (args, kwargs)
            )
        return inner(*args, **kwargs)

    return call
