"""``@pytest.mark.max_graphs`` and ``@pytest.mark.graph_budget``, as a user writes them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_graphbreak.suite.markers import canonical, is_xfail
from tests.conftest import Suite

pytestmark = pytest.mark.once


def test_a_cap_needs_no_option(suite: Suite) -> None:
    suite.write_tests(
        """
@pytest.mark.max_graphs(1)
def test_broken():
    run(broken)

@pytest.mark.max_graphs(2)
def test_room_for_it():
    run(broken)

def test_unmarked():
    run(broken)
"""
    )
    result = suite.run(passed=2, failed=1)
    result.stdout.no_fnmatch_line("*graph-budget:*")  # no header: nothing was asked for


def test_classes_modules_and_parameters_carry_it(suite: Suite) -> None:
    suite.write_tests(
        """
pytestmark = pytest.mark.max_graphs(1)

def test_of_the_module():
    run(broken)

@pytest.mark.max_graphs(2)
class TestClass:
    def test_of_the_class(self):
        run(broken)

    @pytest.mark.max_graphs(1)
    def test_the_closest_wins(self):
        run(broken)

    @pytest.mark.max_graphs(breaks=5)
    def test_and_whole(self):
        run(broken, 3, 4)

@pytest.mark.parametrize(
    "f",
    [clean, pytest.param(broken, marks=pytest.mark.max_graphs(2))],
    ids=["clean", "broken"],
)
def test_of_a_parameter(f):
    run(f)
"""
    )
    suite.run("-rA").stdout.fnmatch_lines_random(
        [
            "FAILED test_it.py::test_of_the_module*",
            "PASSED test_it.py::TestClass::test_of_the_class",
            "FAILED test_it.py::TestClass::test_the_closest_wins*",
            "PASSED test_it.py::TestClass::test_and_whole",
            "PASSED test_it.py::test_of_a_parameter[[]clean[]]",
            "PASSED test_it.py::test_of_a_parameter[[]broken[]]",
        ]
    )


def test_limits_in_the_other_marker_fail_the_test_and_name_theirs(suite: Suite) -> None:
    """Also without an option, where it would be a limit that nothing holds."""
    suite.write_tests(
        """
@pytest.mark.graph_budget(max_graphs=2)
def test_by_name(): pass

@pytest.mark.graph_budget(1, breaks=0, isolate=False)
def test_by_position(): pass

@pytest.mark.graph_budget(gates=False)
def test_wrong(): pass

@pytest.mark.graph_budget(gate=False)
def test_right(): pass
"""
    )
    for option in ((), ("--graph-budget-report=graphs.json",)):
        result = suite.run(*option, passed=1, failed=3)
        start = "@pytest.mark.graph_budget: "
        result.stdout.fnmatch_lines(
            [
                f"{start}limits are set by @pytest.mark.max_graphs(2)",
                f"{start}limits are set by @pytest.mark.max_graphs(1, breaks=0)",
                f"{start}gates=False is not known; allowed: *",
            ]
        )


def test_a_wrong_cap_fails_that_test_and_says_what_is_allowed(suite: Suite) -> None:
    suite.write_tests(
        """
@pytest.mark.max_graphs(graphs=1)
def test_wrong():
    pass

def test_next():
    pass
"""
    )
    result = suite.run(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*max_graphs: *unknown argument 'graphs'*allowed: max_graphs(N)*"])
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


def test_the_way_out(suite: Suite) -> None:
    suite.write_tests(
        """
@pytest.mark.max_graphs(1)
@pytest.mark.graph_budget(gate=False, reason="being fixed")
def test_out():
    run(broken)
"""
    )
    report = suite.report("--graph-budget")
    (test,) = report["tests"]
    assert test["outcome"] == "passed"
    assert test["ungated"] == "being fixed"
    assert test["graphs"] == {"dynamo": 2}
    assert report["session"]["exit"] == 0


def test_what_is_marked_ungated_gets_no_baseline(suite: Suite) -> None:
    mark = "@pytest.mark.graph_budget(gate=False)\n"
    suite.write_tests(
        f"{mark}def test_out():\n    run(broken)\n\ndef test_in():\n    run(broken)\n"
    )
    suite.run("--graph-budget-record")
    (written,) = (suite.path / "baselines").rglob("*.yaml")
    assert "test_in:" in written.read_text()
    assert "test_out:" not in written.read_text()


@pytest.mark.parametrize(
    "said", ["False", "gate='no'", "gated=False", "", "reason=3"], ids=lambda text: text or "empty"
)
def test_a_wrong_graph_budget_marker_fails_that_test(suite: Suite, said: str) -> None:
    suite.write_tests(f"@pytest.mark.graph_budget({said})\ndef test_wrong():\n    pass\n")
    result = suite.run("--graph-budget", failed=1)
    result.stdout.fnmatch_lines(["*allowed: graph_budget(gate=False, isolate=False*"])


def test_isolate_false_leaves_the_caches_alone(suite: Suite) -> None:
    suite.write_tests(
        """
