"""The action and the workflows: what they are allowed to do, and their scripts, run for real."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.checkout import git
from tests.reports import a_report, a_test, over, write

pytestmark = pytest.mark.pure

ROOT = Path(__file__).parent.parent
ACTION = ROOT / "action.yml"
COMMENT = ROOT / ".github/workflows/graph-budget-comment.yml"
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
EVERY = [ACTION, *WORKFLOWS]

every = pytest.mark.parametrize("path", EVERY, ids=lambda path: path.name)


def read(path: Path) -> dict[Any, Any]:
    data = yaml.safe_load(path.read_text())
    assert isinstance(data, dict)
    return data


def steps(path: Path) -> list[dict[str, Any]]:
    data = read(path)
    if "runs" in data:
        return list(data["runs"]["steps"])
    return [step for job in data["jobs"].values() for step in job["steps"]]


@every
def test_no_expression_is_pasted_into_a_script(path: Path) -> None:
    """A branch may be called ``$(curl evil)``: scripts get such things from the environment."""
    for step in steps(path):
        assert "${{" not in step.get("run", "")


@every
def test_actions_of_others_are_pinned(path: Path) -> None:
    for step in steps(path):
        used = step.get("uses", "./")
        assert used == "./" or re.fullmatch(
            r"(actions/[a-z-]+|pypa/gh-action-pypi-publish)@[0-9a-f]{40}", used
        )


def test_a_job_that_may_write_installs_nothing_that_is_not_pinned() -> None:
    jobs = [job for path in WORKFLOWS for job in read(path)["jobs"].values()]
    writing = [job for job in jobs if "write" in (job.get("permissions") or {}).values()]
    assert len(writing) >= 2  # the comment, the release
    for job in writing:
        for step in job["steps"]:
            if "pip" in step.get("run", "") and "install" in step["run"]:
                assert "--require-hashes" in step["run"]
                assert "--only-binary :all:" in step["run"]  # nothing is built either


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_may_read_and_no_more_unless_they_say_so(path: Path) -> None:
    assert read(path)["permissions"] in ({}, {"contents": "read"})
    for step in steps(path):
        if step.get("uses", "").startswith("actions/checkout"):
            assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_code_of_a_fork_never_meets_a_token_that_writes(path: Path) -> None:
    data = read(path)
    triggers = data[True]  # YAML 1.1 takes `on` for a truth value
    assert "pull_request_target" not in triggers
    if "workflow_run" not in triggers:
        return
    for step in steps(path):
        if step.get("uses", "").startswith("actions/checkout"):
            assert set(step["with"]) == {"persist-credentials"}  # the default branch
        if step.get("uses", "").startswith("actions/download-artifact"):
            assert step["with"]["path"].startswith("${{ runner.temp }}")


def test_the_workflow_uses_the_action() -> None:
    assert any(step.get("uses") == "./" for step in steps(ROOT / ".github/workflows/tests.yml"))


# the scripts


def bash(script: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    bin = str(Path(sys.executable).parent)
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=cwd,
        env={"PATH": f"{bin}{os.pathsep}{os.environ['PATH']}", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def script_of(path: Path, name: str) -> str:
    (found,) = (step["run"] for step in steps(path) if step.get("name") == name)
    return str(found)


class Action:
    """The action's check, run in a checkout with the installed graphbreak."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "pytest.ini").write_text("[pytest]\n")

    def run(self, **inputs: str) -> subprocess.CompletedProcess[str]:
        given = {"REPORTS": "graphs/**/*.json", "AGAINST": "", "BASELINES": "", "PAGES": "pages"}
        given |= {"BASE": "", "ALLOW_MISSING": "false"}
        return bash(
            script_of(ACTION, "Check"),
            self.path,
            GRAPHBREAK=str(Path(sys.executable).parent / "graphbreak"),
            GITHUB_OUTPUT=str(self.path / "output"),
            GITHUB_STEP_SUMMARY=str(self.path / "summary"),
            **(given | inputs),
        )

    @property
    def output(self) -> str:
        return (self.path / "output").read_text()


@pytest.fixture
def action(tmp_path: Path) -> Action:
    return Action(tmp_path)


def test_action_over_budget(action: Action) -> None:
    write(action.path / "graphs/one/graphs.json", a_report(a_test("tests/test_a.py::t", 3)))
    write(action.path / "main.json", a_report(a_test("tests/test_a.py::t", 1)))
    done = action.run(AGAINST="main.json")
    assert done.returncode == 1, done.stderr
    assert action.output == "verdict=1\n"
    assert "3 dynamo graphs, --against allows 1" in done.stdout
    assert "1 test is over its graph budget" in (action.path / "summary").read_text()
    assert sorted(path.name for path in (action.path / "pages").iterdir()) == [
        *("comment.md", "report.html")
    ]


