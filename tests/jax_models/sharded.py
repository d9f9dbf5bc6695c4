"""Programs over four virtual devices: what data parallel training and a split layer look like."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from tests.jax_models.linen_models import batches, digits

Array = Any


def mesh(name: str) -> Mesh:
    return Mesh(np.array(jax.devices()[:4]), (name,))


def split_layer() -> list[Array]:
    """A layer whose columns lie on four devices, by `shard_map`, with a sum across them."""
    devices = mesh("model")

    @jax.jit
    @partial(
        jax.shard_map,
        mesh=devices,
        in_specs=(P(), P(None, "model"), P("model")),
        out_specs=P(),
    )
    def layer(x: Array, up: Array, down: Array) -> Array:
        return jax.lax.psum(jnp.tanh(x @ up) @ down, "model")

    up = np.ones((8, 16), np.float32)
    down = np.ones((16, 2), np.float32)
    answers = []
    for batch in batches(digits(32, 8), 8):
        answers.append(layer(batch, up, down))
    return answers
