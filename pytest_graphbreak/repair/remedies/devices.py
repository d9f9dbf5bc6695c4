"""CPU tensors in code that is compiled for another device: each cuts an xla graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_graphbreak.record import Break
from pytest_graphbreak.repair.patch import Line, Patch, Rewrite
from pytest_graphbreak.repair.trial import Trial

_WRAPPER: Final = '''
def _graphbreak_on_device(compile):
    """torch.compile, but CPU tensors that the code holds are moved to its inputs' device."""
    import contextlib, functools, types
    from torch.utils._pytree import tree_leaves, tree_map

    def on_cpu(value):
        return type(value) is torch.Tensor and value.device.type == "cpu"

    def device_of(model, args, kwargs):
        leaves = tree_leaves((args, kwargs))
        model = getattr(model, "__self__", model)
        if isinstance(model, torch.nn.Module):
            leaves += [*model.parameters(), *model.buffers()]
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

    def wrap(model=None, **options):
        if model is None:
            return lambda function: wrap(function, **options)
        compiled = compile(model, **options)
        whole = isinstance(compiled, torch.nn.Module)
        inner = compiled.forward if whole else compiled
        walked = []

        @functools.wraps(inner)
        def call(*args, **kwargs):
            device = device_of(model, args, kwargs)
            if device is not None:
                if not walked:
                    walked.append(True)
                    walk(model, device, set())
                args, kwargs = tree_map(
                    lambda leaf: leaf.to(device) if on_cpu(leaf) else leaf, (args, kwargs)
                )
            return inner(*args, **kwargs)

        if whole:
            compiled.__dict__["forward"] = call
            return compiled
        return call

    return wrap


torch.compile = _graphbreak_on_device(torch.compile)
'''.strip()


def propose(item: Break, trial: Trial) -> Iterator[Patch]:
    """For an xla graph that was cut, with its cause as the reason."""
    if "CPU tensor" not in item.reason and "torch." not in item.reason:
        return
    if "torch.tensor(" in item.where.code:
        yield Patch("a number is a number, no tensor", (Rewrite("number", item.where),))
    yield Patch("CPU tensors that the code holds are moved to the device", (Line(_WRAPPER),))
