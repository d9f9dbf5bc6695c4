"""Isolates a test from the others on the xla layer.

An earlier test would change the count of the next one in two ways, so two things are done before a
test:

- What an earlier one left pending would be computed by the next sync, in one graph with what that
  test asked for. So ``flush`` computes it, and ``settle`` waits for the devices.
- What an earlier one compiled is in torch_xla's cache, where the next test would find it. So each
  test has a key of its own there (``CacheKeys``).
"""

from __future__ import annotations

import _thread
import hashlib
import os
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from pytest_graphbreak.layers.faults import guard, or_else
from pytest_graphbreak.layers.private_names import MissingName
from pytest_graphbreak.layers.xla import private as native
from pytest_graphbreak.layers.xla.sensors import XlaSensors
from pytest_graphbreak.model.items import Graph

PATIENCE: Final = 5.0
"""Seconds that devices are waited for: one may wait for another process that has ended."""

AT_WORK: Final = (
    f"the device was at work for more than {PATIENCE:g} s {{}} the test: "
    "what runs that long is not counted"
)
"""An error or a note, completed by ``before`` or ``after``."""

_OWN: Final = ("fx", "split", "recompile", "backward", "access", "pending")
"""The causes of graphs that compute what was asked for and nothing else.

The others, such as ``sync``, compute all that is pending, including what an earlier test has left.
"""


class Isolation:
    """The isolation of one test from the others, from ``isolate`` to the end of its window.

    ``XlaObserver.isolate`` makes it, the window that opens next takes it and calls ``end``; where
    none opens, the next ``isolate`` does.
    """

    def __init__(self, test: str, reasons: bool, sensors: XlaSensors) -> None:
        self._errors: list[str] = []
        """What makes the counts of the test unsure in any case."""
        self._not_isolated: list[str] = []
        """What is no error if the test computes nothing but what it asked for (``doubts``)."""
        self._test = test
        self._reasons = reasons
        """Whether graphs are explained, for the sensors that watch what is flushed."""
        self._sensors = sensors
        self._cache_key: str | None = None
        """The key in torch_xla's cache; None if the cache is as it was."""
        if native.is_loaded() and self._settle():
            self._push()

    @contextmanager
    def exclude(self) -> Iterator[None]:
        """Set up a fixture of wider scope inside, without the cache key of this test.

        What that fixture leaves pending is computed and charged to nobody, unless the test had left
        something pending before it.
        """
        has_pending, key = False, self._cache_key
        if native.is_loaded():
            self._settle(flushes=False)
            # If it cannot be told, something is: a tensor that cannot be computed is pending, too.
            has_pending = or_else(1, native.pending_count) > 0
            if key is not None:
                _cache_keys.pop(key)
        try:
            yield
        finally:
            if native.is_loaded():
                self._settle(flushes=not has_pending)
                if key is not None:
                    _cache_keys.resume(key)
                else:  # torch_xla was not loaded before, or the device was at work
                    self._push()

    def end(self) -> None:
        """Give the cache back to the test around, or to the user's code."""
        if self._cache_key is not None:
            _cache_keys.pop(self._cache_key)
            self._cache_key = None

    def doubts(self, graphs: int, explained: Sequence[Graph]) -> tuple[list[str], list[str]]:
        """Return errors and notes for a test of so many graphs, of which some were explained.

        What an earlier test left pending changes only a graph that computes all that is pending: if
        each graph has a cause of ``_OWN``, it is no error.
        """
        left = _notes_on_pending()
        if sum(graph.cause in _OWN for graph in explained) < graphs:
            return [*self._errors, *self._not_isolated], left
        return self._errors, [*self._not_isolated, *left]

    def _push(self) -> None:
        """Use a cache key of this test from now on: a variable in the environment of C."""
        # Auto-sharding takes the variable for a mesh.
        if os.environ.get("XLA_AUTO_SPMD", "").lower() not in ("1", "true", "yes", "on"):
            self._cache_key = _cache_keys.push(self._test)

    def _settle(self, *, flushes: bool = True) -> bool:
        """Compute what is pending, and wait for the devices; return False if these do not end.

        Then the caller must set no variable, since torch_xla's threads read the environment.
        """
        # What is flushed may be the first compilation of the process, when torch_xla reads where to
        # report, once and for all (``debug_file``): the sensors have set it by then.
        self._sensors.acquire(self._reasons)
        try:
            with guard(self._note_unsettled):
                if flushes and native.is_in_use():
                    with self._sensors.recorder.exclude():
                        flush()
                if not settle():
                    self._not_isolated.append(AT_WORK.format("before"))
                    return False
        finally:
            self._sensors.release(self._reasons)
        return True

    def _note_unsettled(self, error: Exception) -> None:
        text = str(error).strip().split("\n")[0]
        if isinstance(error, MissingName):
            self._errors.append(f"the device could not be settled before this test: {text}")
            return
        self._not_isolated.append(
            "the device could not be settled before this test: what an earlier one left pending "
            f"cannot be computed ({type(error).__name__}: {text})"
        )


