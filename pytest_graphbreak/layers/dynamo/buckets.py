"""The sensor for DDP, which cuts one captured graph and calls the backend for each part.

Inside the forward pass of ``DistributedDataParallel`` Dynamo's backend is
``DDPOptimizer``: it cuts the graph where DDP's gradient buckets end, and hands each
part to the user's backend by ``SubmodCompiler.compile_submod``
(torch/_dynamo/backends/distributed.py, 2.6 to 2.13). With one bucket nothing is cut.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pytest_graphbreak.layers.dynamo.events import NO_SHAPE, Local, shape_of
from pytest_graphbreak.layers.hooks import Hook, LatePatch

MODULE, FUNCTION = "torch._dynamo.backends.distributed", "SubmodCompiler.compile_submod"
"""Imported by Dynamo when it first compiles inside DDP."""
BUCKETS = "the buckets of DDP"


class BucketSensor(LatePatch):
    """Notes in ``local.buckets`` what DDP hands to the backend."""

    def __init__(self, local: Local, fell: Callable[[str, BaseException], None]) -> None:
        self._local = local
        self._fell = partial(fell, BUCKETS)
        super().__init__(MODULE, FUNCTION, self._compile, self._fell)

    def _compile(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        """``compile_submod(self, input_mod, ...)``"""
        __tracebackhide__ = True
        shape = NO_SHAPE
        try:
            shape = shape_of(args[1] if len(args) > 1 else kwargs["input_mod"])
        except Exception as fault:
            self._fell(fault)
        result = original(*args, **kwargs)
        self._local.buckets.append(shape)
        return result
