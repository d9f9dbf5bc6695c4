"""Which program is the first of its function. JAX is not needed for it."""

from __future__ import annotations

import gc
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_graphbreak.layers.jax.calls import JaxCall, Kind
from pytest_graphbreak.layers.jax.differences import FORGOTTEN
from pytest_graphbreak.layers.jax.keys import Key
from pytest_graphbreak.layers.jax.programs import FunctionLedger
from pytest_graphbreak.model.stacks import Line

pytestmark = pytest.mark.jax

HERE = Line("/home/me/test_model.py", 12, "test_model")


def call(fun: Any, size: int = 3, kind: Kind = "", line: int = 12) -> JaxCall:
    aval = SimpleNamespace(shape=(size,), dtype=SimpleNamespace(name="float32"), weak_type=False)
    stack = (HERE._replace(line=line),)
    return JaxCall(stack, fun, kind=kind, key=Key(arguments=(("x", aval),)))


def wave(x: int) -> int:
    return x


class Model:
    def forward(self, x: int) -> int:
        return x


def test_the_first_and_what_follows() -> None:
    ledger = FunctionLedger()
    assert ledger.note(call(wave)) == ""
    assert ledger.note(call(wave, 4)).endswith("at x: float32[3] before, float32[4] now")
    assert ledger.note(call(wave, 4)).endswith(FORGOTTEN)
    ledger.clear()
    assert ledger.note(call(wave, 4)) == ""


def test_a_gradient_and_the_host_are_counted_apart() -> None:
    ledger = FunctionLedger()
    assert ledger.note(call(wave)) == ""
    assert ledger.note(call(wave, 4, "forward")) == ""
    assert ledger.note(call(wave, 4), on_device=False) == ""


def test_a_function_made_anew() -> None:
    ledger = FunctionLedger()
    made = [lambda x, n=n: x + n for n in range(3)]
    said = [ledger.note(call(fun)) for fun in made]
    assert said[0] == ""
    assert all("new function object" in why for why in said[1:])
    assert ledger.note(call(lambda x: x, line=13)) == ""  # another lambda, on another line
    assert ledger.note(call(partial(wave, 1))) == ""
    assert "new function object" in ledger.note(call(partial(wave, 1)))


def test_a_method_of_another_object() -> None:
    ledger = FunctionLedger()
    one, other = Model(), Model()
    assert ledger.note(call(one.forward)) == ""
    assert "forward is a method of another Model" in ledger.note(call(other.forward))


def test_a_number_that_is_given_again_is_no_function_that_is_known() -> None:
    ledger = FunctionLedger()
    for line in range(200):
        fun = eval("lambda x: x")
        assert FORGOTTEN not in ledger.note(call(fun, line=line))
        del fun
        gc.collect(0)
