"""Shared by all tests: pytester, and the small suites that they run."""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from filelock import FileLock

from pytest_graphbreak.testing import GatedSuite, LibrariesStay
from tests.examples import examples
from tests.forkserver import Server
from tests.untimed import leave_guards_untimed

pytest_plugins = ["pytester"]

ENVIRON = dict(os.environ)
"""As it was before any window of ours was open: for processes that are to be no test's children."""

TORCH = ["torch", "torch._dynamo", "torch._dynamo.convert_frame"]

# How long an example takes says how busy the machine is, not whether the code is right.
hypothesis.settings.register_profile("suite", examples(150))
hypothesis.settings.load_profile("suite")


MARKERS = (
    "pure: needs no torch, and is run without it (tests/__main__.py)",
    "jax: needs JAX, and is run where it is installed (tests/__main__.py)",
    "once: does the same with any torch, and is not run in the xla environment (tests/__main__.py)",
    "nightly: slow, beside a quicker test of the same; run at night (tests/__main__.py)",
)


def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    _hear_signals()


def pytest_collection_finish() -> None:
    """What torch and transformers are made of stays: Dynamo collects garbage often, and need not
    look through all of it."""
    gc.collect()
    gc.freeze()


def _hear_signals() -> None:
    """Those that nohup, or a shell's background, has turned off: tests send them."""
    heard: dict[int, Any] = {signal.SIGINT: signal.default_int_handler}
    if hasattr(signal, "SIGHUP"):
        heard[signal.SIGHUP] = signal.SIG_DFL
    for number, handler in heard.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.fixture(autouse=True)
def _libraries_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a test runs pytester itself."""
    monkeypatch.setattr("_pytest.pytester.SysModulesSnapshot", LibrariesStay)


@pytest.fixture(autouse=True)
def _excepthook_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """``init_process_group`` leaves one of its own, which writes ``[rank0]:``."""
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)


@pytest.fixture(autouse=True)
def _guards_untimed() -> None:
    leave_guards_untimed()


CLEAN = """
    import torch

    def f(x):
        return torch.sin(x) + 1

    def test_model():
        torch.compile(f, backend="eager")(torch.ones(3))
"""

BROKEN = """
    import torch

    def f(x):
        y = torch.sin(x)
        print("hello")
        return y + 1

    def test_model():
        torch.compile(f, backend="eager")(torch.ones(3))
"""


FUNCTIONS = """
import unittest
import pytest, torch

def clean(x):
    return torch.sin(x) + 1

def broken(x):
    y = torch.sin(x)
    print("hello")
    return y + 1

def run(f, *shapes):
    compiled = torch.compile(f, backend="eager")
    for n in shapes or (3,):
        compiled(torch.ones(n))
"""
"""What tests of an example compile that is written after it."""


GITHUB = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_RUN_ID": "123456",
    "GITHUB_REPOSITORY": "tenstorrent/tt-xla",
    "GITHUB_SERVER_URL": "https://github.com",
}
"""What a workflow's run knows of itself."""


@pytest.fixture(autouse=True)
def _no_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    """The suite itself runs under CI; the runs that it makes are a developer's."""
    for name in ("CI", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)


