"""Models of flax's nnx: stateful modules, built and called in one program each."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from flax import nnx

from tests.jax_models.linen_models import batches, digits

Array = Any


class Mlp(nnx.Module):
    """With dropout, which is off once it is evaluated."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first = nnx.Linear(64, 32, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)
        self.last = nnx.Linear(32, 10, rngs=rngs)

    def __call__(self, x: Array) -> Array:
        return self.last(self.dropout(nnx.relu(self.first(x))))


def built(kind: type[Any], seed: int = 0) -> Any:
    """A model, its weights drawn in one program."""
    return nnx.jit(lambda seed: kind(nnx.Rngs(jax.random.key(seed))))(np.uint32(seed))


def evaluate() -> list[Array]:
    """The answers of a model that is evaluated."""
    model = built(Mlp)
    model.eval()
    apply = nnx.jit(lambda model, x: model(x))
    answers = []
    for batch in batches(digits(48, 64), 16):
        answers.append(apply(model, batch))
    return answers
