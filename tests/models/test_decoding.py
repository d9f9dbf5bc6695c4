"""Tokens one by one: a cache that grows costs a graph a token, one that does not costs none."""

from __future__ import annotations

import pytest

from pytest_graphbreak.measuring.compile_model import CompileModel
from tests.examples import sample
from tests.models import scenes
from tests.models.zoo import ZOO

pytest.importorskip("transformers")


@pytest.mark.parametrize("cache", sample(["dynamic", "static"], ["dynamic"]))
@pytest.mark.parametrize("name", sample(["llama", "qwen3"], ["llama"]))
def test_decoding(compile_model: CompileModel, name: str, cache: str) -> None:
    scenes.decoding(compile_model, ZOO[name], cache)
