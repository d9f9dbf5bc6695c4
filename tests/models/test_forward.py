"""One forward of every model: the graphs that it takes, on each layer."""

from __future__ import annotations

import shutil

import pytest

from pytest_graphbreak.watching.watch import CompileModel
from tests.examples import sample
from tests.models import scenes
from tests.models.zoo import ZOO

pytest.importorskip("transformers")

ON_BOTH = ("bert", "gpt2", "llama", "mixtral")
"""What each push also runs on torch_xla; the job ``models`` of the workflow runs all on both."""

PUSHED = (*ON_BOTH, "longformer", "t5")
"""What the half of torch runs too: one that breaks, and an encoder with a decoder."""
NIGHT = (pytest.mark.once, pytest.mark.nightly)
AT_NIGHT = [pytest.param(name, marks=NIGHT) for name in ZOO if name not in PUSHED]


@pytest.mark.parametrize("name", [*sample(PUSHED, ON_BOTH, pytest.mark.once), *AT_NIGHT])
def test_forward(compile_model: CompileModel, name: str) -> None:
    model = ZOO[name]
    if model.fails_on_xla and scenes.on_xla(compile_model):
        pytest.skip(model.fails_on_xla)
    scenes.forward(compile_model, model)


def test_inductor(compile_model: CompileModel) -> None:
    if compile_model.device.kind != "cpu":
        pytest.skip(f"the device is {compile_model.device.kind}, which has a backend of its own")
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("inductor needs a C++ compiler, and there is none")
    scenes.inductor(compile_model, ZOO["distilbert"])
