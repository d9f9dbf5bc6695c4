"""One program on the device for each operation, however many the host needs beside it."""

from __future__ import annotations

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from pytest_graphbreak.layers.jax.device import VARIABLE  # noqa: E402
from tests.jax_models.ops import run_op  # noqa: E402

pytestmark = [
    pytest.mark.jax,
    pytest.mark.skipif(
        "len(__import__('jax').devices()) < 2", reason="JAX has opened a single device"
    ),
]


@pytest.fixture(autouse=True)
def second_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ``graph_budget_jax_device = cpu:1`` would set for a whole suite."""
    monkeypatch.setenv(VARIABLE, "cpu:1")


@pytest.mark.parametrize("shape", [(32, 32), (64, 16)], ids=str)
def test_reduce_sum(shape: tuple[int, ...]) -> None:
    run_op(lambda x: jnp.sum(x, axis=-1), shape)


def test_softmax() -> None:
    run_op(lambda x: jax.nn.softmax(x, axis=-1), (8, 32))
