"""The state of torch that tests of remedies change, put back after each of them."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import torch
import torch._dynamo.config


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """No log of torch is shown with a failure: it would hide the source that failed."""
    torch._dynamo.reset()
    compile = torch.compile
    reordered = set(torch._dynamo.config.reorderable_logging_functions)
    trace = logging.getLogger("torch.__trace")
    trace.propagate, propagates = False, trace.propagate
    with torch._dynamo.config.patch(capture_scalar_outputs=True, recompile_limit=99):
        yield
    trace.propagate = propagates
    torch._dynamo.config.reorderable_logging_functions.intersection_update(reordered)
    torch.compile = compile
