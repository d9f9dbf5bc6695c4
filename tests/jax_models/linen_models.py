"""Models of flax's linen: each initialised in one program, and applied in one."""

from __future__ import annotations

from collections.abc import Callable
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


class Block(nn.Module):
    width: int
    strides: int = 1

    @nn.compact
    def __call__(self, x: Array, train: bool) -> Array:
        y = nn.Conv(self.width, (3, 3), (self.strides, self.strides), use_bias=False)(x)
        y = nn.relu(nn.BatchNorm(use_running_average=not train)(y))
        y = nn.Conv(self.width, (3, 3), use_bias=False)(y)
        y = nn.BatchNorm(use_running_average=not train)(y)
        if x.shape != y.shape:
            x = nn.Conv(self.width, (1, 1), (self.strides, self.strides))(x)
        return nn.relu(x + y)


class ResNet(nn.Module):
    """Two residual blocks with batch statistics."""

    @nn.compact
    def __call__(self, x: Array, train: bool = False) -> Array:
        x = nn.Conv(8, (3, 3))(x)
        x = Block(8)(x, train)
        x = Block(16, strides=2)(x, train)
        return nn.Dense(10)(x.mean((1, 2)))


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


def statistics() -> Tree:
    """Batch statistics that follow four batches, and one answer with them."""
    model, data = ResNet(), digits(32, 8, 8, 1)
    variables = initialised(model, data[:8])

    @jax.jit
    def follow(variables: Tree, batch: Array) -> Tree:
        _, new = model.apply(variables, batch, train=True, mutable=["batch_stats"])
        return {**variables, **new}

    for batch in batches(data, 8):
        variables = follow(variables, batch)
    apply: Callable[..., Array] = jax.jit(model.apply)
    return np.asarray(apply(variables, data[:8]))
