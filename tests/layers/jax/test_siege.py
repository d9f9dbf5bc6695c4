"""What is strange in what a user hands to JAX: no count is lost, and each text is one of ours."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

jax = pytest.importorskip("jax")

from pytest_graphbreak.layers.jax import differences, values  # noqa: E402
from pytest_graphbreak.layers.jax.keys import Key  # noqa: E402
from pytest_graphbreak.model.items import Graph  # noqa: E402
from tests.layers.jax.tools import watched  # noqa: E402

pytestmark = pytest.mark.jax

X = np.ones(3, np.float32)
LONGEST = 2000
"""Characters of a reason at most: a report has a line for it."""
ADDRESS = re.compile(r"0x[0-9a-f]{6,16}")


class Loud:
    """Every question to it is an error."""

    def __repr__(self) -> str:
        raise RuntimeError("asked for its repr")

    __str__ = __repr__

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("_", "pretty")) and name != "__qualname__":  # hypothesis asks
            raise AttributeError(name)
        raise RuntimeError(f"asked for {name}")


class Text(str):
    def __repr__(self) -> str:
        raise RuntimeError("asked for its repr")


class Number(int):
    def __repr__(self) -> str:
        raise RuntimeError("asked for its repr")


class Kind(enum.Enum):
    ONE = 1
    TWO = 2

    def __str__(self) -> str:
        raise RuntimeError("asked for its name")


class Tree:
    """A node of a pytree with something static in it."""

    def __init__(self, array: Any, static: Any) -> None:
        self.array, self.static = array, static


jax.tree_util.register_pytree_node(
    Tree, lambda tree: ((tree.array,), tree.static), lambda static, leaves: Tree(*leaves, static)
)


def compiled(run: Callable[[], Any]) -> tuple[Graph, ...]:
    seen = watched(run)
    assert seen.errors == ()
    for graph in seen.graph_list:
        legible(graph.reason)
        legible(graph.name)
    return seen.graph_list


def legible(text: str) -> None:
    assert text.isprintable(), repr(text)
    assert len(text) <= LONGEST
    assert not ADDRESS.search(text), text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Loud(), Loud()),
        (Text("a\nb"), Text("c" * 100_000)),
        (Number(1), Number(2)),
        (Kind.ONE, Kind.TWO),
        (Number, Loud),
        (object(), object()),
        ("\x1b[31mred\x1b[0m", "\u202etfel"),
        ((Loud(), (Kind.ONE,)), (Loud(), (Kind.TWO,))),
        (b"\xff\x00", b"\xfe" * 10_000),
        (lambda x: x, lambda y: y),
        (float("nan"), float("nan")),
        (frozenset({object()}), frozenset({object()})),
    ],
    ids=lambda value: type(value).__name__,
)
def test_static_arguments(one: Any, other: Any) -> None:
    f = jax.jit(lambda x, static: x * 2, static_argnums=1)
    graphs = compiled(lambda: (f(X, one), f(X, other)))
    assert [graph.cause for graph in graphs] == ["jit", "retrace"]
    assert graphs[1].reason.startswith("the static argument static: ")


@pytest.mark.parametrize("key", ["\x1b[31m", "a\nb", "\u202e", "k" * 100_000, "']['", ""])
def test_names_of_arrays(key: str) -> None:
    f = jax.jit(lambda tree: tree[key] * 2)
    graphs = compiled(lambda: (f({key: X}), f({key: np.ones(4, np.float32)})))
    assert [graph.cause for graph in graphs] == ["jit", "retrace"]
    assert "float32[3] before, float32[4] now" in graphs[1].reason


@pytest.mark.parametrize("name", ["\x1b[31m", "a\nb", "n" * 50_000, "", "a b/c", "\u202e"])
def test_names_of_functions(name: str) -> None:
    def f(x: Any) -> Any:
        return x * 2

    f.__name__ = f.__qualname__ = name
    assert [graph.cause for graph in compiled(lambda: jax.jit(f)(X))] == ["jit"]


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | st.text()
    | st.binary()
    | st.builds(Loud)
    | st.sampled_from([Kind.ONE, Kind.TWO, len])
    | st.builds(object),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.frozensets(st.integers()),
    max_leaves=12,
)
KEYS = st.builds(
    Key,
    arguments=st.lists(st.tuples(st.text(), st.none() | st.text()), max_size=4).map(tuple),
    tree=VALUES,
    statics=st.lists(st.tuples(st.text(), VALUES), max_size=4).map(tuple),
    shardings=st.lists(st.none() | st.text(), max_size=4).map(tuple),
    devices=st.lists(st.text(), max_size=3).map(tuple),
    options=st.lists(st.tuples(st.text(), VALUES), max_size=3).map(tuple),
    settings=st.lists(st.tuples(st.text(), VALUES), max_size=3).map(tuple),
)


@given(KEYS, st.lists(KEYS, min_size=1, max_size=3))
@settings(max_examples=60, phases=[Phase.generate])
def test_any_reason(key: Key, known: list[Key]) -> None:
    text = differences.reason(key, known)
    assert text
    legible(text)
    assert differences.reason(key, [*known, key]) == differences.reason(key, [key])


@given(VALUES)
@settings(max_examples=60, phases=[Phase.generate])
def test_any_value(value: Any) -> None:
    legible(values.value(value))
    assert values.value(value) == values.value(value)
