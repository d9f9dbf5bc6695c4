"""Dynamo without the timing of its guards, for tests that compile.

After each compilation it measures how long the new guards take, on caches of the processor that it
empties first: 30 of the 60 ms of CPU that a small function takes. No test needs that figure, and
users' programs have it as it is.
"""

from __future__ import annotations

import sys


def leave_guards_untimed() -> None:
    """Does nothing where Dynamo is not imported yet, or has no such function."""
    guards = sys.modules.get("torch._dynamo.guards")
    if hasattr(guards, "profile_guard_manager"):
        guards.profile_guard_manager = lambda *_: 0.0  # type: ignore[union-attr]