class Suite(GatedSuite):
    """An example whose report is looked at as JSON, and whose baselines as text."""

    def write_tests(self, text: str) -> None:
        """Write tests, as they stand, after the functions that they compile."""
        (self.path / "test_it.py").write_text(FUNCTIONS + text)

    def run(  # type: ignore[override]
        self, *args: str, ret: int | None = None, **outcomes: int
    ) -> pytest.RunResult:
        """Run in a checkout whose directory of baselines is there, empty at first.

        It has to end with the exit code and the outcomes that are stated: ``ret=1, failed=1``.
        """
        if "--graph-budget" in args:
            (self.path / "baselines").mkdir(exist_ok=True)
        return _ended(self.run_pytest(*args), ret, outcomes)

    def run_apart(
        self, *args: str, ret: int | None = None, timeout: float | None = None, **outcomes: int
    ) -> pytest.RunResult:
        """Run likewise in a process of its own."""
        if "--graph-budget" in args:
            (self.path / "baselines").mkdir(exist_ok=True)
        result = self.pytester.runpytest_subprocess(*args, timeout=timeout)
        return _ended(result, ret, outcomes)

    def report(self, *args: str) -> dict[str, Any]:
        """Run with a report and give it back, whatever the outcome."""
        self.run("--graph-budget-report=graphs.json", *args)
        return self._last_report()

    def tests(self, *args: str) -> dict[str, Any]:
        """Run with a report; the tests of it by what follows the file in their node ids."""
        self.run("--graph-budget-report=graphs.json", *args)
        return self.reported()

    def reported(self) -> dict[str, Any]:
        """The tests of the last report, likewise."""
        tests = self._last_report()["tests"]
        return {test["nodeid"].partition("::")[2]: test for test in tests}

    def _last_report(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads((self.path / "graphs.json").read_text())
        return data

    def baseline(self, name: str = "test_it") -> str:
        return (self.path / "baselines" / f"{name}.yaml").read_text()

    def write_baseline(self, text: str, name: str = "test_it") -> None:
        (self.path / "baselines").mkdir(exist_ok=True)
        (self.path / "baselines" / f"{name}.yaml").write_text(text)

    def has_baseline(self, name: str = "test_it") -> bool:
        return (self.path / "baselines" / f"{name}.yaml").exists()


def _ended(result: pytest.RunResult, ret: int | None, outcomes: dict[str, int]) -> pytest.RunResult:
    assert ret in (None, result.ret)
    if outcomes:
        result.assert_outcomes(**outcomes)
    return result


@pytest.fixture
def suite(pytester: pytest.Pytester) -> Suite:
    return Suite(pytester)


@pytest.fixture
def recorded(suite: Suite) -> Suite:
    """A suite whose clean baseline is on disk."""
    suite.write(CLEAN)
    suite.run("--graph-budget-update").assert_outcomes(passed=1)
    return suite


@pytest.fixture(scope="session")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of this run, the same in all workers of xdist."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


Serving = Callable[..., AbstractContextManager[Server]]


@pytest.fixture(scope="session")
def serving(whole_run: Path) -> Serving:
    """Gives a server of forks that has imported ``modules``: one for all workers."""

    @contextmanager
    def serving(name: str, modules: list[str]) -> Iterator[Server]:
        note = whole_run / f"forks-{name}"
        with FileLock(f"{note}.lock"):
            if not note.exists() or not Path(note.read_text(), "server").exists():
                # Not below `whole_run`: the path of a socket has about a hundred bytes.
                note.write_text(tempfile.mkdtemp(prefix="forks-"))
            server = Server(Path(note.read_text()), modules, ENVIRON)
        yield server
        with FileLock(f"{note}.lock"):
            server.close()

    return serving


@pytest.fixture(scope="session")
def server_of_forks(serving: Serving) -> Iterator[Server]:
    with serving("torch", TORCH) as server:
        yield server


@pytest.fixture(scope="session")
def server_of_xla_forks(serving: Serving) -> Iterator[Server]:
    """torch_xla is imported, and no client is open: a fork can open its own."""
    with serving("xla", [*TORCH, "torch_xla"]) as server:
        yield server


@pytest.fixture
def forks(server_of_forks: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new Python of this test is a fork of one that has imported torch (``forkserver``)."""
    monkeypatch.setattr(sys, "executable", server_of_forks.python)


@pytest.fixture
def xla_forks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``forks``, with torch_xla imported too where it is installed."""
    there = importlib.util.find_spec("torch_xla") is not None
    server = request.getfixturevalue("server_of_xla_forks" if there else "server_of_forks")
    monkeypatch.setattr(sys, "executable", server.python)
