"""What a function is that was given to ``jax.jit``: without its wrappers, and whose it is."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("jax")

import jax
from jax import numpy as jnp

from pytest_graphbreak.layers.jax import functions
from pytest_graphbreak.layers.jax.functions import unwrap

pytestmark = pytest.mark.jax


def double(x: Any, times: int = 2) -> Any:
    return x * times


class Model:
    def __call__(self, x: Any) -> Any:
        return x

    def forward(self, x: Any) -> Any:
        return x


class Bare:
    """Has no attributes, and cannot be called."""

    __slots__ = ()


@pytest.mark.parametrize(
    ("fun", "plain"),
    [
        (double, double),
        (functools.partial(double, times=3), double),
        (functools.partial(functools.partial(double, times=3)), double),
        (Model().forward, Model.forward),
        (Model(), Model.__call__),
        (jax.jit(double), double),
        (jax.grad(functools.partial(double)), double),
        (abs, abs),
    ],
)
def test_the_function_inside(fun: Any, plain: Any) -> None:
    assert unwrap(fun) is plain


def test_what_is_no_function_has_no_code() -> None:
    bare = Bare()
    assert unwrap(bare) is bare
    assert functions.code_of(bare) is None
    assert functions.definition(bare).endswith("test_functions.Bare")


def test_a_chain_without_end_is_left() -> None:
    fun: Any = double
    for _ in range(40):
        fun = functools.partial(fun)
        fun.__wrapped__ = None  # so that partials are not made one
    assert unwrap(fun) is not double


def test_two_functions_of_one_definition_are_the_same_code() -> None:
    def made(number: int) -> Any:
        return lambda x: x + number

    assert functions.definition(made(1)) == functions.definition(made(2))
    assert functions.definition(made(1)) != functions.definition(double)
    assert functions.definition(abs) == "builtins.builtin_function_or_method"
    line = double.__code__.co_firstlineno
    assert functions.definition(jax.jit(double)).endswith(f"test_functions.py:{line}:double")


@pytest.mark.parametrize(
    ("fun", "direct", "own"),
    [
        (double, True, False),  # the user's, whoever calls it
        (unwrap(jnp.sin), False, True),
        (jnp.sin, False, False),  # what the user gave to jit
        (jax.vmap(jnp.sin), False, False),
        (jax.nn.softmax, False, False),  # what the user gave to jit
        (jax.nn.softmax, True, True),
        (lambda x: x, False, False),
        (SimpleNamespace(_apply_primitive=True, __name__="sin"), False, True),
        (SimpleNamespace(_apply_primitive=True, __name__="call_exported"), False, False),
        (abs, True, False),
    ],
)
def test_what_jax_itself_gave_to_jit(fun: Any, direct: bool, own: bool) -> None:
    assert functions.is_own(fun, direct) is own
