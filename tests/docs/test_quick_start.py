"""README's quick start, typed in a terminal of 80 columns: what it shows, in colour, no more."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests import terminal
from tests.docs.tools import ROOT, blocks, insert, write_files

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None, reason="the quick start compiles with torch"
    ),
]

README = list(blocks(ROOT / "README.md"))
PYTEST = ("python", "-m", "pytest", "-p", "no:cacheprovider")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The README's project as it is at first."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    write_files(ROOT / "README.md", tmp_path)
    return tmp_path


def broken(project: Path) -> None:
    """Record the project, then make the README's edit."""
    terminal.run([*PYTEST, "--graph-budget-record"], project)
    for block in README:
        if block.word == "insert":
            insert(block, project)


@pytest.mark.usefixtures("forks")
def test_the_failure_at_the_top_is_the_one_that_comes(project: Path) -> None:
    broken(project)
    # As wide as the README shows it, which does not break lines.
    seen = terminal.run([*PYTEST, "--graph-budget"], project, columns=200)
    shown = next(block for block in README if block.text.startswith("graph budget:")).text
    assert shown in seen.text.replace("\r\n", "\n")


@pytest.mark.parametrize(
    ("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_a_command_in_a_terminal(
    project: Path, environment: dict[str, str], coloured: bool
) -> None:
    seen = terminal.run(["graphbreak", "explain", "item"], project, environment, columns=60)
    assert seen.code == 0
    assert ("\x1b[1mWhat it means\x1b[0m" in seen.raw) is coloured
    meaning = seen.lines[seen.lines.index("What it means") + 1]
    assert 30 < len(meaning) <= 60
