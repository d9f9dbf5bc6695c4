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


class Tagger(nn.Module):
    """An LSTM over words."""

    @nn.compact
    def __call__(self, words: Array) -> Array:
        x = nn.Embed(50, 16)(words)
        x = nn.RNN(nn.OptimizedLSTMCell(16))(x)
        return nn.Dense(5)(x)


class Vae(nn.Module):
    """Encodes, draws, decodes."""

    @nn.compact
    def __call__(self, x: Array, key: Array) -> tuple[Array, Array, Array]:
        hidden = nn.relu(nn.Dense(32)(x))
        mean, deviation = nn.Dense(4)(hidden), nn.Dense(4)(hidden)
        drawn = mean + jax.numpy.exp(deviation) * jax.random.normal(key, mean.shape)
        return nn.Dense(x.shape[-1])(nn.relu(nn.Dense(32)(drawn))), mean, deviation


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


def tag() -> list[Array]:
    """Tags of sentences, each padded to the longest that there may be."""
    model, longest = Tagger(), 12
    sentences = [np.arange(length) for length in (5, 9, 12)]
    params = initialised(model, np.zeros((1, longest), np.int32))
    apply = jax.jit(model.apply)
    tags = []
    for words in sentences:
        padded = np.zeros((1, longest), np.int32)
        padded[0, : len(words)] = words
        tags.append(np.asarray(apply(params, padded)).argmax(-1)[0, : len(words)])
    return tags


def draw() -> list[float]:
    """The loss of three drawings, of a seed each."""
    model, data = Vae(), digits(8, 16)

    @jax.jit
    def loss(params: Tree, x: Array, seed: Array, beta: Array) -> Array:
        again, mean, deviation = model.apply(params, x, jax.random.key(seed))
        kept = ((x - again) ** 2).mean()
        return kept + beta * (mean**2 + jax.numpy.exp(2 * deviation) - 2 * deviation).mean()

    init = jax.jit(lambda seed: model.init(jax.random.key(seed), data, jax.random.key(seed)))
    params = init(np.uint32(0))
    losses = []
    for seed in range(3):
        beta = np.float32(min(1.0, 0.5 * seed))
        losses.append(float(loss(params, data, np.uint32(seed), beta)))
    return losses
