"""JAX's own traces stay when caches are cleared, the user's do not, and counts are the same."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp
import numpy as np

from pytest_graphbreak.layers.jax import private, traces
from pytest_graphbreak.layers.jax.observer import JaxObserver
from pytest_graphbreak.layers.jax.sensors import SENSORS
from pytest_graphbreak.layers.private_names import MissingName
from tests.layers.jax.tools import THREE, isolated

pytestmark = pytest.mark.jax


def _has_names() -> bool:
    try:
        return hasattr(private.value(private.TRACES), "evict_weakref")
    except MissingName:
        return False


STAYS = pytest.mark.skipif(not _has_names(), reason="this JAX has other caches: all are cleared")


@pytest.fixture(autouse=True)
def _empty(monkeypatch: pytest.MonkeyPatch) -> None:
    jax.clear_caches()
    monkeypatch.setattr(SENSORS, "traces", traces.KeptTraces())


def _arrays() -> None:
    jnp.add(jnp.array([1]), jnp.array([2]))


def _two_arrays() -> None:
    """Two signatures of one trace: an array that NumPy made, and one that JAX made."""
    x = jnp.array([1])
    y = jnp.array([1])
    jnp.add(x, y)
    jnp.add(np.array([1]), y)


def _where() -> None:
    jax.jit(lambda x: jnp.where(x > 0, x, -x).sum())(THREE)
    jnp.where(THREE > 0, THREE, -THREE)


def _gradient() -> None:
    jax.grad(lambda x: jnp.sum(jax.nn.relu(x)))(THREE)
    jax.nn.relu(THREE)


def _random() -> None:
    jax.random.normal(jax.random.key(0), (3,))
    jax.random.uniform(jax.random.key(1), (3,))


def _scan() -> None:
    jax.lax.scan(lambda total, x: (total + x, total), 0.0, THREE)


def _static() -> None:
    jnp.sum(THREE, axis=0)
    jnp.sum(THREE, axis=0, keepdims=True)
    jnp.sum(THREE)


def _devices() -> None:
    mesh = jax.make_mesh((len(jax.devices()),), ("x",))
    spread = jax.NamedSharding(mesh, jax.P("x"))
    x = jax.device_put(np.ones(8, np.float32), spread)
    assert float(jnp.add(x, x).sum()) == 16
    assert jnp.add(x, x).sharding.device_set == set(jax.devices())
    assert jnp.add(jax.device_put(THREE, jax.devices()[-1]), 1).devices() == {jax.devices()[-1]}


def _wide() -> None:
    jax.config.update("jax_enable_x64", True)
    try:
        assert jnp.add(np.ones(3), 1).dtype == np.float64
    finally:
        jax.config.update("jax_enable_x64", False)
    assert jnp.add(np.ones(3), 1).dtype == np.float32


def _ahead() -> None:
    jnp.sin.lower(THREE).compile()
    jnp.sin(THREE)


def _vmap() -> None:
    jax.vmap(jnp.add)(THREE, THREE)
    jax.jit(jax.vmap(jnp.dot))(np.ones((2, 3)), np.ones((2, 3)))


CASES = (
    _arrays,
    _two_arrays,
    _where,
    _gradient,
    _random,
    _scan,
    _static,
    _devices,
    _wide,
    _ahead,
    _vmap,
)


def test_counts_are_those_of_cleared_caches_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(traces.KeptTraces, "_evict", lambda self: {})
        known = {case: isolated(case) for case in CASES}
    shuffled = random.Random(0)
    for _ in range(6):
        order = shuffled.sample(CASES, len(CASES))
        assert {case: isolated(case) for case in order} == known


@STAYS
def test_eager_code_is_traced_and_lowered_once() -> None:
    isolated(_two_arrays)
    JaxObserver().isolate("test")
    cached = private.value(private.TRACES), private.value(private.LOWERINGS)
    kept = [len(cache.cache_keys()) for cache in cached]
    assert all(kept)
    isolated(_two_arrays)
    assert [len(cache.cache_keys()) for cache in cached] == kept


def test_a_function_of_the_user_is_traced_anew() -> None:
    traced: list[Any] = []

    def wave(x: Any) -> Any:
        traced.append(x)
        return jnp.sin(x)

    jitted = jax.jit(wave)
    for _ in range(3):
        assert isolated(partial(jitted, THREE)) == 1
    assert len(traced) == 3


def test_a_function_of_the_user_that_is_a_static_argument_is_traced_anew() -> None:
    traced: list[Any] = []

    def piece(x: Any) -> Any:
        traced.append(x)
        return x * 2

    for number in range(1, 4):
        isolated(lambda: jnp.piecewise(THREE, [THREE > 0], [piece]))
        assert len(traced) == number


def test_a_primitive_of_the_user_is_traced_anew() -> None:
    from jax._src import dispatch
    from jax.extend.core import Primitive
    from jax.interpreters import mlir

    traced: list[Any] = []

    def shape(x: Any) -> Any:
        traced.append(x)
        return x

    primitive = Primitive("wave")
    primitive.def_abstract_eval(shape)
    primitive.def_impl(partial(dispatch.apply_primitive, primitive))
    mlir.register_lowering(primitive, mlir.lower_fun(jnp.sin, multiple_results=False))
    for number in range(1, 4):
        assert isolated(partial(primitive.bind, jnp.asarray(THREE))) >= 1
        assert len(traced) == number


def test_what_is_found_otherwise_than_expected_is_all_cleared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    isolated(_arrays)
    monkeypatch.setattr(private, "LOWERED", private.TRACES._replace(chain="gone"))
    JaxObserver().isolate("test")
    assert not gone(private.TRACES)


@STAYS
@pytest.mark.parametrize("unlisted", [private.TRACES, private.LOWERINGS, private.PRIMITIVES])
def test_a_cache_that_jax_does_not_list_has_all_cleared(
    monkeypatch: pytest.MonkeyPatch, unlisted: private.JaxName
) -> None:
    isolated(_arrays)
    listed = private.value(private.CACHES)
    cache = private.value(unlisted)
    monkeypatch.delitem(listed, cache)
    others = {*listed}
    JaxObserver().isolate("test")
    assert {*listed} == others
    cached = private.TRACES, private.LOWERINGS
    assert not any(gone(name) for name in cached if name is not unlisted)


def test_a_function_that_the_user_clears_is_gone() -> None:
    isolated(_arrays)
    JaxObserver().isolate("test")
    jax.clear_caches()
    assert not gone(private.TRACES)


def gone(name: private.JaxName) -> list[Any]:
    try:
        found: list[Any] = private.value(name).cache_keys()
    except (MissingName, AttributeError):
        return []
    return found


@STAYS
def test_more_than_the_most_are_all_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    isolated(_random)
    monkeypatch.setattr(traces, "MOST", 1)
    JaxObserver().isolate("test")
    assert not gone(private.TRACES)


def _none(x: Any) -> Any:
    return x


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (((1, "a"), None, 2.0), True),
        (np.dtype("float32"), True),
        (np.float32, True),
        (jax.P("x"), True),
        ({"axis": (0,)}, True),
        (jax.lax.dot_general, True),
        (_none, False),
        ((1, _none), False),
        (jax.vmap(_none), False),
        (jax.vmap(lambda x: x), False),
        (partial(jnp.sum, axis=0), False),
        (object(), False),
        (jax.make_jaxpr(_none)(1), False),
    ],
)
def test_plain_values(value: Any, plain: bool) -> None:
    """What is plain brings no code of the user into a program that stays."""
    assert traces.is_plain(value) is plain
