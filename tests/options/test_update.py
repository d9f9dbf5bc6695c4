"""``--graph-budget-update``: writes what changed of the tests that ran and passed."""

from __future__ import annotations

import pytest
import yaml

from tests.conftest import BROKEN, CLEAN, Suite

pytestmark = pytest.mark.once


def test_it_records_and_passes(suite: Suite) -> None:
    suite.write(BROKEN)
    result = suite.run("--graph-budget-update")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["recorded *test_it.py::test_model*"])
    data = yaml.safe_load(suite.baseline())
    entry = data["tests"]["test_model"]
    assert entry["graphs"] == {"dynamo": 2}
    (place,) = entry["breaks"]
    assert place["id"] == "GB0059"
    assert place["where"] == "test_it.py::f"
    assert place["code"] == 'print("hello")'
    suite.run("--graph-budget").assert_outcomes(passed=1)


def test_it_tightens(suite: Suite) -> None:
    suite.write(BROKEN)
    suite.run("--graph-budget-update")
    suite.write(CLEAN)
    suite.run("--graph-budget-update").assert_outcomes(passed=1)
    entry = yaml.safe_load(suite.baseline())["tests"]["test_model"]
    assert entry["graphs"] == {"dynamo": 1}
    assert "breaks" not in entry


def test_it_never_brings_a_layer_to_none(suite: Suite) -> None:
    suite.write(CLEAN)
    suite.run("--graph-budget-update")
    before = suite.baseline()
    suite.write(CLEAN.replace('torch.compile(f, backend="eager")', "f"))
    result = suite.run("--graph-budget-update")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["  accept    *pytest * --graph-budget-update --graph-budget-prune test_it.py::test_model"]
    )
    assert suite.baseline() == before


def test_with_prune_it_does(suite: Suite) -> None:
    suite.write(CLEAN)
    suite.run("--graph-budget-update")
    suite.write(CLEAN.replace('torch.compile(f, backend="eager")', "f"))
    suite.run("--graph-budget-update", "--graph-budget-prune").assert_outcomes(passed=1)
    suite.run("--graph-budget").assert_outcomes(passed=1)


def test_a_test_that_fails_by_itself_is_not_recorded(suite: Suite) -> None:
    suite.write(CLEAN + "        assert False\n")
    suite.run("--graph-budget-update").assert_outcomes(failed=1)
    assert not suite.has_baseline()


@pytest.mark.parametrize(
    "ending",
    [
        "        import pytest; pytest.skip('no')\n",
        "        import pytest; pytest.xfail('no')\n",
    ],
)
def test_skipped_and_xfailed_tests_are_not_recorded(suite: Suite, ending: str) -> None:
    suite.write(CLEAN + ending)
    suite.run("--graph-budget-update")
    assert not suite.has_baseline()


def test_a_marker_is_enforced_and_keeps_the_baseline(suite: Suite) -> None:
    suite.write(
        BROKEN.replace(
            "def test_model", "import pytest\n    @pytest.mark.max_graphs(1)\n    def test_model"
        )
    )
    result = suite.run("--graph-budget-update")
    result.assert_outcomes(failed=1)
    assert not suite.has_baseline()


def test_untouched_entries_comments_and_notes_are_kept(suite: Suite) -> None:
    suite.write(CLEAN)
    suite.write(CLEAN, "test_other")
    suite.run("--graph-budget-update")
    path = suite.path / "baselines" / "test_it.yaml"
    other = suite.path / "baselines" / "test_other.yaml"
    text = path.read_text().replace(
        "  test_model:", "  # why this one matters\n  test_model:\n    note: keep me"
    )
    path.write_text(text)
    other.write_text(other.read_text() + "# the end\n")
    kept = other.read_text()
    suite.write(BROKEN)
    suite.run("--graph-budget-update").assert_outcomes(passed=2)
    now = suite.baseline()
    assert "  # why this one matters\n" in now
    assert "    note: keep me\n" in now
    assert yaml.safe_load(now)["tests"]["test_model"]["graphs"] == {"dynamo": 2}
    assert other.read_text() == kept


def test_a_second_update_changes_no_byte(suite: Suite) -> None:
    suite.write(BROKEN)
    suite.run("--graph-budget-update")
    before = suite.baseline()
    result = suite.run("--graph-budget-update")
    assert suite.baseline() == before
    result.stdout.no_fnmatch_line("recorded*")


@pytest.mark.parametrize("value", ["true", "1", "yes", "woodpecker"])
@pytest.mark.parametrize("option", ["update", "record", "prune"])
def test_it_is_refused_under_ci(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, option: str, value: str
) -> None:
    monkeypatch.setenv("CI", value)
    suite.write(CLEAN)
    result = suite.run(f"--graph-budget-{option}")
    assert result.ret == 4
    result.stderr.fnmatch_lines([f"ERROR: --graph-budget-{option}: *graphbreak accept*"])
    assert not suite.has_baseline()


@pytest.mark.parametrize("value", ["", "0", "false", "False"])
def test_ci_that_says_no_is_no_ci(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("CI", value)
    suite.write(CLEAN)
    suite.run("--graph-budget-update").assert_outcomes(passed=1)
    assert suite.has_baseline()


def test_cases_by_parameter_id(suite: Suite) -> None:
    ids = ["a/b", "x::y", 'it\'s "quoted"', "größe-日本", "n" * 300, "- dash", "yes", "1", "#no"]
    suite.write(
        f"""
        import pytest, torch

        @pytest.mark.parametrize("n", range({len(ids)}), ids={ids!r})
        def test_model(n):
            torch.compile(lambda x: x + n, backend="eager")(torch.ones(3))
        """
    )
    result = suite.run("--graph-budget-update")
    result.assert_outcomes(passed=len(ids))
    cases = yaml.safe_load(suite.baseline())["tests"]["test_model"]["cases"]
    assert len(cases) == len(ids)
    suite.run("--graph-budget").assert_outcomes(passed=len(ids))


def test_what_was_there_is_updated_and_what_was_not_recorded(suite: Suite) -> None:
    suite.write(CLEAN)
    suite.run("--graph-budget-record")
    other = CLEAN.replace("test_model", "test_other").replace("f(x)", "g(x)").replace("(f", "(g")
    suite.write(BROKEN + other)
    result = suite.run("--graph-budget-update")
    result.stdout.fnmatch_lines(
        [
            "recorded   test_it.py::test_other  dynamo 1  (*cpu)",
            "updated    test_it.py::test_model  dynamo 1 -> 2, breaks 0 -> 1  (*cpu)",
            "2 tests on *cpu: 1 recorded, 1 updated",
        ]
    )
