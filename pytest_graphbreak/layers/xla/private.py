"""All private names of torch_xla that are called, and what each one is for.

Three things need several of them, or more than a call: ``flush`` and ``settle``, after which the
device is idle, and ``CacheKeys``, by which a test finds nothing that another one compiled.

torch_xla is never imported from here: it is loaded once the user's code has imported it. Counters
and metrics are read at any time: that opens nothing. All else is asked only once the user's code
has used a device (``is_in_use``): a question about one opens the PJRT client, or fixes whether
tensors live on it or on the virtual device of SPMD, and ``xr.use_spmd()`` comes too late then.

Source: torch_xla/csrc/init_python_bindings.cpp of torch_xla 2.9.
"""

from __future__ import annotations

import _thread
import hashlib
import importlib.metadata
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final, NamedTuple

from pytest_graphbreak.layers.faults import guard
from pytest_graphbreak.layers.imports import is_extension, loaded
from pytest_graphbreak.layers.private_names import MissingName

BRIDGE: Final = "torch_xla._dynamo.dynamo_bridge"
"""The module that lowers FX graphs; ``sensors`` names the functions of it."""
LOWERED: Final = "optimized_mod"
"""The function that the bridge puts into an FX graph for each part that it lowered."""

NEEDED_FOR = {
    "_xla_metric_data": "graphs are counted by it",
    "_clear_xla_metrics": "a count is kept over metrics that are cleared by it",
    "_xla_runtime_is_initialized": "it says whether there is a device",
    "_xla_get_spmd_config_is_locked": "it says whether a device was used",
    "_xla_get_devices": "lazy work is looked for on each of them",
    "_check_device_tensor_need_materialization": "lazy work left pending is found by it",
    "_xla_sync_live_tensors": "lazy work left by an earlier test is computed by it",
    "_xla_wait_device_ops": "the device is waited for between tests by it",
    "_xla_computation_cache_is_initialized": "it says whether anything was compiled yet",
    "_xla_get_num_cached_compilation_graph": "it says whether anything was compiled yet",
    "_get_executed_fallback_ops": "ops that run on the CPU are named by it",
    "_xla_counter_value": "ops that run on the CPU, resharding and loaded graphs are counted by it",
    "_check_tensor_need_materialization": "inputs still pending are found by it",
}


class Compiles(NamedTuple):
    """The ``CompileTime`` metric: the number of compilations, and the latest 1024 samples.

    A sample is the time at which a compilation ended and how long it took (ns).
    """

    graphs: int
    samples: tuple[tuple[float, float], ...]


EXTENSION: Final = "_XLAC"
"""The extension module of torch_xla, by its name in ``sys.modules`` (torch_xla of 2.9)."""

IMPORTED: Final = ("torch_xla", "torch_xla.torch_xla")
"""The modules after whose import torch_xla is loaded.

The second is for a process that is first watched when torch_xla imports torch: then torch_xla's own
import has begun. Source: torch_xla/__init__.py of 2.9.
"""


def is_loaded() -> bool:
    """Return whether the user's code has imported torch_xla, as far as its extension module.

    What a test puts into ``sys.modules`` under the name of torch_xla has none.
    """
    return is_extension(EXTENSION)


def version() -> str | None:
    """Return the version of torch_xla that is installed or loaded; None without it."""
    loaded_version = getattr(sys.modules.get("torch_xla"), "__version__", None)
    if isinstance(loaded_version, str):
        return loaded_version
    try:
        return importlib.metadata.version("torch_xla")
    except importlib.metadata.PackageNotFoundError:
        return None


def binding() -> ModuleType:
    """Return torch_xla's extension module, once it is loaded. Raises ``MissingName``."""
    extension = loaded(EXTENSION)
    if extension is None:
        raise MissingName(f"torch_xla's extension module {EXTENSION} is not loaded")
    return extension  # type: ignore[no-any-return]


def function(name: str) -> Callable[..., Any]:
    """Return a function of the extension module. Raises ``MissingName``."""
    native = getattr(binding(), name, None)
    if native is None:
        raise MissingName(f"torch_xla {version()} has no _XLAC.{name}: {NEEDED_FOR[name]}")
    return native  # type: ignore[no-any-return]


def compiles() -> Compiles:
    """Return what the PJRT client compiled so far, in all threads; empty before it is opened."""
    data = function("_xla_metric_data")("CompileTime")
    return Compiles(0, ()) if data is None else Compiles(data[0], data[2])


def samples(metric: str) -> int:
    """Return how often a metric was noted, since the metrics were last cleared."""
    data = function("_xla_metric_data")(metric)
    return 0 if data is None else int(data[0])


def counter(name: str) -> int:
    """Return the value of a counter, since the counters were last cleared."""
    return int(function("_xla_counter_value")(name) or 0)


def compile_counters() -> int:
    """Return a number that differs after each compilation, and after counters were cleared.

    ``UncachedCompile`` counts look-ups that missed. A sharded tensor that is put together is
    compiled without one, and counted as ``ReplicateShardedData``.
    """
    return counter("UncachedCompile") + counter("ReplicateShardedData")


def is_client_open() -> bool:
    return bool(function("_xla_runtime_is_initialized")())


def is_in_use() -> bool:
    """Return whether the user's code has opened the PJRT client and used a device.

    Both are only looked at. A program that just asks for the number of devices opens the client and
    may still choose SPMD: ``spmd_config_is_locked`` of torch_xla/csrc/device.cpp is set by the
    first question that depends on it.
    """
    return is_client_open() and bool(function("_xla_get_spmd_config_is_locked")())


