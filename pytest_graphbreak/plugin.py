"""pytest hooks and fixtures, a few lines each; no logic.

This module is imported in every pytest run of the environment, so it imports neither torch nor
yaml; modules that do are imported where they are used.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Generator, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_graphbreak.config import settings as _settings
from pytest_graphbreak.config.typed import typed_command
from pytest_graphbreak.suite.entry import note_step
from pytest_graphbreak.suite.gate import GATE, Gate
from pytest_graphbreak.suite.reports import attach, colour

if TYPE_CHECKING:
    from pytest_graphbreak.measuring.compile_model import CompileModel
    from pytest_graphbreak.measuring.graph_budget import GraphBudget
    from pytest_graphbreak.suite.phases import Phases

PHASES: Final = pytest.StashKey["Phases"]()


@pytest.fixture(scope="session")
def _graph_budget_history() -> Iterator[None]:
    """Keep history from the first test with a block on: later tests see what is already warm."""
    from pytest_graphbreak.measuring.measure import keep_history

    with keep_history():
        yield


@pytest.fixture
def graph_budget(request: pytest.FixtureRequest, _graph_budget_history: None) -> GraphBudget:
    """A budget for any block of a test: ``with graph_budget(max_graphs=1) as seen:``.

    It accepts the arguments of ``@pytest.mark.max_graphs``, or none for observing only. The block
    sees what the test does in it; it resets nothing. ``graph_budget.steps(warm=2)`` is a block for
    the steps of a loop.
    """
    from pytest_graphbreak.measuring.graph_budget import GraphBudget

    note = partial(note_step, request.node)
    return GraphBudget(request.config.rootpath, typed_command(request.config), note)


@pytest.fixture
def compile_model(request: pytest.FixtureRequest) -> CompileModel:
    """Compile and run a model once on the device: ``run = compile_model(model, x)``."""
    from pytest_graphbreak.measuring.compile_model import CompileModel

    if importlib.util.find_spec("torch") is None:
        pytest.fail(
            "compile_model compiles models of torch, and torch is not installed in this Python. "
            "A function of JAX needs no fixture: jax.jit it, call it, and the gate counts",
            pytrace=False,
        )
    gate = request.config.stash[GATE]
    device = gate.device  # available, since its name was looked up when the session began
    gate.log_tt(request.config)  # done already, unless a fixture is requested by name
    return CompileModel(device, request.config.rootpath)


def pytest_addoption(parser: pytest.Parser) -> None:
    _settings.add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    # Before a conftest.py is imported, and before options of other plugins are checked: a run that
    # ends there leaves no report of an earlier one. A worker of xdist starts while there is one.
    if "PYTEST_XDIST_WORKER" not in os.environ:
        _settings.clear_report(early_config, early_config.known_args_namespace)


def pytest_configure(config: pytest.Config) -> None:
    for line in _settings.MARKERS:
        config.addinivalue_line("markers", line)
    gate = config.stash[GATE] = Gate(_settings.from_config(config))
    if gate.settings.infra:
        from pytest_graphbreak.measuring.measure import pass_over

        pass_over(gate.settings.root, gate.settings.infra)
        config.add_cleanup(lambda: pass_over(gate.settings.root, ()))
    if gate.settings.jax_device:
        gate.name_jax_device(config)
    if gate.settings.active and not _settings.is_dry(config.option):
        from pytest_graphbreak.suite.session import register

        register(config, gate)
        gate.log_tt_if_counted(config)
        if gate.settings.backend:
            gate.choose_backend(config)
    elif gate.settings.device != "auto":
        gate.check()


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    # Files of `graphbreak fix` and `graphbreak repro` are no tests, whatever python_files says.
    name = collection_path.name
    if name.startswith("test_") or not (name.endswith("_fixed.py") or "_repro_" in name):
        return None
    from pytest_graphbreak.text.files import is_ours

    return True if is_ours(collection_path) else None


def pytest_collection_finish(session: pytest.Session) -> None:
    gate = session.config.stash.get(GATE, None)
    if gate is None or _settings.is_dry(session.config.option):
        return
    gate.log_tt_if_counted(session.config, session.items)
    gate.follow(session.config, session.items)
    if gate.settings.gate and not hasattr(session.config, "workerinput"):
        gate.read(session.config, session.items)
    if any(map(gate.counts, session.items)):
        gate.warm(session.config)
        session.config.pluginmanager.register(_phases(session.config), "graphbreak-phases")


def _phases(config: pytest.Config) -> Phases:
    if PHASES not in config.stash:
        from pytest_graphbreak.suite.phases import Phases

        phases = config.stash[PHASES] = Phases(config.stash[GATE])
        config.add_cleanup(phases.end)
    return config.stash[PHASES]


# The innermost of all wrappers, as that of the set-up in phases: what others do is outside of it.
@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    # Not one of the hooks of phases: a fixture may add the marker that makes a test measured.
    gate = item.config.stash.get(GATE, None)
    if gate is None or not gate.measures(item):
        return (yield)
    return (yield from _phases(item.config).call(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    attach(item, call, report)
    return report


# Before the session, which shortens what this makes, and before all that prints it.
@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    colour(report)
