"""The fixture ``compile_model``; what it compiles is in ``tests/models``."""

from __future__ import annotations

import re

import pytest

from pytest_graphbreak.measuring.compile_model import NO_INPUTS, CompileModel

torch = pytest.importorskip("torch")


def test_a_model_without_its_inputs_is_a_mistake(compile_model: CompileModel) -> None:
    with pytest.raises(TypeError, match=re.escape(NO_INPUTS)):
        compile_model(lambda x: x + 1)


def test_what_the_model_raises_is_its_own(compile_model: CompileModel) -> None:
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
        compile_model(lambda x: x + 1, torch.ones(2), torch.ones(2))
