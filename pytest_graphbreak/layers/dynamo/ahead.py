"""Which function compiled ahead of time a thread compiles or loads, for the layers below Dynamo.

``torch.compile(...).aot_compile`` has no compile id while its backend runs, and neither has
``torch.compiler.load_compiled_function``: a graph below Dynamo that comes without one belongs to
the function that this thread captured or began to load last, or else any thread. An engine may
lower parts of it, or load them, after that call and in threads of its own (vLLM).
"""

from __future__ import annotations

import threading


class Function:
    """A function that is captured or loaded; its ``name`` is that of its graph, once it has one.

    ``given_up``: it was loaded, never ran, and is compiled anew.
    """

    name = ""
    given_up = False


class _OfThread(threading.local):
    latest: Function | None = None


class _Latest:
    """What this thread, and what any thread captured or began to load last."""

    def __init__(self) -> None:
        self.here = _OfThread()
        self.anywhere: Function | None = None


_LATEST = _Latest()


def begin() -> Function:
    """Note that this thread begins to capture or to load a function."""
    _LATEST.here.latest = _LATEST.anywhere = Function()
    return _LATEST.anywhere


def latest() -> Function | None:
    """Return the function that this thread, or else any, captured or began to load last."""
    return _LATEST.here.latest or _LATEST.anywhere


def forget() -> None:
    """Forget it: what comes next is no part of it."""
    _LATEST.here.latest = _LATEST.anywhere = None
