"""Source that puts a function around each call of what ``torch.compile`` compiles."""

from __future__ import annotations

from typing import Final

from pytest_graphbreak.repair.patch import Preamble

AROUND: Final = Preamble(
    '''
def _graphbreak_around(make):
    """torch.compile, with the function make(model, compiled) in place of what it compiled."""
    import functools

    compile = torch.compile

    @functools.wraps(compile)
    def wrap(model=None, **options):
        if model is None:
            return lambda function: wrap(function, **options)
        compiled = compile(model, **options)
        whole = isinstance(compiled, torch.nn.Module)
        inner = compiled.forward if whole else compiled
        changed = make(model, inner)

        @functools.wraps(inner)
        def call(*args, **kwargs):
            inside = torch.compiler.is_compiling()
            return (inner if inside else changed)(*args, **kwargs)

        if whole:
            compiled.__dict__["forward"] = call
            return compiled
        return call

    return wrap
'''.strip()
)
"""``torch.compile = _graphbreak_around(make)``; follow it with such a line."""

ARGUMENTS: Final = Preamble(
    '''
def _graphbreak_arguments(model, args, kwargs, change):
    """The arguments, each tensor as change(name, tensor) gives it: x, batch['ids'], *2."""
    import inspect
    from torch.utils._pytree import keystr, tree_map_with_path

    called = model.forward if isinstance(model, torch.nn.Module) else model
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in inspect.signature(called).parameters.values() if p.kind in kinds]

    def walk(name, value):
        def leaf(path, one):
            return change(name + keystr(path), one) if isinstance(one, torch.Tensor) else one

        return tree_map_with_path(leaf, value)

    args = [walk(names[i] if i < len(names) else f"*{i}", one) for i, one in enumerate(args)]
    return args, {name: walk(name, one) for name, one in kwargs.items()}


def _graphbreak_name(model):
    """What the tables below call a compiled function, or the class of a module."""
    return getattr(model, "__qualname__", type(model).__qualname__)
'''.strip()
)
"""The names are those of ``sizes``."""
