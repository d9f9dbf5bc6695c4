"""``graphbreak explain``: what it prints, where, and its exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from pytest_graphbreak.advice import registry
from pytest_graphbreak.advice.explanation import by_name
from pytest_graphbreak.cli.page import WIDTH
from tests.cli.conftest import Workspace
from tests.commands import Said
from tests.reports import a_report, a_test, over

pytestmark = pytest.mark.once

IDS = registry.installed_registry().ids
with_ids = pytest.mark.skipif("GB0124" not in IDS, reason="this torch has no such id")


Explain = Callable[..., Said]


@pytest.fixture
def explain(workspace: Workspace) -> Explain:
    """Types the command, which ends with ``code``."""
    return lambda *words, code=0: workspace.run("explain", *words, code=code)


def test_a_name_is_explained_with_code_before_and_after(explain: Explain) -> None:
    said = explain("branch")
    assert said.err == ""
    lines = said.out.splitlines()
    assert lines[0] == "branch: an if on a tensor's values"
    for part in ("What it means", "Why", "What to write instead", "Switches"):
        assert part in lines
    before, after = lines.index("  before"), lines.index("  after")
    assert lines[before + 1] == "      def f(x):"
    assert "          if x.sum() > 0:" in lines[before:after]
    assert "          return torch.where(x.sum() > 0, x + 1, x - 1)" in lines[after:]


@with_ids
def test_an_id_has_torchs_own_words_with_their_version(explain: Explain) -> None:
    lines = explain("gb124").out.splitlines()
    assert lines[:2] == [
        "GB0124: Unsupported Tensor.item() call with capture_scalar_outputs=False",
        "  item: .item(), int(t), float(t): a tensor read back as a Python number",
    ]
    assert f"Torch {registry.installed_registry().version} on GB0124" in lines
    assert lines[-1].strip() == registry.link("GB0124")


@with_ids
def test_an_id_without_a_page_of_ours_is_explained_too(explain: Explain) -> None:
    out = explain("GB0249").out
    assert f"Torch {registry.installed_registry().version} on GB0249" in out
    assert ("Earlier meanings of GB0249" in out) == (len(IDS["GB0249"]) > 1)


def test_the_words_of_a_reason_need_no_quotes(explain: Explain) -> None:
    assert explain("Data-dependent", "jump").out.startswith(("branch: ", "GB0170: "))


def test_a_reason_of_any_length_is_no_name_of_a_file(explain: Explain) -> None:
    said = explain("Unsupported Tensor.item() call " + "with more " * 40)
    assert said.out.startswith("item: ")


def test_an_example_says_what_it_raises_and_for_which_torch(explain: Explain) -> None:
    lines = explain("torch.cond").out.splitlines()
    assert "  before, which raises UncapturedHigherOrderOpError" in lines
    assert "  (torch 2.9 and later)" in lines


def test_without_a_name_all_are_listed(explain: Explain) -> None:
    lines = explain().out.splitlines()
    listed = {line.split()[0] for line in lines if line.startswith("  ")}
    assert listed == set(by_name())


def test_what_nobody_knows_is_an_error_that_names_what_is_near(explain: Explain) -> None:
    said = explain("recompyle", code=2)
    assert said.out == ""
    assert "no advice on 'recompyle'" in said.err
    assert "did you mean: recompile" in said.err


def test_an_id_that_this_torch_does_not_have_says_so(explain: Explain) -> None:
    err = explain("GB9999", code=2).err
    assert f"torch {registry.installed_registry().version}" in err
    assert ("has no such id" in err) == bool(IDS)


@pytest.mark.parametrize("topic", [*sorted(by_name()), *sorted(IDS)[::7]])
def test_text_fits_the_width_and_is_clean(topic: str, explain: Explain) -> None:
    _, *lines = explain(topic).out.splitlines()
    for line in lines:
        assert line == line.rstrip()
        code = line.startswith("      ")
        assert code or len(line) <= WIDTH or len(line.split()) == 1  # links are not cut


def test_for_programs_an_explanation_is_one_object(explain: Explain) -> None:
    (line,) = explain("--json", "branch").out.splitlines()
    found = json.loads(line)
    assert (found["name"], found["id"]) == ("branch", None)
    assert found["try"].startswith("torch.where(condition, a, b)")
    assert "if x.sum() > 0:" in found["examples"][0]["before"]
    names = [json.loads(one)["name"] for one in explain("--json").out.splitlines()]
    assert names == list(by_name())


@pytest.fixture
def report(workspace: Workspace) -> str:
    """A report with two red tests, each with breaks of its own, and a green one."""
    tests = (over("t.py::one", 1, 2), over("t.py::two[x]", 1, 3), a_test("t.py::fine", 1))
    return workspace.report("report.json", a_report(*tests))


def test_for_programs_each_finding_of_a_report_is_an_object_on_a_line(
    report: str, explain: Explain
) -> None:
    found = [json.loads(line) for line in explain("--json", report).out.splitlines()]
    assert [(one["where"]["line"], one["red"]) for one in found] == [(10, 2), (11, 1)]
    (line,) = explain("--json", report, "--tests", "one").out.splitlines()
    assert json.loads(line)["tests"] == ["t.py::one"]


def test_a_report_without_findings_says_so_and_is_no_error(report: str, explain: Explain) -> None:
    said = explain("--json", report, "--tests", "fine")
    assert said.out == ""
    assert "nothing in these reports is red" in said.err


def test_a_file_that_is_no_report_is_named(workspace: Workspace, explain: Explain) -> None:
    (workspace.path / "log.txt").write_text("no json")
    said = explain("--json", "log.txt", code=2)
    assert said.out == ""
    assert "log.txt" in said.err


def test_a_report_that_is_missing_beside_another_is_named(report: str, explain: Explain) -> None:
    said = explain(report, "gone.json", code=2)
    assert said.out == ""
    assert "gone.json: cannot be read as a JSON report: No such file" in said.err


def test_a_directory_of_the_name_of_a_topic_hides_no_advice(
    workspace: Workspace, explain: Explain
) -> None:
    (workspace.path / "split").mkdir()
    assert explain("split").out.startswith("split: ")
