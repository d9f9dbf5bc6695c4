"""The line that sets what a function of JAX is compiled again for, or what is called without it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

pytest.importorskip("jax")

import jax
import numpy as np
from jax import numpy as jnp

from tests.layers.jax.test_kept import watched


def scaled(x: Any, power: int = 1) -> Any:
    return jnp.tanh(x) ** power


def by_size() -> None:
    run = jax.jit(scaled)
    for size in (2, 3):
        x = np.ones(size, np.float32)
        run(x)


def by_a_static_value() -> None:
    run = jax.jit(scaled, static_argnames="power")
    for number in (2, 3):
        power = number + 1
        run(np.ones(2), power=power)


def by_a_function() -> None:
    for _ in range(2):
        run = jax.jit(partial(scaled))
        run(np.ones(2))


def by_a_lambda() -> None:
    for _ in range(2):
        run = jax.jit(lambda x: scaled(x))
        run(np.ones(2))


def by_a_setting() -> None:
    run = jax.jit(scaled)
    run(np.ones(2))
    with jax.default_matmul_precision("high"):
        run(np.ones(2))


def by_a_cleared_cache() -> None:
    run = jax.jit(scaled)
    for _ in range(2):
        run(np.ones(2))
        jax.clear_caches()


@pytest.mark.parametrize(
    ("program", "code"),
    [
        (by_size, "x = np.ones(size, np.float32)"),
        (by_a_static_value, "power = number + 1"),
        (by_a_function, "run = jax.jit(partial(scaled))"),
        (by_a_lambda, "run = jax.jit(lambda x: scaled(x))"),
        (by_a_setting, 'with jax.default_matmul_precision("high"):'),
        (by_a_cleared_cache, "jax.clear_caches()"),
    ],
)
def test_a_retrace_names_the_line_that_sets_it(program: Callable[[], None], code: str) -> None:
    (again,) = watched(program).recompile_list
    assert again.origin.code == code


def test_an_operation_outside_of_jit_names_what_is_called_without_it() -> None:
    def program() -> None:
        run = jax.vmap(scaled)
        run(np.ones(2))

    graphs = watched(program).graph_list
    assert {graph.origin.code for graph in graphs} == {"run = jax.vmap(scaled)"}
