"""``graphbreak accept --run``: through a ``gh`` that is a script of the test."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Workspace
from tests.conftest import GITHUB
from tests.reports import a_report, a_test, over

pytestmark = pytest.mark.pure

T = "tests/test_a.py::test_b"
STUB = """#!{python}
import json, os, pathlib, sys
pathlib.Path({reported!r}).write_text(json.dumps([sys.argv[1:], os.environ["GH_PROMPT_DISABLED"]]))
if {code}:
    print({words!r}, file=sys.stderr)
    sys.exit({code})
place = pathlib.Path(sys.argv[sys.argv.index("--dir") + 1], "graphs-n150")
place.mkdir()
(place / "graphs.json").write_text({report!r})
"""


@pytest.fixture
def gh(workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gh:
    return Gh(tmp_path / "bin", monkeypatch)


class Gh:
    """A ``gh`` on the PATH, and nothing else there."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        place.mkdir()
        self.place = place
        monkeypatch.setenv("PATH", str(place))

    def says(self, report: object = None, code: int = 0, words: str = "") -> None:
        script = self.place / "gh"
        text = json.dumps(report)
        reported = str(self.place / "reported.json")
        script.write_text(
            STUB.format(
                python=sys.executable, reported=reported, code=code, words=words, report=text
            )
        )
        script.chmod(0o755)

    @property
    def asked(self) -> list[str]:
        asked, silent = json.loads((self.place / "reported.json").read_text())
        assert silent == "1"
        at = asked.index("--dir")
        assert not os.path.exists(asked[at + 1])  # nothing is left
        return [*asked[:at], *asked[at + 2 :]]


def test_the_reports_of_a_run(workspace: Workspace, gh: Gh) -> None:
    gh.says(a_report(a_test(T, 2)))
    said = workspace.run("accept", "--run", "123456", "--repo", "me/net", "--yes")
    assert said.code == 0, said.err
    assert gh.asked == ["run", "download", "123456", "--pattern", "graphs*", "--repo", "me/net"]
    assert "graphs: {dynamo: 2}" in workspace.baseline()


def test_the_page_of_a_run_as_it_stands_in_the_browser(workspace: Workspace, gh: Gh) -> None:
    gh.says(a_report(a_test(T, 2)))
    page = "https://github.com/me/net/actions/runs/123456/job/7?pr=1"
    assert workspace.run("accept", "--run", page, "--yes", "--artifact", "counts").code == 0
    assert gh.asked == ["run", "download", "123456", "--pattern", "counts", "--repo", "me/net"]
    for host in ("git.example.org", "git.example.org:8443"):
        own = page.replace("github.com", host)
        assert workspace.run("accept", "--run", own, "--dry-run").code == 0
        assert gh.asked[-1] == f"{host}/me/net"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (4, "To get started with GitHub CLI, please run:  gh auth login"),
        (1, "no artifact matches any of the names or patterns provided"),
    ],
)
def test_what_gh_cannot_do_is_said_in_its_words(
    workspace: Workspace, gh: Gh, code: int, words: str
) -> None:
    gh.says(code=code, words=words)
    said = workspace.run("accept", "--run", "1", "--repo", "me/net", "--yes", code=2)
    assert (
        "gh could not download artifacts of run 1 of me/net whose name fits 'graphs*'" in said.err
    )
    assert words in said.err
    assert "graphbreak accept FILE.zip" in said.err
    assert "Traceback" not in said.err


def test_without_gh_the_next_step_is_said(workspace: Workspace, gh: Gh) -> None:
    said = workspace.run("accept", "--run", "1", code=2)
    assert "--run needs GitHub's command line `gh`" in said.err
    assert "graphbreak accept FILE.zip" in said.err


@pytest.mark.parametrize(
    ("args", "reported"),
    [
        (["--run", "latest"], "'latest' is not the number of a run"),
        (["--run", "1", "--repo=-x"], "is not OWNER/NAME"),
        (["--run", "https://github.com/me/net/actions/runs/1", "--repo", "net"], "'net' is not"),
        (["--run", "1", "graphs.json"], "name the reports, or the run"),
        ([], "name the reports, or the run"),
    ],
)
def test_what_names_no_run(workspace: Workspace, gh: Gh, args: list[str], reported: str) -> None:
    gh.says(a_report())
    said = workspace.run("accept", *args, code=2)
    assert reported in said.err
    assert not (gh.place / "reported.json").exists()


def test_a_report_that_is_none_is_named_by_its_run(workspace: Workspace, gh: Gh) -> None:
    gh.says({})
    said = workspace.run("accept", "--run", "17", "--yes", code=2)
    assert "run 17/graphs-n150/graphs.json: version" in said.err


@pytest.mark.parametrize("page", ["comment.md", None])
def test_check_on_github_prints_the_line(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, page: str | None
) -> None:
    workspace.report("one.json", a_report(over(T, 1, 3)))
    (workspace.path / "baselines").mkdir()
    for name, value in GITHUB.items():
        monkeypatch.setenv(name, value)
    line = "graphbreak accept --run 123456 --repo tenstorrent/tt-xla"
    if page is None:
        assert workspace.run("check", "one.json").out.endswith(f"{line}\n")
        return
    workspace.run("check", "one.json", "--markdown", page)
    assert f"\n```sh\n{line}\n```\n" in Path(page).read_text()
    # A workflow that comments is another run than the one that measured.
    workspace.run("report", "one.json", "--markdown", page)
    assert "--run" not in Path(page).read_text()
    workspace.run("report", "one.json", "--markdown", page, "--of-run", "98")
    assert f"\n```sh\n{line.replace('123456', '98')}\n```\n" in Path(page).read_text()
    address = "https://github.com/me/net/actions/runs/98"
    workspace.run("report", "one.json", "--markdown", page, "--of-run", address)
    assert "accept --run 98 --repo me/net" in Path(page).read_text()
