"""All private names of torch_xla that are called, and what each one is for.

torch_xla is never imported from here: it is loaded once the user's code has imported it. Counters
and metrics are read at any time: that opens nothing. All else is asked only once the user's code
has used a device (``is_in_use``): a question about one opens the PJRT client, or fixes whether
tensors live on it or on the virtual device of SPMD, and ``xr.use_spmd()`` comes too late then.

Source: torch_xla/csrc/init_python_bindings.cpp of torch_xla 2.9.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final, NamedTuple

from pytest_graphbreak.layers.imports import is_extension, loaded
from pytest_graphbreak.layers.private_names import MissingName

BRIDGE: Final = "torch_xla._dynamo.dynamo_bridge"
"""The module that lowers FX graphs; ``sensors`` names the functions of it."""
BRIDGE_FILE: Final = "/dynamo_bridge.py"
"""How its path ends in a stack."""
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
    return counter("UncachedCompile") + reshard_count()


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


def set_variable(name: str, value: str | None = None) -> None:
    """Set a variable for torch_xla alone; without a value, it is the user's own again.

    It goes into the C environment, where torch_xla reads it: ``os.environ``, and what the user's
    code copies from it, never shows it.
    """
    value = os.environ.get(name) if value is None else value
    if value is None:
        os.unsetenv(name)
    else:
        os.putenv(name, value)