def has_compiled() -> bool:
    """Return whether a graph was looked up and compiled in this process, by any code."""
    if not is_in_use() or not function("_xla_computation_cache_is_initialized")():
        return False
    return bool(function("_xla_get_num_cached_compilation_graph")())


def fallbacks() -> dict[str, int]:
    """Return how often each aten op ran on the CPU, since these counters were last cleared.

    Reading a value (``item()``) is counted there too, and left out here.
    """
    value = function("_xla_counter_value")
    names = function("_get_executed_fallback_ops")()
    return {name: value(name) or 0 for name in names if name != "aten::_local_scalar_dense"}


def reshard_count() -> int:
    """Return how many sharded tensors were put together, since counters were last cleared."""
    return counter("ReplicateShardedData")


def cache_hits() -> int:
    """Return how many graphs torch_xla's persistent cache had, since counters were cleared.

    ``PersistentCacheHit`` (torch_xla/csrc/runtime/cache.h) counts what was loaded. ``CompileTime``
    does not.
    """
    return counter("PersistentCacheHit")


def pending_count() -> int:
    """Return how many live tensors of all devices are still pending. Computes nothing."""
    if not is_in_use():
        return 0
    waiting = function("_check_device_tensor_need_materialization")
    return sum(map(bool, waiting("")))


def flush() -> None:
    """Compute what is pending on each device, if anything is.

    It does not call ``torch_xla.sync``, which also advances the random seed of the device.
    """
    if not pending_count():
        return
    waiting = function("_check_device_tensor_need_materialization")
    for index in range(len(function("_xla_get_devices")())):
        device = f"xla:{index}"
        if any(waiting(device)):
            function("_xla_sync_live_tensors")(device, [], True)


PATIENCE: Final = 5.0
"""Seconds that devices are waited for: one may wait for another process that has ended."""


def settle(patience: float = PATIENCE) -> bool:
    """Wait until devices that are in use are done; return False if they are not in time.

    A thread of its own waits, so that nothing of ours waits without an end: one of ``_thread``,
    which Python neither lists nor joins at its end. Raises what torch_xla raises for work that
    failed.
    """
    if not is_in_use():
        return True
    wait, done = function("_xla_wait_device_ops"), threading.Lock()
    faults: list[Exception] = []

    def wait_for_devices() -> None:
        try:
            with guard(faults.append):
                wait([])
        finally:
            done.release()

    done.acquire()
    _thread.start_new_thread(wait_for_devices, ())
    if not done.acquire(timeout=patience):
        return False
    if faults:
        raise faults[0]
    return True


# Keeping the computation cache of torch_xla apart for each test.
#
# The cache cannot be emptied on torch_xla 2.9, and what one test compiled, the next one would
# find there. But every look-up, lazy and dynamo, hashes the environment variable
# ``XLA_AUTO_SPMD_MESH``, which is read elsewhere only under auto-sharding: a value of its own
# for each test makes its look-ups miss (torch_xla/csrc/xla_graph_executor.cpp, GetGraphHash and
# SyncTensorsGraphInternal).
#
# The value goes into the C environment only, where torch_xla reads it: ``os.environ``, and what
# the user's code copies from it, never shows it. A value that is no number is no mesh, so that
# even auto-sharding switched on later ignores it.

VARIABLE = "XLA_AUTO_SPMD_MESH"


def give_back(variable: str) -> None:
    """Put the user's value of a variable back into the C environment.

    For all variables that are set there only: ``VARIABLE``, and those of ``debug_file``.
    """
    value = os.environ.get(variable)
    if value is None:
        os.unsetenv(variable)
    else:
        os.putenv(variable, value)


def can_isolate_caches() -> bool:
    """Return whether caches can be kept apart: auto-sharding takes the variable for a mesh."""
    return os.environ.get("XLA_AUTO_SPMD", "").lower() not in ("1", "true", "yes", "on")


class CacheKeys:
    """The values of this process. Tests nest: the end of an inner one restores the outer one's.

    The last value is in force. It may not be the one that ends, since windows overlap, too::

        a = push("test a")  # a is in force
        b = push("test b")  # b
        pop(a)              # b, still
        pop(b)              # the user's own
    """

    def __init__(self) -> None:
        self._values: list[str] = []
        self._uses: Counter[str] = Counter()

    def push(self, test: str) -> str:
        """Use a value made of the name of a test from now on; return the argument for ``pop``.

        A test that is run again gets another value, or it would find what its first run compiled.
        To be called while the device is idle: the C environment changes.
        """
        users = os.environ.get(VARIABLE, "")
        rerun = f"\0{self._uses[test]}" if self._uses[test] else ""
        self._uses[test] += 1
        digest = hashlib.sha256(f"{users}\0{test}{rerun}".encode()).hexdigest()[:24]
        value = f"graphbreak-{digest}"
        self.resume(value)
        return value

    def pop(self, value: str) -> None:
        """End the use of a value: the one before it is in force again, or the user's own."""
        if value in self._values:
            self._values.reverse()  # ``remove`` takes the first, and the last is meant
            self._values.remove(value)
            self._values.reverse()
            self._apply()

    def resume(self, value: str) -> None:
        """Use a value again that was ended, so that what was compiled under it is found."""
        self._values.append(value)
        self._apply()

    def _apply(self) -> None:
        if self._values:
            os.putenv(VARIABLE, self._values[-1])
        else:
            give_back(VARIABLE)
