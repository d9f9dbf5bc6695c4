"""Runs an operation as suites of devices do: inputs and the golden result on the host, one
program on the device, and the comparison on the host again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp

Array = Any

CORRELATED: Final = 0.99
"""What the correlation with the golden result has to be."""


def host() -> Any:
    return jax.devices("cpu")[0]


def device() -> Any:
    """The accelerator; here it is a second CPU device."""
    return jax.devices("cpu")[1]


def drawn(shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    """Random inputs, made on the host."""
    with jax.default_device(host()):
        keys = jax.random.split(jax.random.key(0), len(shapes))
        return [jax.random.uniform(k, s) for k, s in zip(keys, shapes, strict=True)]


def compared(result: Array, golden: Array) -> None:
    """Both on the host, where the correlation is computed."""
    with jax.default_device(host()):
        one, other = (jax.device_put(value, host()).ravel() for value in (result, golden))
        assert one.dtype == other.dtype
        if one.size == 1 or jnp.allclose(one, other):
            assert jnp.allclose(one, other, rtol=1e-4)
            return
        assert jnp.corrcoef(one, other)[0, 1] > CORRELATED


def run_op(op: Callable[..., Array], *shapes: tuple[int, ...]) -> None:
    """Hold an operation on the device to what the host makes of it."""
    inputs = drawn(shapes)
    golden = jax.jit(op)(*inputs)
    placed = [jax.device_put(value, device()) for value in inputs]
    result = jax.jit(op)(*placed)
    compared(result, golden)