def test_action_within_budget_of_many_reports(action: Action) -> None:
    for number in range(3):
        test = a_test(f"tests/test_a.py::t{number}", 2)
        write(action.path / f"graphs/dir with space/{number}.json", a_report(test))
        write(action.path / f"main/{number}.json", a_report(test))
    done = action.run(AGAINST="main/*.json")
    assert done.returncode == 0, done.stderr
    assert action.output == "verdict=0\n"
    assert "(3 reports): 3 ok" in done.stdout


def test_action_without_a_report_does_not_pass(action: Action) -> None:
    done = action.run()
    assert done.returncode == 2
    assert action.output == "verdict=2\n"
    assert "No report fits" in done.stderr


def test_action_with_nothing_judged_does_not_pass_unless_it_is_asked_to(action: Action) -> None:
    write(action.path / "graphs/one.json", a_report())
    assert action.run().returncode == 2
    assert "No verdict: nothing was judged" in action.run().stdout
    assert action.run(ALLOW_MISSING="true").returncode == 0


def test_action_reads_baselines_where_the_input_says(action: Action) -> None:
    write(action.path / "graphs/one.json", a_report(a_test("tests/test_a.py::t")))
    assert action.run(BASELINES="mine").returncode == 1
    done = bash("graphbreak accept --yes --graph-budget-dir mine graphs/one.json", action.path)
    assert done.returncode == 0, done.stderr
    assert action.run(BASELINES="mine").returncode == 0


GH = """#!{python}
import json, pathlib, sys
here = pathlib.Path({here!r})
args = sys.argv[1:]
with open(here / "calls", "a") as file:
    file.write(json.dumps(args) + "\\n")
if args[:2] == ["run", "download"]:
    place = pathlib.Path(args[args.index("--dir") + 1], "graphs-torch")
    place.mkdir()
    (place / "graphs.json").write_text((here / "graphs.json").read_text())
for word, answer in json.loads((here / "answers").read_text()).items():
    if any(word in arg for arg in args):
        print(answer, end="\\n" if answer else "")
        break
"""


class Gh:
    """A ``gh`` that writes down how it is called; ``answers`` are by what an argument has in it."""

    def __init__(self, path: Path, **answers: str) -> None:
        self.path = path
        self.answers = answers
        self.executable("bin/gh", GH.format(python=sys.executable, here=str(path)))

    def executable(self, name: str, text: str) -> None:
        (self.path / name).parent.mkdir(parents=True, exist_ok=True)
        (self.path / name).write_text(text)
        (self.path / name).chmod(0o755)

    def start(self, script: str, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
        (self.path / "answers").write_text(
            json.dumps({f"/{name}": answer for name, answer in self.answers.items()})
        )
        bin = str(Path(sys.executable).parent)
        path = os.pathsep.join((str(self.path / "bin"), bin, os.environ["PATH"]))
        return bash(script, cwd, PATH=path, GITHUB_REPOSITORY="owner/repo", **environ)

    @property
    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in (self.path / "calls").read_text().splitlines()]


class Poster(Gh):
    """The script that posts the comment."""

    def run(self, head: str = "fork:branch", sha: str = "abc") -> subprocess.CompletedProcess[str]:
        script = script_of(COMMENT, "Post it, or change the one that is there")
        return self.start(script, self.path, RUNNER_TEMP="/runner/temp", HEAD=head, SHA=sha)


@pytest.fixture
def poster(tmp_path: Path) -> Poster:
    return Poster(tmp_path, pulls="7 0ther\n8 abc", comments="")


def test_a_new_comment_is_posted(poster: Poster) -> None:
    done = poster.run()
    assert done.returncode == 0, done.stderr
    last = poster.calls[-1]
    assert "POST" in last
    assert "repos/owner/repo/issues/8/comments" in last
    assert "body=@/runner/temp/comment.md" in last


def test_the_comment_of_before_is_changed(poster: Poster) -> None:
    poster.answers["comments"] = "41\n42"
    assert poster.run().returncode == 0
    last = poster.calls[-1]
    assert "PATCH" in last
    assert "repos/owner/repo/issues/comments/41" in last


def test_a_commit_that_is_no_head_any_more_posts_nothing(poster: Poster) -> None:
    done = poster.run(sha="0lder")
    assert done.returncode == 0
    assert "there is a newer one" in done.stdout
    assert len(poster.calls) == 1


@pytest.mark.parametrize(
    "head", ["fork:$(touch pwned)", "fork:`touch pwned`", 'fork:";touch pwned;"']
)
def test_a_hostile_branch_is_an_argument(head: str, poster: Poster) -> None:
    assert poster.run(head=head).returncode == 0
    assert f"head={head}" in poster.calls[0]
    assert not (poster.path / "pwned").exists()


