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
    level = trace.level
    trace.setLevel(logging.CRITICAL)  # pytest handles loggers that propagate nothing, too
    with torch._dynamo.config.patch(capture_scalar_outputs=True, recompile_limit=99):
        yield
    trace.setLevel(level)
    torch._dynamo.config.reorderable_logging_functions.intersection_update(reordered)
    torch.compile = compile
