"""Makes Dynamo forget what earlier code compiled, and only that.

The observer calls ``reset`` before a test, and ``mark`` and ``forget`` around what a fixture
compiles inside of its window, which the window leaves out: the test then compiles it once more.

``torch._dynamo.reset()`` clears more than that and less: callbacks and compiled
autograd that somebody has entered are gone after it, while the example inputs
of the stance ``eager_then_compile`` stay, and the profile of an earlier run is
read from disk again (``TORCH_COMPILE_JOB_ID``, ``automatic_dynamic_local_pgo``).

Sources: ``reset`` of torch/_dynamo, callback.py, compiled_autograd.py, pgo.py
(``get_code_state``), eval_frame.py (``_EXAMPLE_INPUTS``), convert_frame.py
(``Tracker``, ``FRAME_COUNTER``) beside it; torch 2.9 to 2.13. Names that a
version does not have are passed over: there is nothing to clear then.
"""

from __future__ import annotations

import importlib
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from pytest_graphbreak.layers.dynamo import private as names

_DYNAMO = "torch._dynamo"

PATIENCE = 5.0
"""Seconds that isolating a test waits for a thread of an earlier one to end its compilation."""


class Busy(Exception):
    """A thread of an earlier test went on compiling for as long as we waited."""


@contextmanager
def no_other_compiles(patience: float) -> Iterator[None]:
    """Hold Dynamo's lock. ``reset`` takes it too, and would wait for another thread for ever.

    Raises ``Busy`` where a thread goes on compiling for ``patience`` seconds.
    Source: ``compile_lock`` of torch/_dynamo/convert_frame.py, ``reset`` of torch/_dynamo.
    """
    lock = importlib.import_module(f"{_DYNAMO}.convert_frame").compile_lock
    if not lock.acquire(timeout=patience):
        raise Busy(
            f"a thread of an earlier test has been compiling for more than {patience:g} s and "
            f"goes on; join the threads that a test starts"
        )
    try:
        yield
    finally:
        lock.release()


def reset() -> None:
    """Reset Dynamo as if nothing had been compiled; what was registered or entered stays so."""
    dynamo = importlib.import_module(_DYNAMO)
    with _callbacks(), _compiled_autograd():
        dynamo.reset()
    _no_examples()
    _no_profile()


class Mark(Struct, frozen=True):
    """The extent of what Dynamo had compiled at one moment.

    ``codes`` are the ids of code objects by tracker (``_TRACKERS``), ``states`` the keys of the
    profile, by which Dynamo knows sizes that changed; ``frames`` is the number that the next frame
    gets.
    """

    codes: dict[str, set[int]]
    states: frozenset[Any]
    frames: int


def mark() -> Mark:
    """Return a mark that can be given to ``forget``."""
    convert_frame, pgo = _module("convert_frame"), _module("pgo")
    return Mark(
        {name: {id(code) for code in _codes(name)} for name in _TRACKERS},
        frozenset(getattr(pgo, "_CODE_STATE", None) or ()),
        getattr(convert_frame, "FRAME_COUNTER", 0),
    )


def forget(since: Mark) -> None:
    """Forget the functions that were compiled for the first time since ``since``.

    What was compiled before stays warm. Frames are numbered as if these had
    never been compiled.
    """
    convert_frame, pgo = _module("convert_frame"), _module("pgo")
    reset_code = names.value(names.RESET_CODE)
    for name in _TRACKERS:
        for code in _codes(name):
            if id(code) not in since.codes[name]:
                reset_code(code)
    states = getattr(pgo, "_CODE_STATE", None) or {}
    for key in [key for key in states if key not in since.states]:
        del states[key]
    if getattr(convert_frame, "FRAME_COUNTER", 0) > since.frames:
        compiles = convert_frame.FRAME_COMPILE_COUNTER
        for frame in [key for key in compiles if isinstance(key, int) and key >= since.frames]:
            del compiles[frame]
        convert_frame.FRAME_COUNTER = since.frames


def _module(name: str) -> Any:
    """Return a module of Dynamo, or None if it is not loaded: then there is nothing in it."""
    return sys.modules.get(f"{_DYNAMO}.{name}")


_TRACKERS = ("input_codes", "output_codes")
"""What convert_frame keeps of the code that Dynamo compiled, and of the code that it made."""


def _codes(tracker: str) -> Iterator[Any]:
    convert_frame = _module("convert_frame")
    for reference in list(getattr(getattr(convert_frame, tracker, None), "seen", ())):
        if (code := reference()) is not None:
            yield code


@contextmanager
def _callbacks() -> Iterator[None]:
    """Keep the user's ``on_compile_start`` and ``on_compile_end`` registered."""
    handler = getattr(_module("callback"), "callback_handler", None)
    lists = [getattr(handler, name, None) for name in ("start_callbacks", "end_callbacks")]
    saved = [(callbacks, list(callbacks)) for callbacks in lists if isinstance(callbacks, list)]
    try:
        yield
    finally:
        for callbacks, before in saved:
            callbacks[:] = before


@contextmanager
def _compiled_autograd() -> Iterator[None]:
    """Keep the compiler of backward passes that somebody has entered."""
    module = _module("compiled_autograd")
    if not getattr(module, "compiled_autograd_enabled", False):
        yield
        return
    set_autograd_compiler = names.value(names.SET_AUTOGRAD)
    # It can only be asked for by setting another one; what comes back is (compiler, dynamic).
    before = set_autograd_compiler(None, False)
    try:
        yield
    finally:
        set_autograd_compiler(*before)
        module.compiled_autograd_enabled = True


def _no_examples() -> None:
    """Clear the first inputs that ``eager_then_compile`` keeps of each file and line, for ever."""
    examples = getattr(_module("eval_frame"), "_EXAMPLE_INPUTS", None)
    if examples:
        examples.clear()


def _no_profile() -> None:
    """Make the profile empty where there is none, so that it is not read from disk."""
    pgo = _module("pgo")
    state = getattr(pgo, "CodeState", None)
    if state is not None and getattr(pgo, "_CODE_STATE", ...) is None:
        pgo._CODE_STATE = defaultdict(state)
