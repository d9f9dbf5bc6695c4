"""What goes wrong around the gate: nothing is lost, the exit code is right, one line says it.

The faults of writing itself are in ``tests/baseline/test_write.py``: killed at every step, a
disk that is full, a directory that is read-only, a lock that is held or whose holder is dead.
What a baseline may not be, a text at a time, is in ``tests/baseline/test_read.py``; processes
that die under xdist and ``--forked`` are in ``test_crash.py``.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import BROKEN, CLEAN, Suite

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.once

HELP = """
    import io, os, sys, threading, time
    import pytest, torch

    def broken(x):
        y = torch.sin(x)
        print("hello")
        return y + 1

    def run(function=broken):
        torch.compile(function, backend="eager")(torch.ones(3))
"""

TWO_GRAPHS = {"dynamo": 2}


@pytest.fixture
def sensors() -> Callable[[], bool]:
    """Whether Dynamo has its own functions again, as it had before."""
    from pytest_graphbreak.layers.dynamo import private as names

    def now() -> list[Any]:
        found = [names.find(name) for name in names.required_names(torch.__version__)]
        return [getattr(owner, attribute) for owner, attribute in found]

    import torch._dynamo

    before = now()
    return lambda: now() == before


# Names.


def test_names_in_any_script(suite: Suite) -> None:
    """A directory, a file, a function and a parameter: each is found again."""
    folder = suite.path / "modèle ünder 试验" / "дом"
    folder.mkdir(parents=True)
    file = folder / "test_größe.py"
    file.write_text(
        textwrap.dedent(HELP)
        + '@pytest.mark.parametrize("case", ["größe", "试验"])\n'
        + "def test_prüfung(case): run()\n",
        encoding="utf-8",
    )
    ini = "disable_test_id_escaping_and_forfeit_all_rights_to_community_support"
    for escaped in ("false", "true"):
        recorded = suite.run("-o", f"{ini}={escaped}", "--graph-budget-update")
        assert recorded.ret == 0
        assert not recorded.errlines
        (path,) = (suite.path / "baselines").rglob("*.yaml")
        assert path.relative_to(suite.path / "baselines") == Path(
            "modèle ünder 试验/дом/test_größe.yaml"
        )
        again = suite.run(
            "-o", f"{ini}={escaped}", "--graph-budget", "--graph-budget-report=graphs.json"
        )
        assert again.ret == 0
        assert {test["verdict"] for test in suite.reported().values()} == {"ok"}
    text = path.read_text(encoding="utf-8")
    assert "modèle ünder 试验/дом/test_größe.py::broken" in text
    assert "试验" in text


# Tests that do what tests should not.

UNRULY = (
    HELP
    + """
    def test_first(): run()

    def test_leaves_for_a_directory_that_goes(tmp_path):
        gone = tmp_path / "gone"
        gone.mkdir()
        os.chdir(gone)
        run()
        gone.rmdir()

    def test_in_no_directory(): run()

    def test_stderr_is_none():
        sys.stderr = None
        run()

    def test_stderr_is_closed():
        sys.stderr = io.StringIO()
        sys.stderr.close()
        run()

    def test_descriptors_are_closed():
        os.close(1)
        os.close(2)
        run()

    def test_all_other_descriptors_are_closed():
        run()
        os.closerange(30, 4096)

    def test_environment_is_emptied():
        os.environ.clear()
        run()

    def test_modules_are_forgotten():
        for name in [n for n in sys.modules if n.startswith("pytest_graphbreak.")]:
            del sys.modules[name]
        run()

    def test_traced():
        sys.settrace(lambda *args: None)
        try:
            run()
        finally:
            sys.settrace(None)

    def test_last(): run()
"""
)


FORGETS = (
    HELP
    + """
    @pytest.mark.max_graphs(1)
    def test_modules_are_forgotten():
        for name in [n for n in sys.modules if n.startswith("pytest_graphbreak.")]:
            del sys.modules[name]
        run(torch.sin)
"""
)


@pytest.mark.usefixtures("forks")
@pytest.mark.once
def test_a_test_that_forgets_our_modules_is_recorded_by_a_worker_too(suite: Suite) -> None:
    suite.write(FORGETS)
    result = suite.pytester.runpytest_subprocess("--graph-budget-report=graphs.json", "-n1")
    result.assert_outcomes(passed=1)
    (test,) = suite.reported().values()
    assert test["graphs"] == {"dynamo": 1}
    assert [graph["cause"] for graph in test["graph_list"]] == ["entry"]


@pytest.mark.usefixtures("forks")
def test_unruly_tests_lose_nothing(suite: Suite) -> None:
    """One process: each test is recorded as if the others were not there."""
    suite.write(UNRULY)
    result = suite.pytester.runpytest_subprocess(
        "--graph-budget-update", "--graph-budget-report=graphs.json", "-p", "no:cacheprovider"
    )
    assert result.ret == 0
    assert "Traceback" not in result.stdout.str() + result.stderr.str()
    found = suite.reported()
    assert len(found) == UNRULY.count("def test_")
    for name, test in found.items():
        assert (test["graphs"], test["errors"]) == (TWO_GRAPHS, []), name
        assert len(test["breaks"]) == 1, name
    assert suite.baseline().count("\n  test_") == UNRULY.count("def test_")


@pytest.mark.usefixtures("forks")
def test_a_process_that_leaves_at_once_loses_no_baseline(suite: Suite) -> None:
    """``os._exit`` ends pytest, and with it what it would have written; not what there was."""
    suite.write(CLEAN)
    suite.run("--graph-budget-update", "--graph-budget-report=graphs.json")
    baseline = suite.path / "baselines" / "test_it.yaml"
    before = baseline.read_bytes()
    suite.write(BROKEN + "\n    def test_leaves():\n        import os; os._exit(7)\n")
    result = suite.pytester.runpytest_subprocess(
        "--graph-budget-update", "--graph-budget-report=graphs.json"
    )
    assert result.ret == 7
    assert baseline.read_bytes() == before
    assert not (suite.path / "graphs.json").exists()  # that of the run before is not this one's
    kept = [path.name for path in (suite.path / "baselines").iterdir() if path.name[0] != "."]
    assert kept == ["test_it.yaml"]


def test_ctrl_c_while_compiling(suite: Suite, sensors: Callable[[], bool]) -> None:
    suite.write(BROKEN)
    suite.run("--graph-budget-update")
    before = suite.baseline()
    suite.write(
        HELP
        + """
    def test_before(): run()

    def test_stopped():
        def backend(graph, inputs):
            raise KeyboardInterrupt
        torch.compile(broken, backend=backend)(torch.ones(3))

    def test_never(): run()
