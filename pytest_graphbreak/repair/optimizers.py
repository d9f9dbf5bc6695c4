"""Undoes what Dynamo leaves behind in the optimizers of a program.

Compiling a step sets ``capturable`` in each group of parameters, whatever device they are on; an
uncompiled step with parameters of the CPU raises then (torch 2.13), so it would be no reference.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch


def restore(objects: Iterable[Any]) -> None:
    """Set ``capturable`` of all optimizers among objects to what each was made with."""
    for optimizer in objects:
        if isinstance(optimizer, torch.optim.Optimizer):
            for group in optimizer.param_groups:
                if "capturable" in group and "capturable" in optimizer.defaults:
                    group["capturable"] = optimizer.defaults["capturable"]