def test_the_comment_is_rendered_from_data_of_a_fork(tmp_path: Path) -> None:
    write(tmp_path / "graphs/graphs-xla/graphs.json", a_report(over()))
    bin = tmp_path / "graphbreak/bin"
    bin.mkdir(parents=True)
    (bin / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (bin / "python").chmod(0o755)
    script = script_of(COMMENT, "Render the comment")
    output = tmp_path / "output"
    known = {"RUN": "99", "GITHUB_REPOSITORY": "me/net", "GITHUB_OUTPUT": str(output)}
    done = bash(script, ROOT, RUNNER_TEMP=str(tmp_path), **known)
    assert done.returncode == 0, done.stderr
    assert "graphbreak accept --run 99 --repo me/net" in (tmp_path / "comment.md").read_text()
    assert "1 test is over its graph budget" in (tmp_path / "comment.md").read_text()
    assert output.read_text() == "comment=true\n"


def test_a_pull_request_that_uploaded_nothing_is_not_red(tmp_path: Path) -> None:
    output = tmp_path / "output"
    script = script_of(COMMENT, "Render the comment")
    done = bash(script, ROOT, RUNNER_TEMP=str(tmp_path), GITHUB_OUTPUT=str(output), RUN="99")
    assert done.returncode == 0, done.stderr
    assert "uploaded no report" in done.stdout
    assert not output.exists()
    (post,) = (step for step in steps(COMMENT) if step.get("name", "").startswith("Post it"))
    assert post["if"] == "steps.render.outputs.comment == 'true'"


# accepting by a comment

ACCEPT = ROOT / ".github/workflows/graph-budget-accept.yml"


class Accepting(Gh):
    """The script that accepts, with a repository to push to."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        (path / "work").mkdir()
        self.executable("graphbreak/bin/python", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        self.remote = path / "owner/repo"
        git(path, "init", "-q", "--bare", str(self.remote))
        self.git("init", "-q", "-b", "branch", ".")
        # What would be imported if the branch were more than data.
        (path / "work/pytest_graphbreak").mkdir()
        (path / "work/pytest_graphbreak/__init__.py").write_text("raise SystemExit('run')")
        (path / "work/pytest.ini").write_text("[pytest]\n")
        self.git("add", ".")
        self.git("commit", "-qm", "first")
        self.git("push", "-q", str(self.remote), "branch")
        write(path / "graphs.json", a_report(a_test("tests/test_a.py::t", 3)))
        self.answers = {
            "permission": "write",
            "pulls/7": f"{self.git('rev-parse', 'HEAD')}\towner/repo\tbranch",
            "runs": "123456",
        }

    def git(self, *args: str) -> str:
        return git(self.path / "work", *args)

    def run(self, **answers: str) -> subprocess.CompletedProcess[str]:
        self.answers |= answers
        return self.start(
            script_of(ACCEPT, "Accept, commit and push"),
            ROOT,
            GITHUB_SERVER_URL=f"file://{self.path}",
            GITHUB_WORKSPACE=str(ROOT),
            RUNNER_TEMP=str(self.path),
            PYTHONDONTWRITEBYTECODE="1",
            ACTOR="me",
            NUMBER="7",
            WORKFLOW="tests.yml",
            BASELINES="baselines",
            CI="true",
        )

    @property
    def answer(self) -> str:
        """What was said on the pull request."""
        assert "repos/owner/repo/issues/7/comments" in self.calls[-1]
        return str(self.calls[-1][-1])


@pytest.fixture
def accepting(tmp_path: Path) -> Accepting:
    return Accepting(tmp_path)


def test_a_comment_accepts_and_pushes(accepting: Accepting) -> None:
    done = accepting.run()
    assert done.returncode == 0, done.stderr
    show = git(accepting.remote, "show", "--format=%an%n%s%n%b", "branch")
    assert show.startswith("github-actions[bot]\nAccept the graphs of run 123456\nAsked for by me")
    assert "+    graphs: {dynamo: 3}" in show
    assert "Accepted the graphs of run 123456: " in accepting.answer
    assert "1 file changed" in accepting.answer


@pytest.mark.parametrize(
    ("answers", "reported"),
    [
        ({"permission": "read"}, "takes a person who may write"),
        ({"runs": ""}, "no finished run of tests.yml"),
        ({"pulls/7": "abc\tfork/repo\tbranch"}, "graphbreak accept --run 123456 --repo owner/repo"),
        ({"pulls/7": "abc\towner/repo\tbranch"}, "The branch went on"),
    ],
)
def test_what_cannot_be_accepted_is_said(
    accepting: Accepting, answers: dict[str, str], reported: str
) -> None:
    before = git(accepting.remote, "rev-parse", "branch")
    assert accepting.run(**answers).returncode == 1
    assert reported in accepting.answer
    assert git(accepting.remote, "rev-parse", "branch") == before


def test_a_report_that_is_none_accepts_nothing(accepting: Accepting) -> None:
    (accepting.path / "graphs.json").write_text("{}")
    done = accepting.run()
    assert done.returncode == 1
    assert "run 123456/graphs-torch/graphs.json: version" in done.stdout
    assert "Nothing was accepted" in accepting.answer
