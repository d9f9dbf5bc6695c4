"""What a model is asked for again and again is one program, whatever library it is of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.jax

for library in ("jax", "flax", "equinox", "optax"):
    pytest.importorskip(library)

from tests.jax_models import equinox_models, linen_models, nnx_models  # noqa: E402

MODELS: dict[str, Callable[[], Any]] = {
    "linen-classifier": linen_models.classify,
    "nnx-mlp": nnx_models.evaluate,
    "equinox-convolutional": equinox_models.look,
}


@pytest.mark.parametrize("name", MODELS)
def test_model(name: str) -> None:
    answers = MODELS[name]()
    assert all(np.isfinite(answer).all() for answer in answers)
