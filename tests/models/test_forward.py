"""One forward of every model: the graphs that it takes, on each layer."""

from __future__ import annotations

import shutil
from importlib.util import find_spec

import pytest

from pytest_graphbreak.measuring.compile_model import CompileModel
from tests.examples import sample
from tests.models import scenes
from tests.models.zoo import ZOO

pytest.importorskip("transformers")

PUSHED = ("mixtral",) if find_spec("torch_xla") else ("bert", "gpt2", "llama", "mixtral")
"""What each push runs; the job ``models`` of the workflow runs all, on torch and on torch_xla.

On torch_xla others are in a step of training and in decoding.
"""


@pytest.mark.parametrize("name", sample(ZOO, PUSHED))
def test_forward(compile_model: CompileModel, name: str) -> None:
    model = ZOO[name]
    if model.fails_on_xla and scenes.on_xla(compile_model):
        pytest.skip(model.fails_on_xla)
    scenes.forward(compile_model, model)


@pytest.mark.nightly  # tests/layers/inductor has a suite of it
def test_inductor(compile_model: CompileModel) -> None:
    if compile_model.device.kind != "cpu":
        pytest.skip(f"the device is {compile_model.device.kind}, which has a backend of its own")
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("inductor needs a C++ compiler, and there is none")
    scenes.inductor(compile_model, ZOO["distilbert"])
