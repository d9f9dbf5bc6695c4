"""Models of flax's linen: each initialised in one program, and applied in one."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from flax import linen as nn

Array = Any
Tree = Any


class Classifier(nn.Module):
    """Digits, flat."""

    @nn.compact
    def __call__(self, x: Array, temperature: float = 1.0) -> Array:
        for width in (32, 32):
            x = nn.relu(nn.Dense(width)(x))
        return nn.log_softmax(nn.Dense(10)(x) / temperature)


def initialised(model: nn.Module, *inputs: Any, seed: int = 0) -> Tree:
    """The parameters, drawn in one program."""

    @jax.jit
    def init(seed: Array, *inputs: Array) -> Tree:
        return model.init(jax.random.key(seed), *inputs)

    return init(np.uint32(seed), *inputs)


def digits(count: int, *shape: int) -> Array:
    """Numbers from 0 to 1, the same in every run."""
    return np.random.default_rng(count).random((count, *shape), dtype=np.float32)


def batches(data: Array, size: int) -> list[Array]:
    """Whole batches: the last ones that fill none are left out."""
    whole = len(data) - len(data) % size
    return [data[start : start + size] for start in range(0, whole, size)]


def classify() -> list[Array]:
    """Answers for each batch of a set that its size does not divide."""
    model, data = Classifier(), digits(70, 64)
    params = initialised(model, data[:16])
    apply = jax.jit(model.apply, static_argnames="temperature")
    answers = []
    for batch in batches(data, 16):
        temperature = 2.0
        scores = apply(params, batch, temperature=temperature)
        answers.append(np.asarray(scores).argmax(-1))
    return answers
