"""The jax_host layer: what JAX compiled for other devices than that of the profile.

Random inputs, a golden result and the comparison are computed there. It is counted and reported,
and judged only where a marker or a baseline names it.
"""

from __future__ import annotations

from pytest_graphbreak.layers.jax import CAUSES, LOOK_FOR
from pytest_graphbreak.model.layer import Layer

LAYER = Layer(
    name="jax_host",
    causes=CAUSES,
    observer="pytest_graphbreak.layers.jax.observer:HostObserver",
    needs=("jax",),
    versions=("jax",),
    judged=False,
    look_for=LOOK_FOR,
)
