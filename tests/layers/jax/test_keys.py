"""How two programs of one function differ, in a user's words. JAX is not needed for it."""

from __future__ import annotations

import enum
import functools
import types
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_graphbreak.layers.jax.keys import FORGOTTEN, INSIDE, Key, reason, value

pytestmark = pytest.mark.jax


def array(*shape: int, dtype: str = "float32", weak: bool = False) -> Any:
    kind = SimpleNamespace(name=dtype)
    return SimpleNamespace(shape=shape, dtype=kind, weak_type=weak, sharding=None)


def key(**parts: Any) -> Key:
    arguments = tuple(parts.pop("arguments", {"x": array(3)}).items())
    pairs = {name: tuple(pair.items()) for name, pair in parts.items() if isinstance(pair, dict)}
    return Key(arguments=arguments, **{**parts, **pairs})


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (
            {"arguments": {"y['hi']": array(3)}},
            {"arguments": {"y['hi']": array(4)}},
            "at y['hi']: float32[3] before, float32[4] now",
        ),
        (
            {"arguments": {"x": array(3, dtype="bfloat16")}},
            {},
            "at x: bfloat16[3] before, float32[3] now",
        ),
        (
            {"arguments": {"x": array(weak=True)}},
            {"arguments": {"x": array()}},
            "at x: float32[] of weak type before, float32[] now",
        ),
        ({"statics": {"n": 2}}, {"statics": {"n": 3}}, "the static argument n: 2 before, 3 now"),
        (
            {"statics": {}},
            {"statics": {"n": "a"}},
            "the static argument n was left out before, is 'a' now",
        ),
        ({"statics": {"n": 2}}, {"statics": {}}, "the static argument n is left out now"),
        (
            {"statics": {"config": SimpleNamespace(a=1)}},
            {"statics": {"config": SimpleNamespace(a=2)}},
            "the static argument config.a: 1 before, 2 now",
        ),
        (
            {"statics": {"config": SimpleNamespace(a=1)}},
            {"statics": {"config": SimpleNamespace(a=1, b=2)}},
            "the static argument config.b was not there before, is 2 now",
        ),
        (
            {"statics": {"config": SimpleNamespace(a=1, b=None)}},
            {"statics": {"config": SimpleNamespace(a=1)}},
            "the static argument config.b is not there now",
        ),
        (
            {"settings": {"jax_enable_x64": False}},
            {"settings": {"jax_enable_x64": True}},
            "the setting jax_enable_x64: False before, True now",
        ),
        (
            {"options": {"donate_argnums": ()}},
            {"options": {"donate_argnums": (0,)}},
            "the option donate_argnums of jax.jit: () before, (0,) now",
        ),
        (
            {"devices": ("cpu:0",)},
            {"devices": ("cpu:1",)},
            "for cpu:0 before, for cpu:1 now",
        ),
        (
            {"tree": "one"},
            {"tree": "two", "arguments": {"x": array(3), "y": array(1)}},
            "arguments put together differently: y not there before",
        ),
        (
            {"tree": "(*,)"},
            {"tree": "[*,]"},
            "arguments put together differently: (*,) before, [*,] now",
        ),
        # of a library, whose names are not the user's
        ({"statics": {"": ("f", 1)}}, {"statics": {"": ("f", 2)}}, f"{INSIDE}: 1 before, 2 now"),
        ({"statics": {"": object()}}, {"statics": {"": object()}}, f"{INSIDE} is another"),
        (
            {"statics": {"n": [*range(9), 1]}},
            {"statics": {"n": [*range(9), 2]}},
            f"{INSIDE}: 1 before, 2 now",
        ),
        (
            {"arguments": {"": array(3)}},
            {"arguments": {"": array(4)}},
            "at an argument: float32[3] before, float32[4] now",
        ),
        ({}, {}, FORGOTTEN),
    ],
)
def test_what_differs(before: dict[str, Any], now: dict[str, Any], said: str) -> None:
    assert reason(key(**now), [key(**before)]) == said


def test_the_closest_is_reported() -> None:
    """The fewest differences, then the latest."""
    known = [key(arguments={"x": array(size)}) for size in (3, 4, 9)]
    assert reason(key(arguments={"x": array(5)}), known).startswith("at x: float32[9] before")
    other = key(arguments={"x": array(7, dtype="int8")}, statics={"n": 1})
    assert reason(key(arguments={"x": array(8)}), [*known, other]).startswith("at x: float32[9]")


def test_many_are_counted() -> None:
    before = key(arguments={name: array(3) for name in "abcde"})
    now = key(arguments={name: array(4) for name in "abcde"})
    assert reason(now, [before]).endswith("at c: float32[3] before, float32[4] now; and 2 more")


class Mode(enum.Enum):
    FAST = 1


def test_no_address_is_reported() -> None:
    assert value(object()) == "object object"
    assert value(Mode.FAST) == "Mode.FAST"
    assert value((1, [2.5, None])) == "(1, [2.5, None])"
    assert value(len) == "len"
    assert len(value("x" * 1000)) == 80


asked: list[str] = []


class Sly:
    """An object that runs code of the user's for each attribute, and may be of any class."""

    def __getattribute__(self, name: str) -> Any:
        asked.append(name)
        return self if name == "__qualname__" else object.__getattribute__(self, name)

    def __eq__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return 1

    def __call__(self) -> None:
        pass


class SlyMode(enum.Enum):
    FAST = 1

    def __getattribute__(self, name: str) -> Any:
        asked.append(name)
        return object.__getattribute__(self, name)


@pytest.mark.parametrize(
    ("constant", "said"),
    [
        (Sly(), "Sly object"),
        (SlyMode.FAST, "SlyMode.FAST"),
        (types.MethodType(Sly(), 1), "Sly object"),
    ],
)
def test_no_attribute_of_a_users_object_is_read(constant: Any, said: str) -> None:
    asked.clear()
    assert value(constant) == said
    assert asked == []


def test_an_object_may_refuse_to_show_its_attributes() -> None:
    class Closed:
        @property
        def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
            raise ValueError

    said = reason(key(statics={"n": Closed()}), [key(statics={"n": Closed()})])
    assert said.endswith("Closed object, which is not equal")


def test_functions_and_classes_have_names() -> None:
    assert value(array) == "array"
    assert value(Mode) == "Mode"
    assert value("".join) == "str.join"
    assert value(Sly.__hash__) == "Sly.__hash__"
    wrapped = functools.update_wrapper(SimpleNamespace(), array)  # as jax.jit makes one
    assert value(wrapped) == "array"


def test_a_value_that_the_object_made_of_its_own_is_no_difference() -> None:
    class Config:
        @functools.cached_property
        def half(self) -> int:
            return 2

    before, now = Config(), Config()
    assert before.half == 2
    said = reason(key(statics={"n": now}), [key(statics={"n": before})])
    assert "half" not in said


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


def test_where_an_array_lies_is_reported_once() -> None:
    """Its type holds where it lies, too; of pmap there are more names than arrays."""

    def placed(*spec: str) -> Any:
        mesh = SimpleNamespace(shape={"data": 4} if spec else {})
        return SimpleNamespace(spec=spec or (None,), mesh=mesh)

    def here(sharding: Any) -> Key:
        typed = SimpleNamespace(**vars(array(8)) | {"sharding": sharding})
        return key(arguments={"x": typed, "axis": array()}, shardings=(sharding,))

    said = "at x: not sharded before, sharded ('data',) over data=4 now"
    assert reason(here(placed("data")), [here(placed())]) == said
