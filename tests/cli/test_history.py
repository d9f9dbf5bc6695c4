"""``graphbreak history``: on the terminal, and as a page in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pytest_graphbreak.cli import history
from pytest_graphbreak.cli.history import sparkline
from pytest_graphbreak.runs.history import Commit, Point, Series, read
from tests.cli.conftest import Workspace
from tests.report import browser
from tests.report.browser import Browser
from tests.runs.test_history import Repository


@pytest.fixture
def repository(workspace: Workspace) -> Repository:
    found = Repository(workspace.path)
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


@contextmanager
def history_page(workspace: Workspace, width: int | None = None) -> Iterator[Browser]:
    """The page of the history in a browser; the test is skipped where there is none."""
    path = browser.find()
    if path is None:
        pytest.skip("no Chromium here (Debian's package is chromium)")
    assert workspace.run("history", "--html", "history.html").code == 0
    with Browser(path) as page:
        if width is not None:
            page.looks(width=width)
        page.open(workspace.path / "history.html")
        yield page


def test_when_and_by_which_commit(workspace: Workspace, repository: Repository) -> None:
    said = workspace.run("history")
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


def test_what_each_commit_moved(workspace: Workspace, repository: Repository) -> None:
    said = workspace.run("history", "--by", "commit")
    assert said.code == 0
    blocks = [block.split("\n") for block in said.out.strip().split("\n\n")]
    assert [block[0].split("  ", 2)[2] for block in blocks[:2]] == [
        "Record the baselines",
        "Bump transformers",
    ]
    assert blocks[0][1:] == ["  2 tests recorded"]
    assert blocks[1][1:] == ["  dynamo 1 -> 4, xla 2 -> 5  tests/test_models.py::test_yolo   cpu"]
    assert blocks[-1] == ["2 commits moved 1 test"]
    assert all(line.isprintable() for line in said.out.split("\n"))
    only = workspace.run("history", "--by", "commit", "--tests", "test_bert").out
    assert "Bump transformers" not in only
    assert only.endswith("1 test recorded\n\n0 commits moved 0 tests\n")


def test_only_some_tests(workspace: Workspace, repository: Repository) -> None:
    assert "0 tests moved, 1 never did" in workspace.run("history", "--tests", "test_bert").out


def test_no_history_is_reported(workspace: Workspace) -> None:
    said = workspace.run("history")
    assert said.code == 2
    assert "there are no baselines here" in said.err


def test_sparkline_goes_from_low_to_high() -> None:
    commit = Commit("a", 0, "", "")
    points = [Point(commit, {"dynamo": count}) for count in (0, 1, 7)]
    assert sparkline(Series("t", "p", [*points, Point(commit, None)])) == "▁▂█▁"


def test_plots_are_legible_on_a_phone_and_part_commits_of_one_day(workspace: Workspace) -> None:
    repository = Repository(workspace.path)
    for count in range(1, 9):
        repository.put(f"  test_a:\n    graphs: {{dynamo: {count}}}\n")
        repository.day = 0  # of one day, all of them
        repository.commit(f"commit {count}")
    with history_page(workspace, width=390) as page:
        sizes = (
            "[...document.querySelectorAll('#list svg')].map((node) =>"
            " node.getBoundingClientRect().width / node.viewBox.baseVal.width)"
        )
        assert page.run(sizes) == [1]  # a label of 12 pixels has 12 pixels
        inside = (
            "[...document.querySelectorAll('#list svg text')].every((node) =>"
            " node.getBoundingClientRect().right <= 390 && node.getBoundingClientRect().left >= 0)"
        )
        assert page.run(inside)
        across = (
            "[...document.querySelectorAll('#list circle')].map((node) => node.cx.baseVal.value)"
        )
        places = page.run(across)
        assert len({round(place) for place in places}) == 8
        page.looks(width=1280)
        page.settle()
        assert page.run(across)[-1] > places[-1]
        assert page.run(sizes) == [1]


def test_the_page_plots_what_moved(workspace: Workspace, repository: Repository) -> None:
    with history_page(workspace) as page:
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
        page.choose("view", "commits")
        titles = page.run(names)
        assert titles[1:] == ["Bump transformers", "Record the baselines"]
        cells = "[...document.querySelectorAll('#list td')].map((node) => node.textContent)"
        assert page.run(cells)[3:] == [
            "dynamo 1 \u2192 4, xla 2 \u2192 5",
            "tests/test_models.py::test_yolo",
            "cpu",
        ]
        page.looks(width=320)
        assert page.run("document.documentElement.scrollWidth") <= 320
        page.choose("view", "tests")
        assert page.run("document.documentElement.scrollWidth") <= 320
        assert page.faults() == []


@pytest.fixture
def story(workspace: Workspace) -> Repository:
    """A commit that broke forty tests at one place, and one that fixed half of them."""
    found = Repository(workspace.path)
    entry = "  test_m:\n    cases:\n"
    broken = (
        "{graphs: {dynamo: 2}, breaks: [{id: GB0124, reason: item, where: 'bart.py::Decoder.f', "
        "code: 'if mask.any():', count: 3}]}"
    )
    for number, subject in enumerate(("Record", "Bump transformers", "Fix half")):
        cases = [
            broken if number == 1 or (number == 2 and case % 2) else "{graphs: {dynamo: 1}}"
            for case in range(40)
        ]
        text = "".join(f"      c{case}: {values}\n" for case, values in enumerate(cases))
        found.put(entry + text, "tests/test_models.yaml")
        found.commit(subject)
    found.git("config", "remote.origin.url", "git@github.com:o/n.git")
    return found


CAUSE, PLACE = "GB0124  item", "bart.py::Decoder.f   if mask.any():"


def test_each_step_says_which_causes_moved(workspace: Workspace, story: Repository) -> None:
    one = workspace.run("history", "--tests", "c0").out.split("\n")
    assert one[2].endswith("dynamo 1 -> 2             Bump transformers")
    assert one[3:5] == [f"      + {CAUSE}", f"          {PLACE}"]
    assert one[6:8] == [f"      - {CAUSE}", f"          {PLACE}"]
    commits = workspace.run("history", "--by", "commit").out.split("\n")
    assert commits[commits.index(f"  + {CAUSE}   40 tests") + 1] == f"      {PLACE}"
    assert f"  - {CAUSE}   20 tests" in commits


def test_the_page_leads_from_a_step_to_its_commit_and_causes(
    workspace: Workspace, story: Repository
) -> None:
    with history_page(workspace) as page:
        page.run("document.querySelector('#list details').open = true")
        reported = "[...document.querySelectorAll('#list li:first-child .shift b')].length"
        assert page.run(reported) in (1, 2)  # of the tests that stayed broken, or of the fixed ones
        page.run("document.querySelectorAll('#list li:first-child td a')[1].click()")
        page.settle()
        assert page.run("document.getElementById('view').value") == "commits"
        assert page.run("document.querySelector('#commit-1 h2').textContent") == "Bump transformers"
        shift = page.run("document.querySelector('#commit-1 .shift').innerText")
        assert shift.startswith("+ GB0124 item")
        assert "40 tests" in shift
        link = page.run("document.querySelector('#commit-1 .tally a').href")
        commit = story.git("rev-parse", "HEAD~1").strip()
        assert link == f"https://github.com/o/n/commit/{commit}"
        page.looks(width=320)
        assert page.run("document.documentElement.scrollWidth") <= 320
        assert page.faults() == []


@pytest.fixture
def slower(workspace: Workspace) -> Repository:
    """Two tests whose graphs never moved; one of them runs more often."""
    found = Repository(workspace.path)
    for number, (executions, reads) in enumerate(((3, 2), (36, 2), (36, 0))):
        found.put(
            "  test_quiet:\n    graphs: {xla: 1}\n    executions: {xla: 5}\n"
            f"  test_step:\n    graphs: {{xla: 1}}\n    executions: {{xla: {executions}}}\n"
            + (f"    reads: {{xla: {reads}}}\n" if reads else "")
        )
        found.commit(f"commit {number}")
    return found


def test_what_runs_moves_where_graphs_do_not(workspace: Workspace, slower: Repository) -> None:
    lines = workspace.run("history").out.split("\n")
    assert lines[0] == "test_a.py::test_step   cpu   ▂██"
    assert [" ".join(line.split()[2:]) for line in lines[1:4]] == [
        "xla 1 commit 0",
        "xla 1, xla executions 3 -> 36 commit 1",
        "xla 1, xla reads 2 -> 0 commit 2",
    ]
    assert lines[-2] == "1 test moved, 1 never did"
    commits = workspace.run("history", "--by", "commit").out
    assert "  xla 1, xla executions 3 -> 36  test_a.py::test_step   cpu" in commits
    assert commits.endswith("2 commits moved 1 test\n")


def test_the_page_plots_what_runs(workspace: Workspace, slower: Repository) -> None:
    with history_page(workspace) as page:
        labels = (
            "[...document.querySelectorAll('#list svg')]"
            ".map((node) => node.getAttribute('aria-label').replace(/[-0-9]{10} /g, ''))"
        )
        assert page.run(labels) == [
            "2 changes: xla 1; xla 1; xla 1",
            "2 changes: xla 3; xla 36; xla 36",
            "2 changes: xla 2; xla 2; no reads",
        ]
        page.run("document.querySelectorAll('details').forEach((node) => { node.open = true; })")
        assert "xla 1, xla executions 3 → 36, xla reads 2" in page.run(
            "document.querySelector('#list table').textContent"
        )
        page.choose("view", "commits")
        cells = "[...document.querySelectorAll('#list td:first-child')].map((node) =>"
        cells += " [node.className, node.textContent])"
        assert page.run(cells) == [
            ["better", "xla 1, xla reads 2 → 0"],
            ["worse", "xla 1, xla executions 3 → 36"],
        ]
        page.looks(width=320)
        assert page.run("document.documentElement.scrollWidth") <= 320
        assert page.faults() == []


def test_a_cause_is_named_as_its_commit_named_it(workspace: Workspace) -> None:
    """A newer torch calls the same place by another id."""
    repository = Repository(workspace.path)
    entry = "  test_m: {graphs: {dynamo: 2}, breaks: [{id: %s, where: 'm.py::f', code: x}]}\n"
    for number, id in enumerate(("GB0156", "", "GB4347", "")):
        repository.put(entry % id if id else "  test_m: {graphs: {dynamo: 1}}\n")
        repository.commit(f"commit {number}")
    data = history.page_data(read(repository.directory))
    names = [place["name"] for place in data["places"]]
    (series,) = data["series"]
    steps = [
        [(names[one["place"]], one["was"], one["now"]) for one in point["shifts"]]
        for point in series["points"]
    ]
    assert steps == [[], [("GB0156", 1, 0)], [("GB4347", 0, 1)], [("GB4347", 1, 0)]]
