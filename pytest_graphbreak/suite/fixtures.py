"""What tests ask for: ``compile_model`` and ``graph_budget``."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import pytest

from pytest_graphbreak.config.typed import typed
from pytest_graphbreak.suite.gate import GATE

if TYPE_CHECKING:
    from pytest_graphbreak.watching.watch import CompileModel, GraphBudget


@pytest.fixture(scope="session")
def _graph_budget_attends() -> Iterator[None]:
    """From the first test with a block on: what an earlier one compiled is warm in a later one."""
    from pytest_graphbreak.watching.measure import attending

    with attending():
        yield


@pytest.fixture
def graph_budget(request: pytest.FixtureRequest, _graph_budget_attends: None) -> GraphBudget:
    """A budget for any block of a test: ``with graph_budget(max_graphs=1) as seen:``.

    Takes what ``@pytest.mark.max_graphs`` takes, or nothing to only look. The
    block sees what the test does in it; it resets nothing.
    """
    from pytest_graphbreak.watching.watch import watch

    return partial(watch, root=request.config.rootpath, typed=typed(request.config))


@pytest.fixture
def compile_model(request: pytest.FixtureRequest) -> CompileModel:
    """Compile and run a model once on the device: ``run = compile_model(model, x)``."""
    from pytest_graphbreak.watching.watch import CompileModel

    if importlib.util.find_spec("torch") is None:
        pytest.fail(
            "compile_model compiles models of torch, and torch is not installed in this Python. "
            "A function of JAX needs no fixture: jax.jit it, call it, and the gate counts",
            pytrace=False,
        )
    gate = request.config.stash[GATE]
    device = gate.device  # it is here: a name was looked for when the session began
    gate.count_tt(request.config)  # done already, but for a fixture that is asked for by name
    return CompileModel(device, request.config.rootpath)
