"""Wraps each call of what ``torch.compile`` compiles in a function."""

from __future__ import annotations

import torch

# The program.


def _graphbreak_around(make):
    """Return a torch.compile that gives make(model, compiled) in place of what it compiled."""
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
