"""A user's own model around BERT. The demo plants its break in ``ranker.py``."""

from __future__ import annotations

import pytest

from pytest_graphbreak.measuring.compile_model import CompileModel

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.models import ranker, scenes  # noqa: E402


def test_ranker(compile_model: CompileModel) -> None:
    model, inputs = ranker.build()
    backend = None if scenes.on_xla(compile_model) else "eager"
    with torch.no_grad():
        expected = model(**inputs)
        run = compile_model(model, backend=backend, **inputs)
    torch.testing.assert_close(run.output.cpu(), expected, atol=1e-3, rtol=1e-3)
