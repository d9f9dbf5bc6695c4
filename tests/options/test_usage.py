"""What every option has: a key of the ini file, and a usage error for what it does not take."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import CLEAN, Suite

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (
            "--graph-budget-device=gpu",
            "ERROR: --graph-budget-device *'gpu' is not one of auto, tt*",
        ),
        ("--graph-budget-device=tt", "ERROR: no TT device here: looked for and did not find *"),
        (
            "--graph-budget-profile={card}",
            "ERROR: *{card}*fields are {device}, {arch} and {torch}",
        ),
        (
            "--override-ini=graph_budget_infra=tests/infra",
            "ERROR: graph_budget_infra: 'tests/infra' is no directory under *",
        ),
        (
            "--override-ini=graph_budget_isolation=process",
            "ERROR: graph_budget_isolation: 'process' is not one of*",
        ),
        (
            "--override-ini=graph_budget_new=maybe",
            "*graph_budget_new: 'maybe' is not one of fail, report",
        ),
        (
            "--override-ini=graph_budget_ops=much",
            "*graph_budget_ops: 'much' is not a percentage from 0 to 100*",
        ),
        (
            "--override-ini=graph_budget_tt_log=on",
            "*graph_budget_tt_log: 'on' is not one of headers, full, off",
        ),
    ],
)
def test_another_value_is_a_usage_error(suite: Suite, option: str, message: str) -> None:
    suite.write(CLEAN)
    result = suite.run("--graph-budget", option)
    assert result.ret == 4
    result.stderr.fnmatch_lines([message])


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
