"""Triton may be imported by Dynamo itself, before Dynamo is there as a whole."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("torch")

PROGRAM = """
from pytest_graphbreak import observe
with observe() as seen:
    import torch
    import torch._dynamo
    torch.compile(lambda x: x.sin() + 1, backend="eager")(torch.ones(3))
assert not seen.record.errors, seen.record.errors
assert seen.record.graphs["dynamo"] == 1
"""


@pytest.mark.once
def test_dynamo_is_imported_while_it_is_watched() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