def _notes_on_pending() -> list[str]:
    """Return a note on what the test leaves pending; nothing if torch_xla cannot say what is."""
    waiting = or_else(0, native.pending_count)
    if not waiting:
        return []
    is_single = waiting == 1
    what = "1 tensor is" if is_single else f"{waiting} tensors are"
    them = "it" if is_single else "them"
    return [f"{what} left pending on the xla device: the graph that computes {them} is not counted"]


def flush() -> None:
    """Compute what is pending on each device, if anything is.

    It does not call ``torch_xla.sync``, which also advances the random seed of the device.
    """
    if not native.pending_count():
        return
    waiting = native.function("_check_device_tensor_need_materialization")
    for index in range(len(native.function("_xla_get_devices")())):
        device = f"xla:{index}"
        if any(waiting(device)):
            native.function("_xla_sync_live_tensors")(device, [], True)


def settle() -> bool:
    """Wait until devices that are in use are done; return False if they are not in time.

    A thread of its own waits, so that nothing of ours waits without an end: one of ``_thread``,
    which Python neither lists nor joins at its end. Raises what torch_xla raises for work that
    failed.
    """
    if not native.is_in_use():
        return True
    wait, done = native.function("_xla_wait_device_ops"), threading.Lock()
    faults: list[Exception] = []

    def wait_for_devices() -> None:
        try:
            with guard(faults.append):
                wait([])
        finally:
            done.release()

    done.acquire()
    _thread.start_new_thread(wait_for_devices, ())
    if not done.acquire(timeout=PATIENCE):
        return False
    if faults:
        raise faults[0]
    return True


VARIABLE: Final = "XLA_AUTO_SPMD_MESH"
"""The variable that holds the key of a test.

The cache cannot be emptied on torch_xla 2.9. But every look-up, lazy and dynamo, hashes this
variable, which is read elsewhere only under auto-sharding: a value of its own for each test makes
its look-ups miss (torch_xla/csrc/xla_graph_executor.cpp, GetGraphHash and
SyncTensorsGraphInternal). A value that is no number is no mesh, so that even auto-sharding switched
on later ignores it.
"""


class CacheKeys:
    """The cache keys of this process. Tests nest: the end of an inner one restores the outer one's.

    The last key is in force. It may not be the one that ends, since windows overlap, too::

        a = push("test a")  # a is in force
        b = push("test b")  # b
        pop(a)              # b, still
        pop(b)              # the user's own
    """

    def __init__(self) -> None:
        self._keys: list[str] = []
        self._uses: Counter[str] = Counter()

    def push(self, test: str) -> str:
        """Use a key made of the name of a test from now on; return the argument for ``pop``.

        A test that is run again gets another key, or it would find what its first run compiled.
        To be called while the device is idle: the C environment changes.
        """
        users = os.environ.get(VARIABLE, "")
        rerun = f"\0{self._uses[test]}" if self._uses[test] else ""
        self._uses[test] += 1
        digest = hashlib.sha256(f"{users}\0{test}{rerun}".encode()).hexdigest()[:24]
        key = f"graphbreak-{digest}"
        self.resume(key)
        return key

    def pop(self, key: str) -> None:
        """End the use of a key: the one before it is in force again, or the user's own value."""
        if key in self._keys:  # not if the window was closed inside of ``exclude``
            self._keys.remove(key)
            self._apply()

    def resume(self, key: str) -> None:
        """Use a key again that was ended, so that what was compiled under it is found."""
        self._keys.append(key)
        self._apply()

    def _apply(self) -> None:
        native.set_variable(VARIABLE, self._keys[-1] if self._keys else None)


_cache_keys = CacheKeys()
