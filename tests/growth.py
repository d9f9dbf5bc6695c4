"""How much longer a larger input takes than a smaller one, on a machine that may be busy.

No test asserts a time: two times are compared that were taken one after the other, and again
and again. What takes too long does so each time; a machine that is busy does not.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Final

ROUNDS: Final = 5
CLEAR: Final = 1000.0
"""A growth that needs no second comparison."""
LONG: Final = 0.2
"""Seconds of CPU that are enough to compare; a run that takes as long is not repeated."""

Run = Callable[[], object]


def grows(small: Run, large: Run, most: float) -> bool:
    """Whether ``large`` takes more than ``most`` times as long in each of some comparisons."""
    for _ in range(ROUNDS):
        growth = cpu(large, 3) / max(cpu(small, 3), 1e-9)
        if growth > CLEAR:
            return True
        if growth <= most:
            return False
    return True


def cpu(run: Run, rounds: int = 1) -> float:
    """Seconds of CPU of the fastest round in this thread.

    Without garbage collections: what they cost depends on all that the process holds, and the
    larger run has more of them.
    """
    best = float("inf")
    collects = gc.isenabled()
    gc.disable()
    try:
        for _ in range(rounds):
            start = time.thread_time()
            run()
            best = min(best, time.thread_time() - start)
            if best > LONG:
                break
    finally:
        if collects:
            gc.enable()
    return best
