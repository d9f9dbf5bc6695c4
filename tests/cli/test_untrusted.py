"""The matrix of outputs and malicious texts: each text shows itself, and does nothing anywhere.

What a browser and a parser of Markdown make of them is in ``tests/report``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

import pytest

from pytest_graphbreak.config.settings import Settings
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.report import github, summary
from pytest_graphbreak.report.lines import measured_with
from pytest_graphbreak.text.output import plain_text
from tests.cli.conftest import Workspace
from tests.reports import a_break, a_report, a_test, as_tests, over
from tests.untrusted import STRINGS, everywhere

pytestmark = pytest.mark.pure

TEXTS: Final = (*STRINGS, "x\ndiff --git a/x b/x\n--- a/x\n+++ b/x", "--- x", "a\nb\x1b[31m")
NODEID: Final = "tests/test_a.py::test_b"
Sink = Callable[[str, Workspace], str]


def prints(*typed: str) -> Sink:
    """What a command prints of a report that is full of a text."""

    def sink(text: str, workspace: Workspace) -> str:
        said = workspace.run(*typed)
        assert "Traceback" not in said.err
        return said.out + said.err

    return sink


def writes(page: str, *typed: str) -> Sink:
    """The page that a command writes of such a report."""

    def sink(text: str, workspace: Workspace) -> str:
        assert workspace.run(*typed, page).code in (0, 1)
        return (workspace.path / page).read_text()

    return sink


def summed_up(text: str, workspace: Workspace) -> str:
    outcome = summary.Outcome(
        "cpu", Settings(workspace.path, workspace.path / "baselines", gate=True)
    )
    outcome.tests, outcome.faults = as_tests(over(f"t.py::test[{text}]")), [text]
    outcome.unmeasured = [text]
    return plain_text((*summary.lines(outcome), *measured_with(Record(settings={text: text}))))


LINES: Final[dict[str, Sink]] = {
    "check": prints("check", "bad.json"),
    "check --against": prints("check", "bad.json", "--against", "mild.json"),
    "report": prints("report", "bad.json"),
    "accept": prints("accept", "--yes", "bad.json"),
    "explain": prints("explain", "bad.json"),
    "explain --json": prints("explain", "--json", "bad.json"),
    "compare": prints("compare", "mild.json", "bad.json"),
    "compare, and it is gone": prints("compare", "bad.json", "mild.json"),
    "compare, both": prints("compare", "bad.json", "bad.json"),
    "summary": summed_up,
}
"""What ends on a terminal, or in the log of CI."""

PAGES: Final[dict[str, Sink]] = {
    "comment": writes("c.md", "report", "bad.json", "--markdown"),
    "comment of a check": writes("c.md", "check", "bad.json", "--markdown"),
    "comment of a comparison": writes("c.md", "compare", "mild.json", "bad.json", "--markdown"),
    "page": writes("p.html", "report", "bad.json", "--html"),
}


@pytest.fixture(params=range(len(TEXTS)))
def text(request: pytest.FixtureRequest, workspace: Workspace) -> str:
    """A malicious text, in every place of ``bad.json``; ``mild.json`` has the same tests."""
    text = TEXTS[request.param]
    report = a_report(everywhere(text, NODEID), unmeasured=[text[:3000]], stale=[text[:3000]])
    report["tests"][0] |= {"errors": [], "ungated": None}
    workspace.report("bad.json", json.loads(json.dumps(report)))
    workspace.report("mild.json", a_report(a_test(NODEID)))
    return text


def test_no_line_is_obeyed(text: str, workspace: Workspace) -> None:
    for name, sink in LINES.items():
        for line in sink(text, workspace).split("\n"):
            assert line.isprintable(), name
            assert not line.lstrip().startswith("::"), name
            assert "##[" not in line, name


def test_an_annotation_is_one_command_with_properties_of_ours(
    text: str, workspace: Workspace
) -> None:
    (command,) = github.annotations(as_tests(everywhere(text)), workspace.path)
    assert command.isprintable()
    assert command.startswith("::error file=tests/test_a.py,")
    properties = command.removeprefix("::error ").partition("::")[0].split(",")
    assert {name.partition("=")[0] for name in properties} <= {"file", "line", "title"}


def test_no_page_runs_it(text: str, workspace: Workspace) -> None:
    (workspace.path / "baselines").mkdir()
    for name, sink in PAGES.items():
        page = sink(text, workspace)
        is_html = page.startswith("<!doctype")
        assert page.count("<script") == (2 if is_html else 0), name
        for evil in ("<img src=x", "<svg onload", *(() if is_html else ("@octocat", "${"))):
            assert evil not in page, name


def test_a_baseline_holds_it_as_text(text: str, workspace: Workspace) -> None:
    """It is written once and read back: then there is nothing left to accept."""
    case = "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)[:300]
    where = {"file": "a.py", "function": text, "line": 1, "code": text}
    found = [a_break(where, reason=text, id=text)]
    workspace.report("one.json", a_report(a_test(f"tests/test_a.py::t[{case}]", 2, breaks=found)))
    assert workspace.run("accept", "--yes", "one.json").code == 0
    assert workspace.run("check", "one.json").code in (0, 1)
    assert "Nothing to write" in workspace.run("accept", "--yes", "one.json").out
