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


class Layer(nnx.Module):
    """Attention and a feed-forward, each with a norm before it."""

    def __init__(self, width: int, rngs: nnx.Rngs) -> None:
        self.norms = nnx.List([nnx.LayerNorm(width, rngs=rngs) for _ in range(2)])
        self.attention = nnx.MultiHeadAttention(2, width, decode=False, rngs=rngs)
        self.up = nnx.Linear(width, 2 * width, rngs=rngs)
        self.down = nnx.Linear(2 * width, width, rngs=rngs)

    def __call__(self, x: Array, mask: Array) -> Array:
        x = x + self.attention(self.norms[0](x), mask=mask)
        return x + self.down(nnx.gelu(self.up(self.norms[1](x))))


class Encoder(nnx.Module):
    """Two layers over words, with a mask of what is padding."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.embed = nnx.Embed(50, 16, rngs=rngs)
        self.layers = nnx.List([Layer(16, rngs) for _ in range(2)])

    def __call__(self, words: Array, length: Array) -> Array:
        here = jax.numpy.arange(words.shape[-1]) < length
        x = self.embed(words)
        for layer in self.layers:
            x = layer(x, here[None, None, None, :])
        return x[:, 0]


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


def encode() -> list[Array]:
    """Texts of three lengths, as one shape and a number."""
    model = built(Encoder)
    apply = nnx.jit(lambda model, words, length: model(words, length))
    vectors = []
    for length in (3, 7, 8):
        words = np.zeros((1, 8), np.int32)
        known = np.int32(length)
        vectors.append(apply(model, words, known))
    return vectors
