"""README's quick start, typed in a terminal of 80 columns: what it shows, in colour, no more."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests import terminal
from tests.docs.test_examples import ROOT, blocks

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch_xla") is None, reason="the quick start shows torch_xla"
)

CODE_OR_COMMAND = (" " * 10, "  accept ", "next ", ">", "E ", "FAILED ")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The README's project as it is at first, with the line that is added later beside it."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    for block in blocks(ROOT / "README.md"):
        if block.word == "file":
            path = tmp_path / block.what
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                path = path.with_suffix(".later")
            path.write_text(block.text)
    return tmp_path


@pytest.mark.usefixtures("xla_forks")
def test_in_a_terminal(project: Path) -> None:
    pytest_ = ["python", "-m", "pytest", "-p", "no:cacheprovider"]
    terminal.run([*pytest_, "--graph-budget-record"], project)
    (project / "yolo" / "head.later").rename(project / "yolo" / "head.py")
    seen = terminal.run([*pytest_, "--graph-budget"], project)
    assert seen.code == 1, seen.text
    assert "\x1b[31m\x1b[1mgraph budget: 3 xla graphs" in seen.raw
    assert "torch.__trace" not in seen.text
    ours = seen.lines[
        seen.lines.index(next(x for x in seen.lines if x.startswith("graph budget:"))) :
    ]
    ours = ours[: next(n for n, line in enumerate(ours) if line.startswith("  accept    "))]
    assert max(len(line) for line in ours if not line.startswith(CODE_OR_COMMAND)) <= 80
    assert "      try: keep the value a tensor, or" in ours
    assert "           torch._dynamo.config.capture_scalar_outputs = True" in ours


@pytest.mark.usefixtures("xla_forks")
def test_without_colour(project: Path) -> None:
    pytest_ = ["python", "-m", "pytest", "-p", "no:cacheprovider"]
    seen = terminal.run([*pytest_, "--graph-budget"], project, {"NO_COLOR": "1"})
    assert seen.code == 1
    assert "\x1b[" not in seen.raw
    assert "graph budget: no baseline for this test (1 dynamo graph, 1 xla graph)" in seen.text


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
