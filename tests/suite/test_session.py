"""What a session prints, its summary unless pytest is told to print none; and how it ends."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch

from tests.conftest import BROKEN, CLEAN, Suite

pytestmark = pytest.mark.once

TORCH = ".".join(torch.__version__.split(".")[:2])


def test_no_summary_is_none_of_ours(recorded: Suite) -> None:
    recorded.write(BROKEN)
    result = recorded.run(
        "--graph-budget", "--no-summary", "--graph-budget-report=graphs.json", failed=1
    )
    for line in ("*= graph budget =*", "over *", "next *", "*generated*"):
        result.stdout.no_fnmatch_line(line)


def test_without_a_summary_an_error_is_said_all_the_same(suite: Suite) -> None:
    suite.write(CLEAN)
    (suite.path / "file").touch()
    suite.run(
        "--no-summary", "--graph-budget-report=file/graphs.json", ret=pytest.ExitCode.TESTS_FAILED
    ).stderr.fnmatch_lines(["graph budget: *the report was not written: *"])


@pytest.mark.usefixtures("forks")
@pytest.mark.parametrize("options", [(), ("-n1",)], ids=["here", "xdist"])
def test_one_line_is_one_line(suite: Suite, options: tuple[str, ...]) -> None:
    marked = "import pytest\n    @pytest.mark.max_graphs(1)\n    def test"
    broken = BROKEN.replace('print("hello")', "torch._dynamo.graph_break()")
    suite.write(broken.replace("def test", marked))
    result = suite.run("--graph-budget", "--tb=line", *options, failed=1)
    failures = result.outlines.index(next(x for x in result.outlines if "= FAILURES =" in x))
    reported = [line for line in result.outlines[failures + 1 :] if not line.startswith("[gw0]")]
    assert reported[0] == "test_it.py:9: graph budget: 2 dynamo graphs, the marker allows 1 (+1)"
    assert reported[1].startswith("===")


def test_a_red_test_is_told_once(suite: Suite) -> None:
    """Its text stands in one section; where earlier ones told of all its causes, they are named."""
    suite.write(
        """
        import pytest
        import torch

        def one(x):
            print("one")
            return x + 1

        def other(x):
            print("other")
            return x + 2

        @pytest.mark.max_graphs(0)
        @pytest.mark.parametrize("functions", [(one,), (other,), (one,), (one, other)])
        def test_it(functions):
            for function in functions:
                torch.compile(function, backend="eager")(torch.ones(3))
        """
    )
    out = suite.run("--graph-budget-report=graphs.json").stdout.str()
    first, second = "test_it.py::test_it[functions0]", "test_it.py::test_it[functions1]"
    assert f"      as in {first}\n" in out.replace(" \n", "\n")
    assert "and 1 more, as in" in out
    assert f"as in {first} and\n" in out or f"as in {first} and {second}" in out
    assert (
        out.count("fix: return what it prints") == 2 + 2
    )  # in their sections, and in the list of causes
    assert "\nover " not in out


def test_earlier_tests_tell_nothing_of_a_marker(suite: Suite) -> None:
    """A test whose failure names another one for its causes still shows a cap that it exceeds."""
    suite.write(
        """
        import pytest
        import torch

        @torch.compile(backend="eager")
        def run(x):
            torch._dynamo.graph_break()
            return x + 1

        def test_first():
            run(torch.ones(3))

        @pytest.mark.max_graphs(2, breaks=0)
        def test_marked():
            run(torch.ones(3))
        """
    )
    entry = "{graphs: {dynamo: 1}}"
    suite.write_baseline(
        f'version: 1\nprofile: cpu\ntorch: "{TORCH}"\ntests:\n'
        f"  test_first: {entry}\n  test_marked: {entry}\n"
    )
    out = suite.run("--graph-budget").stdout.str()
    assert "marker    @pytest.mark.max_graphs: fix the code, or raise the cap" in out


AUDIT = """
    import sys
    from pathlib import Path

    import pytest

    import pytest_graphbreak

    OURS = str(Path(pytest_graphbreak.__file__).parent)
    late = []
    is_last = []

    def audit(event, args):
        name = str(args[0]) if event in ("import", "open") else ""
        if name.endswith(".py"):  # of a traceback
            return
        if name.startswith(("pytest_graphbreak", OURS)) or event == "import" and is_last:
            late.append(name)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(): sys.addaudithook(audit)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish():
        is_last.append(True)
        return (yield)

    def pytest_unconfigure():
        Path("late").write_text(" ".join(late))
"""

FAILING = """
    def test_of_its_own():
        test_model()
        torch.compile(f, backend="none")

    def test_block(graph_budget):
        with graph_budget(max_graphs=0):
            test_model()

    def test_fixture(compile_model): compile_model(torch.nn.Identity(), torch.ones(1))
"""


def late(suite: Suite, *options: str) -> str:
    """What a run imports after its last test, and reads of ours from the first one on."""
    here = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    suite.run_apart(*here, "--graph-budget-report=graphs.json", *options)
    suite.reported()
    return suite.path.joinpath("late").read_text()


@pytest.mark.usefixtures("forks")
def test_a_session_imports_and_reads_nothing_late(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test may have finders and a file system of its own, and may leave them."""
    suite.write(AUDIT, "conftest")
    suite.write(CLEAN)
    runs = {"report": late(suite), "record": late(suite, "--graph-budget-record")}
    runs["green"] = late(suite, "--graph-budget")
    suite.write(BROKEN + FAILING)
    runs["red"] = late(suite, "--graph-budget")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    runs["github"] = late(suite)
    assert runs == dict.fromkeys(runs, "")


@pytest.mark.parametrize("options", [(), ("--graph-budget-update", "--graph-budget-prune")])
def test_nor_where_no_test_compiles(suite: Suite, options: tuple[str, ...]) -> None:
    """Then the end has to read and write what no test needed."""
    suite.write(AUDIT, "conftest")
    suite.write("def test_it(): pass")
    old = "version: 1\nprofile: cpu\ntests:\n  test_old:\n    graphs: {dynamo: 1}\n"
    suite.write_baseline(old)
    assert late(suite, *options) == ""
    assert suite.has_baseline() != bool(options)
