"""Undoes what Dynamo leaves behind in the optimizers of a program.

Compiling a step sets ``capturable`` in each group of parameters, whatever device they are on; an
uncompiled step with parameters of the CPU raises then (torch 2.13), so it would be no reference.
"""

from __future__ import annotations

import gc

import torch


def restore() -> None:
    """Set ``capturable`` of all optimizers to what each was made with."""
    for optimizer in gc.get_objects():
        if not issubclass(type(optimizer), torch.optim.Optimizer):
            continue
        defaults = optimizer.__dict__.get("defaults") or {}
        for group in optimizer.__dict__.get("param_groups") or ():
            if "capturable" in group and "capturable" in defaults:
                group["capturable"] = defaults["capturable"]
