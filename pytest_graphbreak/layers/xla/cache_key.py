"""Keeps the computation cache of torch_xla apart for each test.

The cache cannot be emptied on torch_xla 2.9, and what one test compiled, the
next one would find there. But every look-up, lazy and dynamo, hashes the
environment variable ``XLA_AUTO_SPMD_MESH``, which is otherwise read only under
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
    """The salts of this process. Tests nest: an inner one gives the outer one's back."""

    def __init__(self) -> None:
        self._salts: list[str] = []
        self._uses: Counter[str] = Counter()

    def push(self, key: str) -> str:
        """Use a salt made of ``key`` from now on; returns what ``pop`` wants.

        A key that is used again (a test that is run again) gets another salt, or
        it would find what its first run compiled. To be called while the device
        is idle: the C environment changes.
        """
        users = os.environ.get(VARIABLE, "")
        again = f"\0{self._uses[key]}" if self._uses[key] else ""
        self._uses[key] += 1
        digest = hashlib.sha256(f"{users}\0{key}{again}".encode()).hexdigest()[:24]
        salt = f"graphbreak-{digest}"
        self._salts.append(salt)
        self._apply()
        return salt

    def pop(self, salt: str) -> None:
        """End the use of a salt; in force is then the one before it, else the user's own value."""
        if salt in self._salts:
            self._salts.reverse()
            self._salts.remove(salt)
            self._salts.reverse()
            self._apply()

    def again(self, salt: str) -> None:
        """Go on with a salt that was ended, so that what was compiled under it is found."""
        self._salts.append(salt)
        self._apply()

    def _apply(self) -> None:
        value = self._salts[-1] if self._salts else os.environ.get(VARIABLE)
        if value is None:
            os.unsetenv(VARIABLE)
        else:
            os.putenv(VARIABLE, value)
