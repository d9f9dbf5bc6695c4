"""``--graph-budget-update``: writes what changed of the tests that ran and passed."""

from __future__ import annotations

import pytest
import yaml

from tests.conftest import BROKEN, CLEAN, Suite

pytestmark = pytest.mark.once


def test_it_records_and_passes(suite: Suite) -> None:
    suite.write(BROKEN)
    result = suite.run("--graph-budget-update", passed=1)
    result.stdout.fnmatch_lines(["recorded *test_it.py::test_model*"])
    data = yaml.safe_load(suite.baseline())
    entry = data["tests"]["test_model"]
    assert entry["graphs"] == {"dynamo": 2}
    (place,) = entry["breaks"]
    assert place["id"] == "GB0059"
    assert place["where"] == "test_it.py::f"
    assert place["code"] == 'print("hello")'
    suite.run("--graph-budget").assert_outcomes(passed=1)


def test_it_never_brings_a_layer_to_none(recorded: Suite) -> None:
    before = recorded.baseline()
    recorded.write(CLEAN.replace('torch.compile(f, backend="eager")', "f"))
    recorded.run("--graph-budget-update", failed=1).stdout.fnmatch_lines(
        ["  accept    *pytest * --graph-budget-update --graph-budget-prune test_it.py::test_model"]
    )
    assert recorded.baseline() == before


@pytest.mark.parametrize(
    "ending",
    ["assert False", "import pytest; pytest.skip('no')", "import pytest; pytest.xfail('no')"],
)
def test_what_failed_was_skipped_or_xfailed_is_not_recorded(suite: Suite, ending: str) -> None:
    suite.write(f"{CLEAN}        {ending}\n")
    suite.run("--graph-budget-update")
    assert not suite.has_baseline()


def test_a_marker_is_enforced_and_keeps_the_baseline(suite: Suite) -> None:
    suite.write(
        BROKEN.replace(
            "def test_model", "import pytest\n    @pytest.mark.max_graphs(1)\n    def test_model"
        )
    )
    suite.run("--graph-budget-update", failed=1)
    assert not suite.has_baseline()


@pytest.mark.parametrize(
    ("option", "value"),
    [("update", "true"), ("record", "1"), ("prune", "woodpecker")],
)
def test_it_is_refused_under_ci(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, option: str, value: str
) -> None:
    monkeypatch.setenv("CI", value)
    suite.write(CLEAN)
    result = suite.run(f"--graph-budget-{option}", ret=4)
    result.stderr.fnmatch_lines([f"ERROR: --graph-budget-{option}: *graphbreak accept*"])
    assert not suite.has_baseline()


@pytest.mark.parametrize("value", ["", "0", "False"])
def test_ci_that_says_no_is_no_ci(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("CI", value)
    suite.write(CLEAN)
    suite.run("--graph-budget-update").assert_outcomes(passed=1)
    assert suite.has_baseline()
