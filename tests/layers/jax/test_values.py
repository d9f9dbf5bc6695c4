"""Values in a user's words: none of the user's code is run, and nothing changes from run to run."""

from __future__ import annotations

import enum
import functools
import types
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_graphbreak.layers.jax.values import value

pytestmark = pytest.mark.jax

asked: list[str] = []


class Mode(enum.Enum):
    FAST = 1

    def __getattribute__(self, name: str) -> Any:
        asked.append(name)
        return object.__getattribute__(self, name)


class Sly:
    """An object that runs code of the user's for each attribute, and may be of any class."""

    def __getattribute__(self, name: str) -> Any:
        asked.append(name)
        return self if name == "__qualname__" else object.__getattribute__(self, name)

    def __hash__(self) -> int:
        return 1

    def __call__(self) -> None:
        pass


def step() -> None:
    """A function."""


@pytest.mark.parametrize(
    ("constant", "said"),
    [
        (object(), "object object"),
        (Sly(), "Sly object"),
        (types.MethodType(Sly(), 1), "Sly object"),
        (Mode.FAST, "Mode.FAST"),
        (Mode, "Mode"),
        ((1, [2.5, None]), "(1, [2.5, None])"),
        (step, "step"),
        (functools.update_wrapper(SimpleNamespace(), step), "step"),  # as jax.jit makes one
        (len, "len"),
        ("".join, "str.join"),
        (Sly.__hash__, "Sly.__hash__"),
        ("x" * 1000, f"'{'x' * 76}..."),
    ],
    ids=lambda parameter: type(parameter).__name__,
)
def test_no_attribute_is_read_and_no_address_shown(constant: Any, said: str) -> None:
    asked.clear()
    assert value(constant) == said
    assert asked == []


def test_a_value_is_looked_into_as_far_as_it_is_shown() -> None:
    """All of it would be eight to the power of ten parts."""
    nested: tuple[Any, ...] = (1,)
    for _ in range(10):
        nested = (nested,) * 8
    ones = ", ".join(["(1,)"] * 8)
    assert value(nested) == f"{'(' * 9}({ones}), ({ones}"[:77] + "..."
    deep: tuple[Any, ...] = ()
    for _ in range(100_000):
        deep = (deep,)
    assert value(deep) == f"{'(' * 77}..."


def test_numpys_values_and_types_are_named() -> None:
    numpy, ml_dtypes = pytest.importorskip("numpy"), pytest.importorskip("ml_dtypes")
    assert value(numpy.float32(0.5)) == "0.5"
    assert value(numpy.array(3)) == "3"
    assert value(numpy.dtype("float32")) == "float32"
    assert value(numpy.dtype(ml_dtypes.float8_e4m3fn)) == "float8_e4m3fn"
