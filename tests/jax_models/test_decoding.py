"""Prompts of any length: a program for each bucket, and none once all are there."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("jax")

from tests.jax_models import decoding

pytestmark = pytest.mark.jax


def test_buckets(graph_budget: Any) -> None:
    server = decoding.Server()
    server.warm()
    with graph_budget(max_graphs=0):
        said = [server.answer([1] * length) for length in (1, 3, 5, 12, 16)]
    assert [len(words) for words in said] == [5] * 5