"""
    )
    result = suite.pytester.runpytest_inprocess(
        "--graph-budget-update", "--graph-budget-report=graphs.json", no_reraise_ctrlc=True
    )
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*!!! KeyboardInterrupt !!!*"])
    assert suite.baseline() == before
    found = suite.reported()
    assert found["test_before"]["graphs"] == TWO_GRAPHS
    assert "test_never" not in found
    assert sensors()
    suite.write(BROKEN)
    assert suite.run("--graph-budget").ret == 0


def test_a_thread_in_the_middle_of_a_compilation(
    suite: Suite, sensors: Callable[[], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test that started it ends first. Nothing waits for ever; its graph is noted."""
    monkeypatch.setattr("pytest_graphbreak.layers.dynamo.isolation.PATIENCE", 0.2)
    suite.write(
        HELP
        + """
    inside, go, done = threading.Event(), threading.Event(), threading.Event()

    def backend(graph, inputs):
        inside.set()
        go.wait()
        return graph

    def slow():
        torch.compile(lambda x: x * 3, backend=backend)(torch.ones(3))
        done.set()

    def test_starts_it():
        threading.Thread(target=slow, daemon=True).start()
        inside.wait()

    def test_ends_it():
        go.set()
        done.wait()

    def test_after():
        run()
"""
    )
    result = suite.run("--graph-budget-report=graphs.json")
    result.stdout.no_fnmatch_line("*Traceback*")
    found = suite.reported()
    assert [test["graphs"] for test in found.values()] == [{}, {"dynamo": 1}, TWO_GRAPHS]
    # Its count is that thread's, too, so it is no count to judge by.
    errors = found["test_ends_it"]["errors"]
    assert any("a thread of an earlier test has been compiling" in error for error in errors)
    assert not found["test_starts_it"]["errors"]
    assert (found["test_after"]["graphs"], found["test_after"]["errors"]) == (TWO_GRAPHS, [])
    assert sensors()


# Others at the same place.

PATCHING = """
    import pytest
    from torch._dynamo.output_graph import OutputGraph

    seen = []

    @pytest.hookimpl(wrapper=True, ORDER)
    def pytest_runtest_call(item):
        real = OutputGraph.call_user_compiler
        def theirs(*args, **kwargs):
            seen.append(1)
            return real(*args, **kwargs)
        OutputGraph.call_user_compiler = theirs
        try:
            return (yield)
        finally:
            OutputGraph.call_user_compiler = real
"""


@pytest.mark.parametrize(("order", "early"), [("tryfirst=True", True), ("trylast=True", False)])
def test_two_plugins_that_patch_the_same(
    suite: Suite, sensors: Callable[[], bool], order: str, early: bool
) -> None:
    """Theirs goes in before ours or after, and comes off before it or after."""
    suite.write(PATCHING.replace("ORDER", order), "other")
    suite.write(
        HELP
        + """
    import other

    def test_one(): run(); assert len(other.seen) == 2
    def test_two(): run(); assert len(other.seen) == 4
"""
    )
    plugins = ("-p", "other", "-p", "graphbreak") if early else ("-p", "graphbreak", "-p", "other")
    suite.pytester.syspathinsert()
    sys.modules.pop("other", None)
    result = suite.run("--graph-budget-report=graphs.json", *plugins)
    sys.modules.pop("other", None)
    result.assert_outcomes(passed=2)
    for test in suite.reported().values():
        assert (test["graphs"], test["errors"]) == (TWO_GRAPHS, [])
        assert len(test["breaks"]) == 1
    assert sensors()


def test_a_hook_that_stops_a_call_leaves_no_window_open(
    suite: Suite, sensors: Callable[[], bool]
) -> None:
    """The set-up of its fixtures was watched; what the next test compiles is that test's alone."""
    suite.write(
        """
        import pytest, torch

        def run(): torch.compile(lambda x: x + 1, backend="eager")(torch.ones(3))

        @pytest.fixture
        def warm(): run()

        def test_stopped(warm): run()
        def test_after(): run()
        """
    )
    suite.pytester.makeconftest(
        """
        import pytest

        @pytest.hookimpl(wrapper=True, tryfirst=True)
        def pytest_runtest_call(item):
            if item.name == "test_stopped":
                raise RuntimeError("not this one")
            return (yield)
        """
    )
    stopped, after = suite.tests().values()
    assert (stopped["outcome"], after["outcome"]) == ("failed", "passed")
    assert after["graphs"] == {"dynamo": 1}
    assert after["errors"] == []
    assert sensors()
