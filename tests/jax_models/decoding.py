"""A small decoder with a cache of keys and values: tokens by `lax.scan`, prompts in buckets."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

Array = Any

WIDTH: Final = 16
WORDS: Final = 40
ROOM: Final = 32
"""Positions of the cache: the prompt and what is decoded fit."""
BUCKETS: Final = (4, 8, 16)
"""The lengths to which prompts are padded."""


class Weights(NamedTuple):
    embed: Array
    qkv: Array
    out: Array


class Cache(NamedTuple):
    keys: Array
    values: Array


@jax.jit
def initialised(seed: Array) -> Weights:
    """Random weights, in one program."""
    keys = jax.random.split(jax.random.key(seed), 3)
    shapes = ((WORDS, WIDTH), (WIDTH, 3 * WIDTH), (WIDTH, WIDTH))
    return Weights(*(jax.random.normal(k, s) / 4 for k, s in zip(keys, shapes, strict=True)))


def empty() -> Cache:
    return Cache(np.zeros((ROOM, WIDTH), np.float32), np.zeros((ROOM, WIDTH), np.float32))


def attend(weights: Weights, words: Array, cache: Cache, start: Array) -> tuple[Array, Cache]:
    """What comes after each of ``words``, which begin at position ``start``."""
    x = weights.embed[words]
    q, k, v = jnp.split(x @ weights.qkv, 3, axis=-1)
    cache = Cache(
        jax.lax.dynamic_update_slice(cache.keys, k, (start, 0)),
        jax.lax.dynamic_update_slice(cache.values, v, (start, 0)),
    )
    seen = jnp.arange(ROOM) <= start + jnp.arange(len(words))[:, None]
    scores = jnp.where(seen, q @ cache.keys.T / WIDTH**0.5, -1e9)
    x = x + jax.nn.softmax(scores) @ cache.values @ weights.out
    return x @ weights.embed.T, cache


@jax.jit
def prefill(weights: Weights, words: Array, length: Array, cache: Cache) -> tuple[Array, Cache]:
    """The first word after a prompt that is padded."""
    scores, cache = attend(weights, words, cache, 0)
    return scores[length - 1].argmax(), cache


@jax.jit
def decode(weights: Weights, word: Array, position: Array, cache: Cache) -> tuple[Array, Cache]:
    """One more word."""
    scores, cache = attend(weights, word[None], cache, position)
    return scores[0].argmax(), cache


def padded(prompt: list[int]) -> Array:
    """A prompt in the smallest bucket that it fits into."""
    size = next(bucket for bucket in BUCKETS if bucket >= len(prompt))
    words = np.zeros(size, np.int32)
    words[: len(prompt)] = prompt
    return words


class Server:
    """Serves prompts of any length: a program for each bucket, and one for every word after it."""

    def __init__(self) -> None:
        self.weights = initialised(np.uint32(0))

    def warm(self) -> None:
        """Compile all that will be needed."""
        for bucket in BUCKETS:
            self.answer([1] * bucket, words=1)

    def answer(self, prompt: list[int], words: int = 4) -> list[int]:
        word, cache = prefill(self.weights, padded(prompt), np.int32(len(prompt)), empty())
        said = [int(word)]
        for position in range(len(prompt), len(prompt) + words):
            word, cache = decode(self.weights, word, np.int32(position), cache)
            said.append(int(word))
        return said
