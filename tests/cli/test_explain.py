"""``graphbreak explain``: what it prints, where, and its exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_graphbreak import cli
from pytest_graphbreak.advice import registry
from pytest_graphbreak.advice.explanation import by_name
from pytest_graphbreak.cli.explain import WIDTH
from tests.reports import a_report, a_test, over

pytestmark = pytest.mark.once

IDS = registry.installed_registry().ids
with_ids = pytest.mark.skipif("GB0124" not in IDS, reason="this torch has no such id")


def run(*words: str) -> int:
    return cli.main(["explain", *words])


def test_a_name_is_explained_with_code_before_and_after(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("branch") == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert lines[0] == "branch: an if on a tensor's values"
    for part in ("What it means", "Why", "What to write instead", "Switches"):
        assert part in lines
    before, after = lines.index("  before"), lines.index("  after")
    assert lines[before + 1] == "      def f(x):"
    assert "          if x.sum() > 0:" in lines[before:after]
    assert "          return torch.where(x.sum() > 0, x + 1, x - 1)" in lines[after:]


@with_ids
def test_an_id_has_torchs_own_words_with_their_version(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("gb124") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        "GB0124: Unsupported Tensor.item() call with capture_scalar_outputs=False",
        "  item: .item(), int(t), float(t): a tensor read back as a Python number",
    ]
    assert f"Torch {registry.installed_registry().version} on GB0124" in lines
    assert lines[-1].strip() == registry.link("GB0124")


@with_ids
def test_an_id_without_a_page_of_ours_is_explained_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("GB0249") == 0
    out = capsys.readouterr().out
    assert f"Torch {registry.installed_registry().version} on GB0249" in out
    assert ("Earlier meanings of GB0249" in out) == (len(IDS["GB0249"]) > 1)


def test_the_words_of_a_reason_need_no_quotes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("Data-dependent", "jump") == 0
    assert capsys.readouterr().out.startswith(("branch: ", "GB0170: "))


def test_an_example_says_what_it_raises_and_for_which_torch(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("torch.cond") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  before, which raises UncapturedHigherOrderOpError" in lines
    assert "  (torch 2.9 and later)" in lines


def test_without_a_name_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    lines = capsys.readouterr().out.splitlines()
    listed = {line.split()[0] for line in lines if line.startswith("  ")}
    assert listed == set(by_name())


def test_what_nobody_knows_is_an_error_that_names_what_is_near(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("recompyle") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "no advice on 'recompyle'" in err
    assert "did you mean: recompile" in err


def test_an_id_that_this_torch_does_not_have_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("GB9999") == 2
    err = capsys.readouterr().err
    assert f"torch {registry.installed_registry().version}" in err
    assert ("has no such id" in err) == bool(IDS)


def test_without_torch_the_names_are_still_explained() -> None:
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "from pytest_graphbreak import cli\n"
        "assert cli.main(['explain', 'split']) == 0\n"
        "assert cli.main(['explain', 'GB0124']) == 0\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("split: ")
    assert "GB0124" in done.stdout  # ids have the words of the newest torch that was read


@pytest.mark.parametrize("topic", [*sorted(by_name()), *sorted(IDS)[::7]])
def test_text_fits_the_width_and_is_clean(topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(topic) == 0
    _, *lines = capsys.readouterr().out.splitlines()
    for line in lines:
        assert line == line.rstrip()
        code = line.startswith("      ")
        assert code or len(line) <= WIDTH or len(line.split()) == 1  # links are not cut


def test_for_programs_an_explanation_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--json", "branch") == 0
    (line,) = capsys.readouterr().out.splitlines()
    found = json.loads(line)
    assert (found["name"], found["id"]) == ("branch", None)
    assert found["try"].startswith("torch.where(condition, a, b)")
    assert "if x.sum() > 0:" in found["examples"][0]["before"]
    assert run("--json") == 0
    names = [json.loads(one)["name"] for one in capsys.readouterr().out.splitlines()]
    assert names == list(by_name())


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A report with two red tests, each with breaks of its own, and a green one."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "report.json"
    tests = (over("t.py::one", 1, 2), over("t.py::two[x]", 1, 3), a_test("t.py::fine", 1))
    path.write_text(json.dumps(a_report(*tests)))
    return path


def test_for_programs_each_finding_of_a_report_is_an_object_on_a_line(
    report: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--json", str(report)) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["where"]["line"], one["red"]) for one in found] == [(10, 2), (11, 1)]
    assert run("--json", str(report), "--tests", "one") == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["tests"] == ["t.py::one"]


def test_a_report_without_findings_says_so_and_is_no_error(
    report: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--json", str(report), "--tests", "fine") == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "nothing in these reports is red" in err


def test_a_file_that_is_no_report_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.txt"
    path.write_text("no json")
    assert run("--json", str(path)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "log.txt" in err


def test_a_directory_of_the_name_of_a_topic_hides_no_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "split").mkdir()
    assert run("split") == 0
    assert capsys.readouterr().out.startswith("split: ")
