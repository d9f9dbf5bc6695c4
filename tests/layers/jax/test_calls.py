"""What is read from JAX's frames: the function that was compiled, whose it is, its arguments."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("jax")

import jax
from jax import numpy as jnp

from pytest_graphbreak.layers.jax import calls
from pytest_graphbreak.layers.jax.calls import JaxCall, unwrap
from pytest_graphbreak.model.stacks import Line

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
    assert calls.unwrap(fun) is plain


def test_what_is_no_function_has_no_code() -> None:
    bare = Bare()
    assert calls.unwrap(bare) is bare
    assert calls.code_of(bare) is None
    assert calls.definition(bare).endswith("test_calls.Bare")


def test_a_chain_without_end_is_left() -> None:
    fun: Any = double
    for _ in range(40):
        fun = functools.partial(fun)
        fun.__wrapped__ = None  # so that partials are not made one
    assert calls.unwrap(fun) is not double


def test_two_functions_of_one_definition_are_the_same_code() -> None:
    def made(number: int) -> Any:
        return lambda x: x + number

    assert calls.definition(made(1)) == calls.definition(made(2))
    assert calls.definition(made(1)) != calls.definition(double)
    assert calls.definition(abs) == "builtins.builtin_function_or_method"
    line = double.__code__.co_firstlineno
    assert calls.definition(jax.jit(double)).endswith(f"test_calls.py:{line}:double")


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
    assert calls._is_own(fun, direct) is own


def test_who_called_is_no_library() -> None:
    mine = Line("/home/me/model.py", 3, "step")
    library = Line("/venv/lib/python3.11/site-packages/equinox/_jit.py", 9, "__call__")
    assert JaxCall((mine, library)).caller == mine
    assert JaxCall((library,)).caller == library
    assert JaxCall(()).caller is None


def test_names_that_are_missing_are_empty() -> None:
    assert calls._pairs(["x"], (1, 2)) == (("x", 1), ("", 2))
    assert calls._enclosed_value(double, "fun") is None
    assert calls._source(SimpleNamespace()) == ""
    old = SimpleNamespace(debug_info=SimpleNamespace(func_src_info="f at model.py:12"))
    assert calls._source(SimpleNamespace(jaxpr=old)) == "f at model.py:12"  # of jax 0.7
