"""A step of training: forward, backward, the optimizer."""

from __future__ import annotations

import pytest

from pytest_graphbreak.measuring.compile_model import CompileModel
from tests.examples import sample
from tests.models import scenes
from tests.models.zoo import ZOO

pytest.importorskip("transformers")


@pytest.mark.parametrize("name", sample(["bert", "gpt2", "llama"], ["bert"]))
def test_training(compile_model: CompileModel, name: str) -> None:
    scenes.training(compile_model, ZOO[name])
