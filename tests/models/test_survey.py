"""Classes of the survey, each with another kind of break, held to their counts."""

from __future__ import annotations

import pytest

from pytest_graphbreak.watching.watch import CompileModel

pytest.importorskip("transformers")

from benchmarks.survey.measure import small

KINDS = {
    "XLMModel": "an assert on a value",
    "RwkvModel": "a logger, before all operations",
    "Siglip2VisionModel": "sizes from tolist()",
    "PixtralVisionModel": "slices by a value, in a list comprehension",
    "NemotronAsrStreamingEncoder": "a logger in a helper",
    "OpenAIPrivacyFilterModel": "experts by nonzero(), and a recompile",
    "GotOcr2Model": "a check of all values of a tensor",
    "ParakeetForTDT": "an LSTM",
}


@pytest.mark.parametrize("name", KINDS)
def test_forward(compile_model: CompileModel, name: str) -> None:
    if compile_model.device.kind != "cpu":
        pytest.skip("what is held here is Dynamo's layer, which is the same on any device")
    model, inputs = small(name)
    import torch

    with torch.no_grad():
        expected = model(**inputs)
        run = compile_model(model, backend="eager", **inputs)
    torch.testing.assert_close(run.output[0], expected[0], atol=1e-3, rtol=1e-3)
