"""Models of equinox: a module is its parameters; what is no array is static."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import numpy as np

from tests.jax_models.linen_models import batches, digits

Array = Any


class Convolutional(eqx.Module):
    """Two convolutions and a number that scales what comes out."""

    layers: list[Any]
    scale: float

    def __init__(self, key: Array) -> None:
        first, second, last = jax.random.split(key, 3)
        self.layers = [
            eqx.nn.Conv2d(1, 4, 3, key=first),
            eqx.nn.MaxPool2d(2, 2),
            eqx.nn.Conv2d(4, 8, 3, key=second),
            eqx.nn.Linear(8, 10, key=last),
        ]
        self.scale = 1.0

    def __call__(self, x: Array) -> Array:
        for layer in self.layers[:-1]:
            x = jax.nn.relu(layer(x))
        return self.scale * self.layers[-1](x.reshape(-1))


def built(kind: type[Any], seed: int = 0) -> Any:
    """A model, its weights drawn in one program."""
    return eqx.filter_jit(lambda seed: kind(jax.random.key(seed)))(np.uint32(seed))


def look() -> list[Array]:
    """Batches of pictures, by a model that keeps its scale."""
    model = built(Convolutional)
    apply = eqx.filter_jit(lambda model, x: jax.vmap(model)(x))
    scores = []
    for batch in batches(digits(24, 1, 8, 8), 8):
        scores.append(apply(model, batch))
    return scores
