"""Isolates a test from the others on the xla layer: what is pending, and a cache key of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pytest_graphbreak.layers.faults import guard, or_else
from pytest_graphbreak.layers.private_names import MissingName
from pytest_graphbreak.layers.xla import private as native
from pytest_graphbreak.layers.xla.sensors import XlaSensors

AT_WORK: Final = (
    f"the device was at work for more than {native.PATIENCE:g} s {{}} the test: "
    "what runs that long is not counted"
)
"""An error or a note, completed by ``before`` or ``after``."""

_cache_keys = native.CacheKeys()


class Isolation:
    """The isolation of one test from the others, from ``isolate`` to the end of its window.

    ``Observer.isolate`` makes it, the window that opens next takes it and calls ``end``; where none
    opens, the next ``isolate`` does.
    ``errors`` say what makes its counts unsure in any case, ``not_isolated`` what does
    so only for a graph that computes all that is pending.
    """

    def __init__(self, test: str, reasons: bool, sensors: XlaSensors) -> None:
        self.errors: list[str] = []
        self.not_isolated: list[str] = []
        self._test = test
        self._reasons = reasons
        self._sensors = sensors
        self._cache_key: str | None = None
        if native.is_loaded() and self._settle():
            self._push()

    @contextmanager
    def exclude(self) -> Iterator[None]:
        """Set up a fixture of wider scope inside, without the cache key of this test.

        What that fixture leaves pending is computed and charged to nobody, unless the test had left
        something pending before it.
        """
        pending, key = False, self._cache_key
        if native.is_loaded():
            self._settle(flush=False)
            # If it cannot be told, something is: a tensor that cannot be computed is pending, too.
            pending = or_else(1, native.pending_count) > 0
            if key is not None:
                _cache_keys.pop(key)
        try:
            yield
        finally:
            if native.is_loaded():
                self._settle(flush=not pending)
                if key is not None:
                    _cache_keys.resume(key)
                else:  # torch_xla was not loaded before, or the device was at work
                    self._push()

    def end(self) -> None:
        if self._cache_key is not None:
            _cache_keys.pop(self._cache_key)
            self._cache_key = None

    def _push(self) -> None:
        """Use a cache key of this test from now on: a variable in the environment of C."""
        if native.can_isolate_caches():
            self._cache_key = _cache_keys.push(self._test)

    def _settle(self, flush: bool = True) -> bool:
        """Compute what is pending, and wait for the devices; return False where they go on.

        Where they go on, the caller sets no variable: torch_xla's threads read the environment.
        """
        # What is flushed may be the first compilation of the process, when torch_xla reads where to
        # report, once and for all (``debug_file``): the sensors have set it by then.
        self._sensors.acquire(self._reasons)
        try:
            with guard(self._note_unsettled):
                if native.is_in_use():
                    if flush:
                        with self._sensors.recorder.exclude():
                            native.flush()
                    if not native.settle():
                        self.not_isolated.append(AT_WORK.format("before"))
                        return False
        finally:
            self._sensors.release(self._reasons)
        return True

    def _note_unsettled(self, error: Exception) -> None:
        text = str(error).strip().split("\n")[0]
        if isinstance(error, MissingName):
            self.errors.append(f"the device could not be settled before this test: {text}")
            return
        self.not_isolated.append(
            "the device could not be settled before this test: what an earlier one left pending "
            f"cannot be computed ({type(error).__name__}: {text})"
        )
