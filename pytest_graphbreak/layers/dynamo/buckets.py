"""The sensor for DDP, which cuts one captured graph and calls the backend for each part.

Inside the forward pass of ``DistributedDataParallel`` Dynamo's backend is
``DDPOptimizer``: it cuts the graph where DDP's gradient buckets end, and hands each
part to the user's backend by ``SubmodCompiler.compile_submod``
(torch/_dynamo/backends/distributed.py, 2.6 to 2.13). With one bucket nothing is cut.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from pytest_graphbreak.layers.dynamo.events import Local, shape_of
from pytest_graphbreak.layers.dynamo.hooks import Hook, OnImport, Patch

MODULE, OWNER, FUNCTION = "torch._dynamo.backends.distributed", "SubmodCompiler", "compile_submod"
"""Imported by Dynamo when it first compiles inside DDP."""


class BucketSensor:
    """Notes in ``local.buckets`` what DDP hands to the backend."""

    def __init__(self, local: Local, fell: Callable[[str, BaseException], None]) -> None:
        self._local = local
        self._fell = fell
        self._patch: Patch | None = None
        self._import: OnImport | None = None

    def attach(self) -> None:
        if MODULE in sys.modules:
            self._install()
        else:
            self._import = OnImport(MODULE, self._install)

    def detach(self) -> None:
        if self._import is not None:
            self._import.remove()
        if self._patch is not None:
            self._patch.remove()
        self._import = self._patch = None

    def _install(self) -> None:
        try:
            self._patch = Patch(getattr(sys.modules[MODULE], OWNER), FUNCTION, self._compile)
        except AttributeError as fault:
            self._fell("the buckets of DDP", fault)

    def _compile(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        """``compile_submod(self, input_mod, ...)``"""
        __tracebackhide__ = True
        shape = (0, 0, 0)
        try:
            shape = shape_of(args[1] if len(args) > 1 else kwargs["input_mod"])
        except Exception as fault:
            self._fell("the buckets of DDP", fault)
        result = original(*args, **kwargs)
        self._local.buckets.append(shape)
        return result
