"""The jax layer: XLA executables that JAX compiled for the device of the profile."""

from __future__ import annotations

from pytest_graphbreak.model.layer import GraphCause, Layer

CAUSES = (
    GraphCause("jit", "plain", plural="jit"),
    GraphCause("aot", "expected", plural="aot"),
    GraphCause("backward", "expected", plural="backward"),
    GraphCause("retrace", "repeat", explained_by="recompile"),
    GraphCause("eager", plural="eager"),
    GraphCause("transfer"),
    GraphCause("other", plural="other"),
)

LOOK_FOR = (
    "a jax.jit that is gone or has less in it, JAX_DISABLE_JIT, or "
    "programs in a persistent cache (JAX_ENABLE_COMPILATION_CACHE=false turns it off)"
)

LAYER = Layer(
    name="jax",
    causes=CAUSES,
    observer="pytest_graphbreak.layers.jax.observer:JaxObserver",
    needs=("jax",),
    versions=("jax",),
    breaks=True,
    probe="pytest_graphbreak.layers.jax.observer:JaxProbe",
    look_for=LOOK_FOR,
    remedy="install jax 0.7.1 or newer, with the jaxlib of the same version",
)
