"""Four virtual devices, before JAX opens any, and quick compilations: a count is the same."""

from __future__ import annotations

import contextlib
import importlib.util

if importlib.util.find_spec("jax"):
    import jax

    with contextlib.suppress(RuntimeError):  # they are open already, and as many
        jax.config.update("jax_num_cpu_devices", 4)
    jax.config.update("jax_disable_most_optimizations", True)
