"""``graphbreak history``: on the terminal, and as a page in a real browser."""

from __future__ import annotations

import pytest

from pytest_graphbreak.commands.history import sparkline
from pytest_graphbreak.history import Commit, Point, Series
from tests.commands.conftest import Desk
from tests.report import browser
from tests.report.browser import Browser
from tests.test_history import Repository


@pytest.fixture
def repository(desk: Desk) -> Repository:
    found = Repository(desk.path)
    for yolo, bert, subject in (
        (1, 1, "Record the baselines"),
        (4, 1, "Bump transformers"),
        (2, 1, "::error::</script><script>window.pwned = 1</script> \x1b[31m @octocat"),
    ):
        found.put(
            f"  test_yolo:\n    graphs: {{dynamo: {yolo}, xla: {yolo + 1}}}\n"
            f"  test_bert:\n    graphs: {{dynamo: {bert}}}\n",
            "tests/test_models.yaml",
        )
        found.commit(subject)
    return found


def test_when_and_by_which_commit(desk: Desk, repository: Repository) -> None:
    said = desk.run("history")
    assert said.code == 0
    lines = said.out.split("\n")
    assert lines[0] == "tests/test_models.py::test_yolo   cpu   ▄█▅"
    assert "dynamo 1, xla 2 " in lines[1]
    assert lines[1].endswith("Record the baselines")
    assert "dynamo 1 -> 4, xla 2 -> 5" in lines[2]
    assert lines[2].endswith("Bump transformers")
    assert "dynamo 4 -> 2, xla 5 -> 3" in lines[3]
    assert lines[-2] == "1 test moved, 1 never did"
    assert all(line.isprintable() for line in lines)


def test_only_some_tests(desk: Desk, repository: Repository) -> None:
    assert "0 tests moved, 1 never did" in desk.run("history", "--tests", "test_bert").out


def test_no_history_is_told(desk: Desk) -> None:
    said = desk.run("history")
    assert said.code == 2
    assert "there are no baselines here" in said.err


def test_sparkline_goes_from_low_to_high() -> None:
    commit = Commit("a", 0, "", "")
    points = [Point(commit, {"dynamo": count}) for count in (0, 1, 7)]
    assert sparkline(Series("t", "p", [*points, Point(commit, None)])) == "▁▂█▁"


def test_the_page_plots_what_moved(desk: Desk, repository: Repository) -> None:
    path = browser.find()
    if path is None:
        pytest.skip("no Chromium here (Debian's package is chromium)")
    assert desk.run("history", "--html", "history.html").code == 0
    with Browser(path) as page:
        page.open(desk.path / "history.html")
        names = "[...document.querySelectorAll('#list h2')].map((node) => node.firstChild.data)"
        assert page.run(names) == ["tests/test_models.py::test_yolo"]
        assert page.run("document.querySelectorAll('#list path').length") == 2
        assert page.run("document.querySelectorAll('#list circle').length") == 6
        label = page.run("document.querySelector('#list svg').getAttribute('aria-label')")
        assert label.startswith("2 changes: 2026-01-0")
        assert "dynamo 4, xla 5" in label
        page.run("document.getElementById('still').click()")
        assert len(page.run(names)) == 2
        page.run("document.querySelectorAll('details').forEach((node) => { node.open = true; })")
        assert "::error::</script><script>" in page.run("document.body.textContent")
        assert page.run("window.pwned === undefined")
        assert page.run("document.querySelectorAll('script').length") == 2
        page.looks(width=320)
        assert page.run("document.documentElement.scrollWidth") <= 320
        assert page.faults() == []
