"""``--graph-budget-trace``: kept for failed tests, gone for passed ones, nothing else changed."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._logging.structured as structured

from pytest_graphbreak.suite.window import Trace, slug
from tests.conftest import BROKEN, Suite
from tests.reports import timeless

pytestmark = pytest.mark.once

FAILS = BROKEN + "        assert False\n"
PASSES = BROKEN.replace("test_model", "test_passes")


def traces(suite: Suite) -> dict[str, list[str]]:
    """The lines of each trace that is there, by the name of its directory."""
    found = {}
    for path in (suite.path / "traces").glob("*/*.log"):
        found[path.parent.name] = path.read_text().splitlines()
    return found


def test_a_failed_test_leaves_a_trace_and_a_passed_one_does_not(suite: Suite) -> None:
    suite.write(FAILS)
    suite.write(PASSES, "test_other")
    suite.run("--graph-budget-trace=traces").assert_outcomes(passed=1, failed=1)
    kept = traces(suite)
    assert list(kept) == [slug("test_it.py::test_model")]
    (lines,) = kept.values()
    records = [json.loads(line[line.index("{") :]) for line in lines if "] {" in line]
    assert any("dynamo_start" in record for record in records)
    assert len(list((suite.path / "traces").iterdir())) == 1


def test_a_test_that_the_gate_failed_leaves_one_too(suite: Suite) -> None:
    suite.write(
        "import pytest\n"
        + _dedented(BROKEN).replace("def test_model", "@pytest.mark.max_graphs(1)\ndef test_model")
    )
    suite.run("--graph-budget-trace=traces").assert_outcomes(failed=1)
    assert len(traces(suite)) == 1


def test_each_trace_spells_out_its_own_files(suite: Suite) -> None:
    suite.write(FAILS)
    suite.write(FAILS, "test_other")
    suite.run("--graph-budget-trace=traces")
    for lines in traces(suite).values():
        spelled = [line for line in lines if '"str": ["' in line]
        assert any("test_it.py" in line or "test_other.py" in line for line in spelled)


def counts(report: dict[str, Any]) -> Any:
    """What was seen of the one test of a report."""
    (test,) = report["tests"]
    keys = ("graphs", "recompiles", "frames", "breaks", "eager")
    return timeless({key: test[key] for key in keys})


def test_counts_are_those_without_it(suite: Suite) -> None:
    suite.write(FAILS)
    plain, traced = counts(suite.report()), counts(suite.report("--graph-budget-trace=traces"))
    assert plain == traced


def test_everything_is_put_back(tmp_path: Path) -> None:
    handlers = list(logging.getLogger("torch.__trace").handlers)
    structured.intern_string("some_file.py")
    names = dict(structured.INTERN_TABLE)
    trace = Trace(tmp_path, "test_a.py::test_b")
    trace.start()
    torch._dynamo.reset()
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    trace.settle(failed=True)
    assert list(trace.directory.iterdir())
    assert logging.getLogger("torch.__trace").handlers == handlers
    assert names == structured.INTERN_TABLE
    trace.start()  # another attempt of the same test forgets the first
    trace.settle(failed=False)
    assert not trace.directory.exists()


def test_a_directory_is_safe_and_its_own() -> None:
    untrusted = "tests/../a.py::test[\x1b]/etc/passwd"
    assert "/" not in slug(untrusted)
    assert not slug(untrusted).startswith(".")
    assert slug("a::b[1]") != slug("a::b 1 ")
    assert len(slug("x" * 4000)) < 200


def _dedented(text: str) -> str:
    import textwrap

    return textwrap.dedent(text)
