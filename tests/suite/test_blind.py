"""A gate that cannot see is red and says why; an update then leaves every baseline as it was."""

from __future__ import annotations

import textwrap

import pytest

from tests.conftest import CLEAN, Suite

pytestmark = pytest.mark.once


@pytest.fixture
def disabled(forks: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.compile reads the variable at each call."""
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")


@pytest.mark.parametrize(
    "option",
    [
        "--graph-budget",
        pytest.param("--graph-budget-update", marks=pytest.mark.nightly),
        pytest.param("--graph-budget-record", marks=pytest.mark.nightly),
    ],
)
def test_dynamo_disabled_by_its_variable(recorded: Suite, disabled: None, option: str) -> None:
    before = recorded.baseline()
    recorded.run_apart(option, failed=1).stdout.fnmatch_lines(
        [
            "graph budget: could not see: *TORCHDYNAMO_DISABLE*",
            "  A gate that cannot see does not pass, and nothing is recorded.",
            "FAILED test_it.py::test_model*",
        ]
    )
    assert recorded.baseline() == before


@pytest.mark.usefixtures("disabled")
def test_a_new_test_is_red_as_well(suite: Suite) -> None:
    suite.write(CLEAN)
    suite.run_apart("--graph-budget", failed=1)
    suite.run_apart("--graph-budget-update", failed=1)
    assert not suite.has_baseline()


@pytest.mark.usefixtures("disabled")
def test_so_are_a_block_and_a_marker_without_any_option(suite: Suite) -> None:
    suite.write(
        """
        import pytest, torch

        def run(): torch.compile(lambda x: x + 1, backend="eager")(torch.ones(3))

        def test_block(graph_budget):
            with graph_budget(max_graphs=1):
                run()

        @pytest.mark.max_graphs(1)
        def test_marked(): run()
        """
    )
    result = suite.run_apart(failed=2)
    result.stdout.fnmatch_lines(["*BudgetExceeded: graph budget: could not see: *"])


@pytest.mark.usefixtures("forks")
def test_an_internal_that_is_gone(suite: Suite) -> None:
    suite.write(CLEAN)
    suite.pytester.makeconftest(
        """
import torch._dynamo.convert_frame as convert_frame
del convert_frame.format_error_msg  # torch needs it for errors only
"""
    )
    result = suite.run_apart("--graph-budget-update", "-rA")
    result.stdout.fnmatch_lines(["*could not see: *convert_frame.format_error_msg*"])
    assert result.ret == 1
    assert not suite.has_baseline()


def test_no_torch_at_all(suite: Suite) -> None:
    suite.write("def test_it():\n    pass\n")
    suite.pytester.makeconftest(
        """
import importlib.util
from importlib.machinery import PathFinder

for owner in (importlib.util, PathFinder):
    owner.find_spec = (
        lambda name, *args, find=owner.find_spec, **options: None
        if name == "torch"
        else find(name, *args, **options)
    )
"""
    )
    result = suite.run_apart("--graph-budget")
    result.stdout.fnmatch_lines(["graph budget: could not see: none of torch, jax is installed *"])
    assert result.ret == 1


WITHOUT_HOOK = """
    from msgspec.structs import replace

    from pytest_graphbreak.layers.dynamo import private, sensors

    gone = replace(private.INSTALL, chain="OutputGraph.another_name")
    private.NAMES = tuple(gone if name is private.INSTALL else name for name in private.NAMES)
    private.INSTALL = gone
    sensors._OF_RUNS = (gone, private.CLEANUP)  # a fork has imported it already
"""
"""A torch that has no place of that name."""


@pytest.mark.usefixtures("forks")
@pytest.mark.parametrize("runs", ["off", "fail"])
def test_a_torch_in_which_runs_cannot_be_counted(suite: Suite, runs: str) -> None:
    suite.pytester.makeconftest(textwrap.dedent(WITHOUT_HOOK))
    suite.write(
        """
        import pytest, torch

        @pytest.mark.max_graphs(1)
        def test_sin():
            compiled = torch.compile(torch.sin, backend="eager")
            compiled(torch.ones(3))
        """
    )
    args = ("-o", f"graph_budget_runs={runs}", "--graph-budget-report=graphs.json")
    result = suite.run_apart(*args)
    (test,) = suite.reported().values()
    assert test["graphs"] == {"dynamo": 1}
    assert "dynamo" not in test["executions"]
    if runs == "off":
        assert (result.ret, test["verdict"]) == (0, "ok")
        return
    assert (result.ret, test["verdict"]) == (1, "error")
    gone = "torch._dynamo.output_graph.OutputGraph.another_name"
    printed = str(result.stdout)
    assert gone in printed
    assert "graph_budget_runs = off" in printed
