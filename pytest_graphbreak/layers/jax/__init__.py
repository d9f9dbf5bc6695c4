"""The jax layer: XLA executables that JAX compiled for the device of the profile."""

from __future__ import annotations

from pytest_graphbreak.model.layer import GraphCause, Layer, Style

CAUSES = (
    GraphCause("jit", "plain", plural="jit"),
    GraphCause("aot", "meant", plural="aot"),
    GraphCause("backward", "meant", plural="backward"),
    GraphCause("retrace", "again", explained_by="recompile"),
    GraphCause("eager", plural="eager"),
    GraphCause("transfer"),
    GraphCause("other", plural="other"),
)

LAYER = Layer(
    name="jax",
    causes=CAUSES,
    observer="pytest_graphbreak.layers.jax.observer:JaxObserver",
    needs=("jax",),
    versions=("jax",),
    breaks=True,
    probe="pytest_graphbreak.layers.jax.probe:JaxProbe",
    remedy="install jax 0.7.1 or newer, with the jaxlib of the same version",
    style=Style("var(--accent)", "stroke-dasharray: 1 3;"),
)
