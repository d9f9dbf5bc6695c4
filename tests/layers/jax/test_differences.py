"""How two programs of one function differ, in a user's words. JAX is not needed for it."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_graphbreak.layers.jax.differences import FORGOTTEN, INSIDE, reason
from pytest_graphbreak.layers.jax.keys import Key

pytestmark = pytest.mark.jax


def array(*shape: int, dtype: str = "float32", weak: bool = False) -> Any:
    kind = SimpleNamespace(name=dtype)
    return SimpleNamespace(shape=shape, dtype=kind, weak_type=weak, sharding=None)


def key(**parts: Any) -> Key:
    """A key; a part may be a dict."""
    pairs = {name: tuple(pair.items()) for name, pair in parts.items() if isinstance(pair, dict)}
    return Key(**{"arguments": (("x", array(3)),), **parts, **pairs})


def config(**fields: Any) -> Key:
    return key(statics={"config": SimpleNamespace(**fields)})


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (
            key(arguments={"y['hi']": array(3)}),
            key(arguments={"y['hi']": array(4)}),
            "at y['hi']: float32[3] before, float32[4] now",
        ),
        (
            key(arguments={"x": array(3, dtype="bfloat16")}),
            key(),
            "at x: bfloat16[3] before, float32[3] now",
        ),
        (
            key(arguments={"x": array(weak=True)}),
            key(arguments={"x": array()}),
            "at x: float32[] of weak type before, float32[] now",
        ),
        (key(statics={"n": 2}), key(statics={"n": 3}), "the static argument n: 2 before, 3 now"),
        (
            key(statics={}),
            key(statics={"n": "a"}),
            "the static argument n was left out before, is 'a' now",
        ),
        (key(statics={"n": 2}), key(statics={}), "the static argument n is left out now"),
        (config(a=1), config(a=2), "the static argument config.a: 1 before, 2 now"),
        (
            config(a=1),
            config(a=1, b=2),
            "the static argument config.b was not there before, is 2 now",
        ),
        (config(a=1, b=None), config(a=1), "the static argument config.b is not there now"),
        (
            key(settings={"jax_enable_x64": False}),
            key(settings={"jax_enable_x64": True}),
            "the setting jax_enable_x64: False before, True now",
        ),
        (
            key(options={"donate_argnums": ()}),
            key(options={"donate_argnums": (0,)}),
            "the option donate_argnums of jax.jit: () before, (0,) now",
        ),
        (key(devices=("cpu:0",)), key(devices=("cpu:1",)), "for cpu:0 before, for cpu:1 now"),
        (
            key(tree="one"),
            key(tree="two", arguments={"x": array(3), "y": array(1)}),
            "arguments put together differently: y not there before",
        ),
        (
            key(tree="(*,)"),
            key(tree="[*,]"),
            "arguments put together differently: (*,) before, [*,] now",
        ),
        # of a library, whose names are not the user's
        (key(statics={"": ("f", 1)}), key(statics={"": ("f", 2)}), f"{INSIDE}: 1 before, 2 now"),
        (key(statics={"": object()}), key(statics={"": object()}), f"{INSIDE} is another"),
        (
            key(statics={"n": [*range(9), 1]}),
            key(statics={"n": [*range(9), 2]}),
            f"{INSIDE}: 1 before, 2 now",
        ),
        (
            key(arguments={"": array(3)}),
            key(arguments={"": array(4)}),
            "at an argument: float32[3] before, float32[4] now",
        ),
        (
            key(arguments={name: array(3) for name in "abcde"}),
            key(arguments={name: array(4) for name in "abcde"}),
            "; ".join(f"at {name}: float32[3] before, float32[4] now" for name in "abc")
            + "; and 2 more",
        ),
        (key(), key(), FORGOTTEN),
    ],
)
def test_what_differs(before: Key, now: Key, said: str) -> None:
    assert reason(now, [before]) == said


def test_the_closest_is_reported() -> None:
    """The fewest differences, then the latest."""
    known = [key(arguments={"x": array(size)}) for size in (3, 4, 9)]
    assert reason(key(arguments={"x": array(5)}), known).startswith("at x: float32[9] before")
    other = key(arguments={"x": array(7, dtype="int8")}, statics={"n": 1})
    assert reason(key(arguments={"x": array(8)}), [*known, other]).startswith("at x: float32[9]")


def test_an_object_may_refuse_to_show_its_attributes() -> None:
    class Closed:
        @property
        def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
            raise ValueError

    said = reason(key(statics={"n": Closed()}), [key(statics={"n": Closed()})])
    assert said.endswith("Closed object, which is not equal")


def test_a_value_that_the_object_made_of_its_own_is_no_difference() -> None:
    class Config:
        @functools.cached_property
        def half(self) -> int:
            return 2

    before, now = Config(), Config()
    assert before.half == 2
    said = reason(key(statics={"n": now}), [key(statics={"n": before})])
    assert "half" not in said


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
