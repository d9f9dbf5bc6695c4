"""Torch's own settings for the examples, and JAX's devices, whatever was imported before."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.jax_models import conftest as _conftest  # noqa: F401  # four devices of JAX

pytest.register_assert_rewrite("tests.advice.situations")


@pytest.fixture(autouse=True)
def _torch_settings() -> Iterator[None]:
    """torch_xla changes two of them in the process that imports it."""
    if "torch_xla" not in sys.modules:
        yield
        return
    import torch._dynamo.config as config

    with config.patch(automatic_dynamic_shapes=True, specialize_float=False):
        yield
