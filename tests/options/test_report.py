"""``--graph-budget-report``: the JSON, held to its schema; alone it judges nothing."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import jsonschema
import pytest

from pytest_graphbreak.config.settings import from_config
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
    suite.write_baseline("<<<<<<< HEAD\n")
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


def test_the_session(suite: Suite) -> None:
    suite.write(CLEAN + CLEAN.replace("test_model", "test_second"))
    session = suite.report("-k", "second")["session"]
    assert (session["collected"], session["deselected"]) == (2, 1)
    assert session["complete_files"] == []
    assert suite.report()["session"]["complete_files"] == ["test_it.py"]


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


def test_a_path_is_relative_to_where_it_is_written_down(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite.pytester.makeini("[pytest]\ngraph_budget_report = graphs.json\n")
    below = suite.path / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    for options, path in (
        (("--graph-budget-report=typed.json",), below / "typed.json"),
        ((), suite.path / "graphs.json"),
    ):
        assert from_config(suite.pytester.parseconfig(*options)).report == path


def test_where_it_was_written_is_said(suite: Suite) -> None:
    suite.write(CLEAN)
    result = suite.run("--graph-budget-report=out/graphs.json")
    result.stdout.fnmatch_lines(["*- generated graph budget report: */out/graphs.json -*"])
    (suite.path / "file").touch()
    result = suite.run("--graph-budget-report=file/graphs.json", ret=1)
    result.stdout.no_fnmatch_line("*generated graph budget report*")
    result.stdout.fnmatch_lines(["error      */file/graphs.json: the report was not written: *"])


@pytest.mark.parametrize("option", ["--collect-only", "--setup-plan", "--fixtures", "--markers"])
def test_a_run_without_tests_keeps_the_report(suite: Suite, option: str) -> None:
    suite.write(CLEAN)
    suite.run("--graph-budget-report=graphs.json")
    written = (suite.path / "graphs.json").read_bytes()
    suite.run("--graph-budget-report=graphs.json", option)
    assert (suite.path / "graphs.json").read_bytes() == written


@pytest.mark.parametrize("worker", [False, True])
def test_a_run_that_never_begins_leaves_no_earlier_report(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, worker: bool
) -> None:
    """But for a worker of xdist, which begins while the report of its run may be there."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    if worker:
        monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    report = suite.path / "graphs.json"
    report.write_text('{"version": 1, "environment": {}}')
    suite.pytester.makeconftest("import nosuch")
    assert suite.run("--graph-budget-report=graphs.json").ret == 4
    assert report.exists() == worker
    suite.pytester.makeconftest("")
    report.touch()
    assert suite.run("--graph-budget-report=graphs.json", "--nosuch").ret == 4
    assert report.exists() == worker


@pytest.mark.parametrize("option", ["--graph-budget-report=test_it.py", "--graph-budget-report=."])
def test_what_is_no_report_is_left_as_it_is(suite: Suite, option: str) -> None:
    suite.write(CLEAN)
    result = suite.run(*option.split("="), ret=4)
    result.stderr.fnmatch_lines(["ERROR: --graph-budget-report: * is left as it is; *"])
    assert "def test_model" in (suite.path / "test_it.py").read_text()


def test_what_a_test_writes_there_is_left_as_it_is(suite: Suite) -> None:
    suite.write("def test_it(): open('graphs.json', 'w').write('[]')")
    result = suite.run("--graph-budget-report=graphs.json", ret=1)
    result.stdout.fnmatch_lines(["error      */graphs.json: the report was not written: *"])
    assert (suite.path / "graphs.json").read_text() == "[]"
