"""What equinox hands to JAX is reported as the user wrote it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pytest_graphbreak import observe
from pytest_graphbreak.layers.jax import calls
from pytest_graphbreak.layers.jax.keys import Key

jax = pytest.importorskip("jax")
eqx = pytest.importorskip("equinox")

X = np.ones(3, np.float32)


class Scaled(eqx.Module):  # type: ignore[misc,name-defined,unused-ignore]
    weight: Any
    scale: float
    act: Any

    def __call__(self, x: Any) -> Any:
        return self.act(self.weight * x) * self.scale


def reported(run: Callable[[], Any]) -> list[tuple[str, str]]:
    """The cause and the reason of each program."""
    jax.clear_caches()
    with observe() as seen:
        run()
    assert not seen.record.errors
    return [(graph.cause, graph.reason) for graph in seen.record.graph_list if graph.layer == "jax"]


def test_two_functions_are_no_retrace() -> None:
    first, second = eqx.filter_jit(lambda x: x + 1), eqx.filter_jit(lambda x: x * 2)

    def run() -> None:
        first(X)
        second(X)

    (first_cause, one), (second_cause, two) = reported(run)
    assert (first_cause, second_cause) == ("jit", "jit")
    assert one == two
    assert re.fullmatch(r"<lambda> of tests/layers/jax/test_equinox\.py:\d+", one)


def test_an_array_and_what_is_static_have_the_names_of_the_user() -> None:
    @eqx.filter_jit
    def call(model: Any, x: Any, flag: bool = True) -> Any:
        return model(x)

    model = Scaled(X, 1.0, jax.nn.relu)

    def run() -> None:
        call(model, X)
        call(eqx.tree_at(lambda m: m.weight, model, X[:1]), X)
        call(model, X[None])
        call(eqx.tree_at(lambda m: m.scale, model, 2.0), X)
        call(model, X, flag=False)

    causes, reasons = zip(*reported(run), strict=True)
    assert causes == ("jit", *["retrace"] * 4)
    function, *again = [re.sub(r":\d+", "", reason) for reason in reasons[:4]]
    assert function == "call of tests/layers/jax/test_equinox.py"
    assert again == [
        f"{words} ({function})"
        for words in (
            "at model.weight: float32[3] before, float32[1] now",
            "at x: float32[3] before, float32[1,3] now",
            "the static argument model.scale: 1.0 before, 2.0 now",
        )
    ]
    assert reasons[4].startswith("the static argument flag was left out before, is False now")


def test_a_function_made_anew() -> None:
    def run() -> None:
        for _ in range(3):
            eqx.filter_jit(lambda x: x - 1)(X)

    (first, _), *again = reported(run)
    assert first == "jit"
    assert {cause for cause, _ in again} == {"retrace"}
    assert all("new function object" in reason for _, reason in again)


def test_a_method_and_a_module_that_is_called() -> None:
    module = eqx.filter_jit(Scaled(X, 1.0, jax.nn.relu))

    def run() -> None:
        module(X)
        module(X[:1])

    (first, _), (cause, reason) = reported(run)
    assert (first, cause) == ("jit", "retrace")
    assert reason == "at x: float32[3] before, float32[1] now"


class Net(eqx.Module):  # type: ignore[misc,name-defined,unused-ignore]
    weight: Any

    @eqx.filter_jit  # type: ignore[untyped-decorator,unused-ignore]
    def compiled(self, x: Any) -> Any:
        return self.weight * x

    @eqx.filter_checkpoint  # type: ignore[untyped-decorator,unused-ignore]
    def again(self, x: Any) -> Any:
        return self.weight * x


METHODS: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "compiled": (lambda: Net(X).compiled(X), ["jit"]),
    "two shapes": (lambda: [Net(w).compiled(X) for w in (X, X[:1])], ["jit", "retrace"]),
    "outside of jit": (lambda: Net(X).again(X), ["eager"]),
    "wrapped": (
        lambda: eqx.debug.assert_max_traces(jax.jit(lambda x: x + 1), max_traces=2)(X),
        ["jit"],
    ),
}


@pytest.mark.parametrize("name", METHODS)
def test_the_place_is_the_line_that_calls_a_method(name: str) -> None:
    """Equinox binds a wrapped method by a function of its own, which calls JAX."""
    run, causes = METHODS[name]
    jax.clear_caches()
    with observe() as seen:
        run()
    graphs = [graph for graph in seen.record.graph_list if graph.layer == "jax"]
    assert [graph.cause for graph in graphs] == causes
    assert {graph.where.file for graph in graphs} == {"tests/layers/jax/test_equinox.py"}


def test_methods_of_one_definition_are_made_anew_where_one_line_calls_them() -> None:
    def made() -> Any:
        class Local(eqx.Module):  # type: ignore[misc,name-defined,unused-ignore]
            @eqx.filter_jit  # type: ignore[untyped-decorator,unused-ignore]
            def run(self, x: Any) -> Any:
                return x * 3

        return Local()

    def run() -> None:
        for _ in range(2):
            made().run(X)
        made().run(X)

    assert [cause for cause, _ in reported(run)] == ["jit", "retrace", "jit"]


def test_another_equinox_is_left_as_jax_sees_it() -> None:
    """Where its frames hold something else, names are those that JAX gives."""
    names: dict[str, Any] = {}
    code = compile("import sys\ndef call():\n    return sys._getframe()", "equinox/_jit.py", "exec")
    exec(code, names)
    assert calls.unpacked(names["call"](), (), Key()) is None
    assert calls.unpacked(None, (), Key()) is None


def test_arguments_beyond_the_names_are_numbered() -> None:
    entry = jax.tree_util.SequenceKey
    path = (entry(0), entry(1), entry(2))
    assert calls._leaf_path(path, "rest", ["model"]) == "args[2][2]"
    assert calls._leaf_path((), "first", []) == "args[0]"
    assert calls._leaf_path((entry(3),), "fun", []) == "the function[3]"
    assert calls._named_leaf("x", {}) == "x"
