"""CPU tensors in code that is compiled for another device: each cuts an xla graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_graphbreak.model.record import Break
from pytest_graphbreak.repair.patch import Preamble, Rewrite, SourcePatch
from pytest_graphbreak.repair.remedies.around import AROUND
from pytest_graphbreak.repair.trial import Trial

_WRAPPER: Final = '''
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


torch.compile = _graphbreak_around(_graphbreak_on_device)
'''.strip()


def propose(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """For an xla graph that was cut, with its cause as the reason."""
    if "CPU tensor" not in item.reason and "torch." not in item.reason:
        return
    if "torch.tensor(" in item.where.code:
        yield SourcePatch("a number is a number, no tensor", (Rewrite("number", item.where),))
    yield SourcePatch(
        "CPU tensors that the code holds are moved to the device", (AROUND, Preamble(_WRAPPER))
    )
