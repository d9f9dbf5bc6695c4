"""A program for four devices is one."""

from __future__ import annotations

import pytest

jax = pytest.importorskip("jax")
pytest.importorskip("flax")

from tests.jax_models import sharded  # noqa: E402

pytestmark = [
    pytest.mark.jax,
    pytest.mark.skipif(
        "len(__import__('jax').devices()) < 4", reason="JAX has opened fewer than four devices"
    ),
]


def test_split_layer() -> None:
    assert [answer.shape for answer in sharded.split_layer()] == [(8, 2)] * 4
