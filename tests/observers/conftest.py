"""Torch's own settings for the tests of observers, whatever was imported before them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _torch_settings(request: pytest.FixtureRequest) -> Iterator[None]:
    """torch_xla turns automatic dynamic shapes off in the process that imports it."""
    if not request.path.name.startswith("test_dynamo"):
        yield
        return
    config = pytest.importorskip("torch._dynamo.config")
    with config.patch(automatic_dynamic_shapes=True):
        yield
