"""What stops a program of JAX: which values are asked for, and which line asks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

pytest.importorskip("jax")

import jax
import numpy as np
from jax import numpy as jnp

from pytest_graphbreak.layers.jax import interruptions

pytestmark = pytest.mark.jax

X = np.ones(3, np.float32)


def raised(fun: Callable[[Any], Any]) -> BaseException:
    with pytest.raises(Exception) as caught:  # noqa: PT011  # which one is what is asked
        jax.jit(fun)(X)
    return caught.value


def branches(x: Any) -> Any:
    return x if x.sum() > 0 else -x


@pytest.mark.parametrize(
    ("fun", "name", "how"),
    [
        (branches, "TracerBoolConversionError", "by bool()"),
        (lambda x: range(x.argmax()), "TracerIntegerConversionError", "as an index"),
        (lambda x: np.asarray(x), "TracerArrayConversionError", "by NumPy"),
        (lambda x: x[x > 0], "NonConcreteBooleanIndexError", "a boolean mask"),
        (lambda x: float(x.sum()), "ConcretizationTypeError", "by item(), float(), int()"),
    ],
)
def test_each_way_to_ask_has_its_words(fun: Callable[[Any], Any], name: str, how: str) -> None:
    words = interruptions.stop_reason(raised(fun))
    assert words.startswith(f"{name}: the value of a traced array is asked for ")
    assert how in words


def test_another_exception_stops_nothing() -> None:
    assert interruptions.stop_reason(ValueError("a shape that does not fit")) == ""
    assert interruptions.stop_reason(raised(lambda x: x @ jnp.ones((4, 4)))) == ""


def test_the_stack_ends_at_the_line_that_asked() -> None:
    error = raised(branches)
    found = interruptions.stop_stack(error, sys._getframe())
    assert found[-1].name == "branches"
    assert found[-1].line == branches.__code__.co_firstlineno + 1
    assert test_the_stack_ends_at_the_line_that_asked.__name__ in {line.name for line in found}


def test_what_was_not_raised_has_the_stack_alone() -> None:
    found = interruptions.stop_stack(ValueError("never raised"), sys._getframe())
    assert found[-1].name == test_what_was_not_raised_has_the_stack_alone.__name__


def test_the_edge_of_a_call_is_known_by_what_it_calls() -> None:
    def cache_miss() -> FrameType:
        return sys._getframe(1)

    def reraise_with_filtered_traceback(fun: Callable[[], FrameType]) -> FrameType:
        return fun()

    assert interruptions.is_jit_boundary(reraise_with_filtered_traceback(cache_miss))
    assert not interruptions.is_jit_boundary(
        reraise_with_filtered_traceback(lambda: sys._getframe(1))
    )
    assert not interruptions.is_jit_boundary(cache_miss())
    assert not interruptions.is_jit_boundary(None)


def test_what_xla_says_is_one_line() -> None:
    said = "INTERNAL: no kernel\nwith a dump of the module"
    assert (
        interruptions.refusal("step", RuntimeError(said))
        == "XLA cannot compile step: INTERNAL: no kernel"
    )
    assert interruptions.refusal("step", RuntimeError()) == "XLA cannot compile step: RuntimeError"
