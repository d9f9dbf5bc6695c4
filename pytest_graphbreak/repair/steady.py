"""What makes two runs of a program comparable: the same random numbers, and finished work."""

from __future__ import annotations

import logging
import random
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch

from pytest_graphbreak.layers.hooks import Hook, RuntimePatch


def seed(number: int = 0) -> None:
    """Seed torch, Python and numpy, for the same random numbers in every run."""
    torch.manual_seed(number)
    random.seed(number)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(number)


def steady_random() -> None:
    """Let the device draw the same numbers after a step of torch_xla as without it.

    A step sets the next seed. A compilation contains one, so a program with fewer graphs would draw
    other inputs than the original, and its results could not be compared.
    """
    binding = getattr(sys.modules.get("torch_xla"), "_XLAC", None)
    step = getattr(binding, "_xla_step_marker", None)
    if step is None or step in _steady:
        return
    library: Any = binding

    def state(args: tuple[Any, ...]) -> tuple[int, str]:
        return library._xla_get_rng_seed(args[0]), args[0]

    def put_back(token: tuple[int, str], result: Any) -> None:
        library._xla_set_rng_seed(*token)

    def fail(call: Hook, fault: Exception) -> None:
        raise fault

    patch = RuntimePatch(library, "_xla_step_marker", state, put_back, fail)
    _steady.append(patch.patched)


_steady: Final[list[Any]] = []
"""The step of torch_xla that ``steady_random`` has put in."""


def wait(*, pending: bool = True) -> None:
    """Wait until the device has finished its work; with ``pending`` also what was not begun.

    What a program leaves pending at its end makes no graph, and is counted nowhere.
    """
    if "torch_xla" in sys.modules:
        if pending:
            sys.modules["torch_xla"].sync(wait=True)
        else:
            sys.modules["torch_xla.core.xla_model"].wait_device_ops()
    elif torch.cuda.is_available():
        torch.cuda.synchronize()


@contextmanager
def log_lines() -> Iterator[list[str]]:
    """Yield the lines that loggers get within the block, but for those of torch."""
    lines: list[str] = []
    handle = logging.Logger.handle

    def note(self: logging.Logger, record: logging.LogRecord) -> None:
        if not record.name.startswith("torch"):
            lines.append(f"{record.levelname} {record.name}: {record.getMessage()}"[:500])
        handle(self, record)

    logging.Logger.handle = note  # type: ignore[method-assign]
    try:
        yield lines
    finally:
        logging.Logger.handle = handle  # type: ignore[method-assign]


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Show warnings without their place, which a patch moves, and none of torch's own."""
    before = warnings.formatwarning

    def plain(message: Any, category: type[Warning], *_: Any) -> str:
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_code.co_filename == warnings.__file__:
            frame = frame.f_back
        ours = frame.f_globals.get("__name__", "").partition(".")[0] == "torch"
        return "" if ours else f"{category.__name__}: {message}\n"

    warnings.formatwarning = plain  # type: ignore[assignment]
    try:
        yield
    finally:
        warnings.formatwarning = before
