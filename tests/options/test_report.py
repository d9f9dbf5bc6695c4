"""``--graph-budget-report``: the JSON, held to its schema; alone it judges nothing."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import jsonschema
import pytest

from tests.conftest import BROKEN, CLEAN, Suite

pytestmark = pytest.mark.once


def validate(report: dict[str, Any]) -> None:
    schema = json.loads((files("pytest_graphbreak") / "schemas" / "report.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(report)


def test_alone_it_observes_and_judges_nothing(suite: Suite) -> None:
    suite.write(BROKEN)
    report = suite.report()
    validate(report)
    (test,) = report["tests"]
    assert report["session"]["exit"] == 0
    assert test["graphs"] == {"dynamo": 2}
    assert test["outcome"] == "passed"
    assert (test["baseline"], test["budget"], test["message"]) == (None, None, None)


def test_alone_it_reads_no_baseline(suite: Suite) -> None:
    suite.write(CLEAN)
    (suite.path / "baselines").mkdir()
    (suite.path / "baselines" / "test_it.yaml").write_text("<<<<<<< HEAD\n")
    assert suite.report()["session"]["exit"] == 0


def test_every_outcome_is_in_it(suite: Suite) -> None:
    suite.write(
        """
        import pytest, torch

        def compiled():
            torch.compile(lambda x: x + 1, backend="eager")(torch.ones(3))

        def test_passed(): compiled()
        def test_failed(): compiled(); assert False
        def test_skipped(): pytest.skip("no")
        @pytest.mark.skip
        def test_skipped_outside(): pass
        @pytest.mark.xfail
        def test_xfailed(): compiled(); assert False
        @pytest.mark.xfail
        def test_xpassed(): compiled()
        @pytest.mark.xfail(strict=True)
        def test_strict(): compiled()
        @pytest.fixture
        def bad(): raise RuntimeError
        def test_setup(bad): pass
        @pytest.fixture
        def worse():
            yield
            raise RuntimeError
        def test_teardown(worse): compiled()
        """
    )
    report = suite.report()
    validate(report)
    seen = {
        test["nodeid"].split("::")[1]: (test["outcome"], test["failed_by"], test["graphs"])
        for test in report["tests"]
    }
    one = {"dynamo": 1}
    assert seen == {
        "test_passed": ("passed", None, one),
        "test_failed": ("failed", "test", one),
        "test_skipped": ("skipped", None, {}),
        "test_skipped_outside": ("skipped", None, {}),
        "test_xfailed": ("xfailed", None, one),
        "test_xpassed": ("xpassed", None, one),
        "test_strict": ("failed", "test", one),
        "test_setup": ("failed", "test", {}),
        "test_teardown": ("failed", "test", one),
    }


def test_the_environment(suite: Suite) -> None:
    import torch

    suite.write(CLEAN)
    environment = suite.report()["environment"]
    assert environment["torch"].split("+")[0] == torch.__version__.split("+")[0]
    assert set(environment) == {
        "profile",
        "device",
        "arch",
        "torch",
        "torch_xla",
        "jax",
        "python",
        "platform",
        "packages",
    }


def test_the_session(suite: Suite) -> None:
    suite.write(CLEAN + CLEAN.replace("test_model", "test_second"))
    session = suite.report("-k", "second")["session"]
    assert (session["collected"], session["deselected"]) == (2, 1)
    assert session["complete_files"] == []
    assert suite.report()["session"]["complete_files"] == ["test_it.py"]


def test_what_fixtures_compile_is_reported_and_not_judged(suite: Suite) -> None:
    suite.write(
        """
        import pytest, torch

        @pytest.fixture(scope="module")
        def model():
            f = torch.compile(lambda x: x + 1, backend="eager")
            f(torch.ones(3))
            yield f
            torch.compile(lambda x: x + 2, backend="eager")(torch.ones(3))

        def test_uses_it(model):
            pass
        """
    )
    report = suite.report("--graph-budget")
    (test,) = report["tests"]
    assert test["outcome"] == "passed"
    assert test["graphs"] == {}
    assert test["setup"]["phases"] == {"setup": {"dynamo": 1}, "teardown": {"dynamo": 1}}
    result = suite.run("--graph-budget")
    result.stdout.fnmatch_lines(
        ["fixtures   test_it.py::test_uses_it   1 dynamo graph in setup, not judged"]
    )


def test_what_a_test_s_own_fixtures_compile_is_the_test_s(suite: Suite) -> None:
    suite.write(
        """
        import pytest, torch

        def f(x): return x + 1

        @pytest.fixture
        def model():
            model = torch.compile(f, backend="eager")
            model(torch.ones(3))
            return model

        @pytest.mark.max_graphs(1)
        def test_cap(model):
            model(torch.ones(3, dtype=torch.int64))
        """
    )
    result = suite.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "graph budget: 2 dynamo graphs, the marker allows 1 (+1)",
            "  dynamo 1 -> 2 by the marker (1 entry, 1 recompile, 1 in the test's fixtures)",
        ]
    )
    (test,) = suite.report()["tests"]
    assert test["graphs"] == {"dynamo": 2}
    assert test["setup"] == {"graphs": {}, "phases": {}, "own": {"dynamo": 1}}


def test_what_a_fixture_compiled_is_charged_to_the_test_that_calls_it(suite: Suite) -> None:
    suite.write(
        """
        import pytest, torch

        @pytest.fixture(scope="module")
        def model():
            f = torch.compile(lambda x: x + 1, backend="eager")
            f(torch.ones(3))
            return f

        def test_first(model): model(torch.ones(3))
        def test_second(model): model(torch.ones(3))
        """
    )
    assert [test["graphs"] for test in suite.report()["tests"]] == [{"dynamo": 1}] * 2


def test_json_is_ascii_with_a_line_at_its_end(suite: Suite) -> None:
    suite.write(
        """
        import pytest
        @pytest.mark.parametrize("x", ["größe", "\\udcff"])
        def test_it(x): pass
        """
    )
    suite.report()
    raw = (suite.path / "graphs.json").read_bytes()
    assert raw.isascii()
    assert raw.endswith(b"}\n")


def test_where_it_was_written_is_said(suite: Suite) -> None:
    suite.write(CLEAN)
    result = suite.run("--graph-budget-report=out/graphs.json")
    result.stdout.fnmatch_lines(["*- generated graph budget report: */out/graphs.json -*"])
    (suite.path / "file").touch()
    result = suite.run("--graph-budget-report=file/graphs.json")
    assert result.ret == 1
    result.stdout.no_fnmatch_line("*generated graph budget report*")
    result.stdout.fnmatch_lines(["error      */file/graphs.json: the report was not written: *"])


@pytest.mark.usefixtures("forks")
def test_a_run_that_dies_leaves_no_earlier_report(suite: Suite) -> None:
    suite.write(CLEAN)
    suite.report()
    suite.write("import os\ndef test_it(): os._exit(0)\n")
    result = suite.pytester.runpytest_subprocess("--graph-budget-report=graphs.json")
    assert result.ret == 0
    assert not (suite.path / "graphs.json").exists()


def test_collecting_only_keeps_the_report(suite: Suite) -> None:
    suite.write(CLEAN)
    suite.report()
    suite.run("--graph-budget-report=graphs.json", "--collect-only")
    assert (suite.path / "graphs.json").exists()
