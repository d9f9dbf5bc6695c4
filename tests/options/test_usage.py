"""What every option has: a key of the ini file, and a usage error for what it does not take."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import CLEAN, Suite

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--graph-budget-device=gpu", "--graph-budget-device *'gpu' is not one of auto, tt*"),
        ("--graph-budget-device=tt", "no TT device here: looked for and did not find *"),
        ("--graph-budget-profile={card}", "*{card}*fields are {device}, {arch} and {torch}"),
        ("-ograph_budget_infra=a/b", "graph_budget_infra: 'a/b' is no directory under *"),
        ("-ograph_budget_isolation=no", "graph_budget_isolation: 'no' is not one of*"),
        ("-ograph_budget_new=no", "*graph_budget_new: 'no' is not one of fail, report"),
        ("-ograph_budget_ops=no", "*graph_budget_ops: 'no' is not a percentage from 0 to 100*"),
        ("-ograph_budget_tt_log=on", "*graph_budget_tt_log: 'on' is not one of headers, full, off"),
    ],
)
def test_another_value_is_a_usage_error(suite: Suite, option: str, message: str) -> None:
    suite.write(CLEAN)
    suite.run("--graph-budget", option, ret=4).stderr.fnmatch_lines([f"ERROR: {message}"])


def test_the_ini_keys(suite: Suite) -> None:
    suite.write(CLEAN)
    suite.pytester.makeini(
        """
        [pytest]
        graph_budget_device = cpu
        graph_budget_dir = elsewhere
        graph_budget_profile = nightly
        graph_budget_report = out/graphs.json
        """
    )
    environment = suite.report("--graph-budget-update")["environment"]
    assert (environment["device"], environment["profile"]) == ("cpu", "nightly")
    assert (suite.path / "elsewhere" / "test_it.yaml").exists()
    Path(suite.path / "graphs.json").unlink()
    suite.run()
    assert (suite.path / "out" / "graphs.json").exists()
