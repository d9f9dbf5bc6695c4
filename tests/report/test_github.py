"""What a run says to GitHub Actions."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from pytest_graphbreak.report import github, markdown
from tests.report.tools import as_runs
from tests.reports import a_break, a_report, a_test, as_tests, over, place

pytestmark = pytest.mark.pure


def parts(command: str) -> tuple[dict[str, str], str]:
    """Properties and message of a command, as the runner reads them (its ActionCommand.cs)."""
    found = re.fullmatch(r"::error (.*?)::(.*)", command)
    given = dict(item.split("=", 1) for item in found[1].split(","))
    return {name: unquote(value) for name, value in given.items()}, unquote(found[2])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("models/head.py", "tests/test_a.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("pass\n" * 40)
    return tmp_path


def test_a_break_in_a_library_is_shown_where_the_user_called_it(root: Path) -> None:
    inside = place("transformers/models/bert.py", "Bert.forward", 500, "x.item()")
    called = place("models/head.py", "Head.forward", 9, "self.bert(x)")
    (command,) = github.annotations(
        as_tests(over(breaks=[a_break(inside, stack=[called, inside])])), root
    )
    assert parts(command)[0] | {"title": ""} == {"file": "models/head.py", "line": "9", "title": ""}


def test_only_what_the_gate_failed_and_ten_at_most(root: Path) -> None:
    own = a_test("t.py::own", outcome="failed", failed_by="test")
    fine = a_test("t.py::fine", verdict="improved")
    many = [
        over(f"t.py::test[{number}]", 1, 2, breaks=[a_break(place(code=f"line {number}"))])
        for number in range(15)
    ]
    found = github.annotations(as_tests(own, fine, *many), root)
    assert len(found) == 10
    names = {parts(command)[1].partition("\n")[0] for command in found}
    assert names < {test["nodeid"] for test in many}


def test_one_place_behind_many_red_tests_is_one_error(root: Path) -> None:
    many = [over(f"t.py::test[{number}]", 1, 2) for number in range(220)]
    blind = a_test("t.py::blind", verdict="error", failed_by="gate", errors=["no sensor"])
    shared, alone = github.annotations(as_tests(blind, *many), root)
    properties, message = parts(shared)
    assert (properties["file"], properties["line"]) == ("models/head.py", "10")
    assert properties["title"] == "graph budget: 220 tests, GB0124  Unsupported Tensor.item() call"
    assert "    in 220 tests, which make 220 graphs more:\n" in message
    assert message.endswith("\n        t.py::test[108]\n        and 210 more")
    assert "    fix: torch.where(condition, a, b), without .item()" in message
    assert parts(alone)[1] == "t.py::blind"


def test_files_are_named_from_the_workspace(root: Path) -> None:
    (command,) = github.annotations(as_tests(over(now=2)), root, root.parent)
    assert parts(command)[0]["file"] == f"{root.name}/models/head.py"


def test_files_outside_of_the_workspace_are_named_from_the_root(root: Path, tmp_path: Path) -> None:
    """GitHub then finds no such file, and shows the text without a place."""
    (command,) = github.annotations(as_tests(over(now=2)), root, tmp_path / "elsewhere")
    assert parts(command)[0]["file"] == "models/head.py"


@pytest.mark.parametrize("file", ["../secret.py", "/etc/passwd", "<string>", "missing.py", ""])
def test_no_file_outside_of_the_repository_is_named(file: str, root: Path) -> None:
    (root.parent / "secret.py").write_text("pass")
    where = place(file)
    (command,) = github.annotations(as_tests(over(breaks=[a_break(where, stack=[where])])), root)
    assert parts(command)[0]["file"] in ("tests/test_a.py", "models/head.py")


def test_summary_is_below_the_size_at_which_it_is_dropped() -> None:
    many = [
        over(f"t.py::test[{number}]", message="line\n" * 5_000)
        | {"breaks": [a_break(place(code=f"line {number}"))]}
        for number in range(500)
    ]
    summary = markdown.render(as_runs(a_report(*many)), markdown.SUMMARY)
    assert len(summary.encode()) < 2**20
    assert "Left out for its length" in summary
