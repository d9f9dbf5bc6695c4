"""Torch's own settings for the tests of observers, whatever was imported before them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forkserver import Server
from tests.layers.xla import tools


@pytest.fixture(autouse=True, scope="session")
def _whole_run(whole_run: Path) -> None:
    tools.SHARED = whole_run


@pytest.fixture(scope="session")
def _forks_run_cases(server_of_xla_forks: Server) -> None:
    """All ways to run the cases, but the one without us, begin in a fork (``tools.runs``)."""
    tools.PYTHON = server_of_xla_forks.python


@pytest.fixture(autouse=True)
def _torch_settings(request: pytest.FixtureRequest) -> Iterator[None]:
    """torch_xla turns automatic dynamic shapes off in the process that imports it."""
    if request.path.parent.name != "dynamo":
        yield
        return
    config = pytest.importorskip("torch._dynamo.config")
    with config.patch(automatic_dynamic_shapes=True):
        yield


@pytest.fixture(autouse=True)
def _no_hooks_of_a_failed_export() -> Iterator[None]:
    """A non-strict export that fails in torch 2.9 leaves its hooks on every module.

    They watch the registration of buffers, and Dynamo breaks where one is assigned.
    """
    if "torch" not in sys.modules:
        yield
        return
    from torch.nn.modules import module

    hooks = [value for name, value in vars(module).items() if name.endswith("registration_hooks")]
    before = [dict(each) for each in hooks]
    yield
    for each, kept in zip(hooks, before, strict=True):
        each.clear()
        each.update(kept)
