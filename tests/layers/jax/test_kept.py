"""Executables are handed back to isolated tests, counted as programs, and right."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp
import numpy as np

from pytest_graphbreak.layers.jax import kept
from pytest_graphbreak.layers.jax.observer import JaxObserver
from pytest_graphbreak.layers.jax.sensors import SENSORS
from tests.layers.jax.tools import PLACES, THREE, isolated, returned

pytestmark = pytest.mark.jax


@pytest.fixture(autouse=True)
def _empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SENSORS, "kept", kept.KeptExecutables())


def test_a_program_counts_where_xla_is_not_asked() -> None:
    def run() -> None:
        assert float((jnp.asarray(THREE) * 3).sum()) == 9

    first = isolated(run)
    made = list(SENSORS.kept._executables.values())
    assert first == len(made) > 0
    assert isolated(run) == first
    again = SENSORS.kept._executables.values()
    assert all(one is other for one, other in zip(made, again, strict=True)), "XLA was asked"


def test_nothing_is_kept_before_a_test_is_isolated() -> None:
    window = JaxObserver().open(PLACES)
    jax.jit(lambda x: x - 7)(THREE)
    window.close()
    assert not SENSORS.kept._executables


def test_donated_arrays_are_donated_only_where_they_are() -> None:
    def run(donated: tuple[int, ...]) -> bool:
        x = jax.device_put(THREE)
        jax.jit(lambda x: x + 5, donate_argnums=donated)(x)
        return x.is_deleted()

    for donated in ((), (0,), (), (0,)):
        assert returned(partial(run, donated)) == bool(donated)


def test_a_program_runs_on_its_own_device() -> None:
    def run(device: Any) -> Any:
        return jax.jit(lambda x: x + 6)(jax.device_put(THREE, device))

    for device in (*jax.devices()[:2], *jax.devices()[:2]):
        assert returned(partial(run, device)).devices() == {device}


@pytest.mark.parametrize("kind", ["pure", "io", "debug"])
def test_callbacks_are_those_of_their_own_closure(kind: str) -> None:
    for value in (1.0, 2.0):
        seen: list[float] = []

        def call(x: Any, value: float = value, seen: list[float] = seen) -> Any:
            seen.append(value)
            return np.asarray(x) * np.float32(value)

        def wave(x: Any, call: Callable[[Any], Any] = call) -> Any:
            if kind == "debug":
                jax.debug.callback(call, x)
                return x
            outside = jax.pure_callback if kind == "pure" else jax.experimental.io_callback
            return outside(call, jax.ShapeDtypeStruct((3,), np.float32), x)

        def run(wave: Callable[[Any], Any] = wave) -> None:
            jax.block_until_ready(jax.jit(wave)(THREE))
            jax.effects_barrier()

        assert isolated(run) == 1
        assert set(seen) == {value}


def test_a_function_that_forbids_compiling_still_does(monkeypatch: pytest.MonkeyPatch) -> None:
    from jax._src import compiler

    isolated(lambda: jax.jit(lambda x: x - 8)(THREE))

    def forbidden(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("compilation is forbidden")

    def run() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(compiler, "backend_compile_and_load", forbidden)
            with pytest.raises(RuntimeError, match="forbidden"):
                jax.jit(lambda x: x - 8)(THREE)

    assert isolated(run) == 0


def test_no_more_are_kept_than_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST_KEPT", 2)
    for size in range(1, 6):
        isolated(lambda size=size: jax.jit(jnp.cos)(np.ones(size, np.float32)))  # type: ignore[misc]
    assert len(SENSORS.kept._executables) == 2


def test_a_program_compiled_ahead_of_time_is_not_kept() -> None:
    isolated(lambda: jax.jit(lambda x: x - 9).lower(THREE).compile())
    assert not SENSORS.kept._executables


def test_a_program_is_spread_over_devices_as_its_own_shardings_say() -> None:
    mesh = jax.make_mesh((len(jax.devices()),), ("x",))
    eight = np.arange(8, dtype=np.float32)

    def run(spec: Any) -> Any:
        x = jax.device_put(eight, jax.NamedSharding(mesh, spec))
        return jax.jit(lambda x: x * 2, out_shardings=x.sharding)(x)

    for spec in (jax.P("x"), jax.P(), jax.P("x"), jax.P()):
        y = returned(partial(run, spec))
        assert y.sharding.spec == spec
        assert y.addressable_shards[0].data.size == (8 // mesh.size if spec else 8)
        assert (np.asarray(y) == eight * 2).all()


def test_errors_of_a_program_are_raised_each_time() -> None:
    def run() -> None:
        inverse = jax.jit(lambda x: 1 / (x - x))
        x = jax.device_put(THREE)
        with jax.debug_nans(True), pytest.raises(FloatingPointError):
            jax.jit(lambda x: jnp.log(-x))(x)
        assert np.isinf(np.asarray(inverse(x))).all()
        donated = jax.jit(lambda x: x + 4, donate_argnums=0)
        donated(x)
        with pytest.raises((RuntimeError, ValueError), match="deleted"):
            donated(x)

    first = isolated(run)
    assert first >= 3
    assert [isolated(run) for _ in range(2)] == [first] * 2
