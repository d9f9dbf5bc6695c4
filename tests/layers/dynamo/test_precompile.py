"""Packages of precompiled code are an error: Dynamo attempts nothing where one is loaded."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch._dynamo

from tests.conftest import Suite

pytestmark = pytest.mark.once


@pytest.mark.once
def test_precompiled_packages_are_an_error(suite: Suite) -> None:
    suite.write(
        """
        import torch

        def test_it():
            torch.compile(lambda x: x + 1, backend="eager")(torch.ones(3))
        """
    )
    # Not by monkeypatch: that of pytest 9.2 deletes an entry of a config of torch to put it back.
    with torch._dynamo.config.patch(caching_precompile=True):
        result = suite.run("--graph-budget")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*could not see: *TORCH_CACHING_PRECOMPILE=0*"])
