"""Keeps the computation cache of torch_xla apart for each test.

The cache cannot be emptied on torch_xla 2.9, and what one test compiled, the
next one would find there. But every look-up, lazy and dynamo, hashes the
environment variable ``XLA_AUTO_SPMD_MESH``, which is read elsewhere only under
auto-sharding: a value of its own for each test makes its look-ups miss
(torch_xla/csrc/xla_graph_executor.cpp, GetGraphHash and SyncTensorsGraphInternal).

The value goes into the C environment only, where torch_xla reads it:
``os.environ``, and what the user's code copies from it, never shows it. A value
that is no number is no mesh, so that even auto-sharding switched on later
ignores it.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter

VARIABLE = "XLA_AUTO_SPMD_MESH"


def enabled() -> bool:
    """Off under auto-sharding, which takes the variable for a mesh."""
    return os.environ.get("XLA_AUTO_SPMD", "").lower() not in ("1", "true", "yes", "on")


class CacheKeys:
    """The values of this process. Tests nest: an inner one gives the outer one's back."""

    def __init__(self) -> None:
        self._values: list[str] = []
        self._uses: Counter[str] = Counter()

    def push(self, test: str) -> str:
        """Use a value made of the name of a test from now on; returns what ``pop`` wants.

        A test that is run again gets another value, or it would find what its first run
        compiled. To be called while the device is idle: the C environment changes.
        """
        users = os.environ.get(VARIABLE, "")
        rerun = f"\0{self._uses[test]}" if self._uses[test] else ""
        self._uses[test] += 1
        digest = hashlib.sha256(f"{users}\0{test}{rerun}".encode()).hexdigest()[:24]
        value = f"graphbreak-{digest}"
        self.resume(value)
        return value

    def pop(self, value: str) -> None:
        """End the use of a value; in force is then the one before it, else the user's own."""
        if value in self._values:
            self._values.reverse()
            self._values.remove(value)
            self._values.reverse()
            self._apply()

    def resume(self, value: str) -> None:
        """Go on with a value that was ended, so that what was compiled under it is found."""
        self._values.append(value)
        self._apply()

    def _apply(self) -> None:
        value = self._values[-1] if self._values else os.environ.get(VARIABLE)
        if value is None:
            os.unsetenv(VARIABLE)
        else:
            os.putenv(VARIABLE, value)
