"""Three steps after the first: they find what it compiled, and the loss falls."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.jax

for library in ("jax", "flax", "equinox", "optax"):
    pytest.importorskip(library)

from tests.jax_models import training  # noqa: E402

TRAINERS = {
    "linen": training.LinenTrainer,
    "nnx": training.NnxTrainer,
}


@pytest.mark.parametrize("name", TRAINERS)
def test_training(name: str, graph_budget: Any) -> None:
    trainer: Any = TRAINERS[name]()
    trainer.step()
    with graph_budget(max_graphs=0):
        for _ in range(3):
            trainer.step()
    assert float(trainer.losses[-1]) < float(trainer.losses[0])