compiled = torch.compile(clean, backend="eager")

def test_first():
    compiled(torch.ones(3))

@pytest.mark.graph_budget(isolate=False)
def test_warm():
    compiled(torch.ones(3))

def test_cold():
    compiled(torch.ones(3))
"""
    )
    report = suite.report()
    assert [test["graphs"] for test in report["tests"]] == [{"dynamo": 1}, {}, {"dynamo": 1}]


def test_markers_are_declared(suite: Suite) -> None:
    result = suite.run("--markers")
    result.stdout.fnmatch_lines(["@pytest.mark.max_graphs(n, *", "@pytest.mark.graph_budget(gate*"])


def test_a_cap_that_a_fixture_gives_holds(suite: Suite) -> None:
    """Nothing measured the test when its set-up began; its call is measured."""
    suite.write(
        """
        import pytest, torch

        @pytest.fixture
        def capped(request):
            request.node.add_marker(pytest.mark.max_graphs(1))

        def test_over(capped):
            for plus in (1, 2):
                torch.compile(lambda x: x + plus, backend="eager")(torch.ones(3))

        def test_free():
            for plus in (1, 2):
                torch.compile(lambda x: x + plus, backend="eager")(torch.ones(3))
        """
    )
    suite.run(passed=1, failed=1).stdout.fnmatch_lines(["FAILED test_it.py::test_over *"])


def item(nodeid: str, *marks: Any, **options: object) -> pytest.Item:
    """A test of another pytest, or under another plugin: what is asked of it."""
    return SimpleNamespace(  # type: ignore[return-value]
        nodeid=nodeid,
        iter_markers=lambda name: [mark for mark in marks if mark.name == name],
        config=SimpleNamespace(getoption=lambda name, default=None: options.get(name, default)),
    )


def test_the_group_that_xdist_appends_is_no_part_of_the_name() -> None:
    group, named, default = (
        SimpleNamespace(name="xdist_group", args=args, kwargs=kwargs)
        for args, kwargs in ((("a",), {}), ((), {"name": "b"}), ((), {}))
    )
    assert canonical(item("test_it.py::test_a@a", group)) == "test_it.py::test_a"
    assert canonical(item("test_it.py::test_a@b", named)) == "test_it.py::test_a"
    assert canonical(item("test_it.py::test_a@default", default)) == "test_it.py::test_a"
    # pytest 9.1 appends nothing, and a parameter may end like that.
    assert canonical(item("test_it.py::test_a[@b]", group)) == "test_it.py::test_a[@b]"


def test_a_new_test_that_may_fail_is_judged_where_xfail_is_off() -> None:
    xfail = pytest.mark.xfail.mark
    assert is_xfail(item("test_it.py::test_a", xfail))
    assert not is_xfail(item("test_it.py::test_a", xfail, runxfail=True))
    assert not is_xfail(item("test_it.py::test_a", pytest.mark.xfail("text").mark))


def test_a_block_counts_alike_alone_and_after_another_test(suite: Suite) -> None:
    """No option is given: the fixture isolates before its test, as a marker does."""
    suite.write_tests(
        """
def sizes(*lengths):
    model = torch.compile(torch.nn.Softmax(dim=-1), backend="eager", dynamic=False)
    for n in lengths:
        model(torch.ones(2, n))

def test_before():
    sizes(8, 9)

def test_block(graph_budget):
    sizes(8)
    with graph_budget(max_graphs=0):
        sizes(8)
    with graph_budget(max_graphs=0):
        sizes(8, 9)
"""
    )
    for selected in ((), ("-k", "block")):
        result = suite.run(*selected)
        assert result.parseoutcomes()["failed"] == 1
        result.stdout.fnmatch_lines(["*graph budget: 1 dynamo graph, * allows 0*"])
