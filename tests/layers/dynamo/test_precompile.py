"""Packages of precompiled code are an error: Dynamo attempts nothing where one is loaded."""

from __future__ import annotations

import pytest

from tests.conftest import Suite


@pytest.mark.once
def test_precompiled_packages_are_an_error(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch._dynamo.config.caching_precompile", True)
    suite.write(
        """
        import torch

        def test_it():
            torch.compile(lambda x: x + 1, backend="eager")(torch.ones(3))
        """
    )
    result = suite.run("--graph-budget")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*could not see: *TORCH_CACHING_PRECOMPILE=0*"])
