"""The demo says what it must, and fails where the gate does not catch the break."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from demo import show
from tests import terminal

pytest.importorskip("transformers")
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch_xla") is None, reason="the demo runs on torch_xla"
)


@pytest.mark.nightly  # the demo with its break is red by day
@pytest.mark.usefixtures("xla_forks")
def test_without_a_break_the_second_half_fails(tmp_path: Path) -> None:
    assert not show.red(tmp_path, planted=show.WAS)


@pytest.mark.usefixtures("xla_forks")
def test_a_test_that_is_not_there_is_not_green(tmp_path: Path) -> None:
    assert not show.green(("tests/models/test_ranker.py::test_no_such_test",), tmp_path)


@pytest.mark.usefixtures("xla_forks")
def test_a_planted_break_is_red_on_a_terminal(tmp_path: Path) -> None:
    """With colours pytest's log has other lines: none of them may follow our text."""
    code = "import pathlib, sys; from demo import show\n"
    code += "sys.exit(not show.red(pathlib.Path(sys.argv[1])))"
    seen = terminal.run([sys.executable, "-c", code, str(tmp_path)], show.ROOT)
    assert seen.code == 0, seen.text
    assert "GB0124" in seen.text
    assert "if scores.max().item() > self.limit:" in seen.text
    source = (Path(__file__).parents[1] / "models" / "ranker.py").read_text().splitlines()
    (line,) = (n for n, text in enumerate(source, 1) if "scores.clamp(" in text)
    assert f"tests/models/ranker.py:{line} in Ranker.forward" in seen.text
    assert "\x1b[31m\x1b[1mgraph budget: " in seen.raw
    assert "torch.__trace" not in seen.text
    first = next(n for n, line in enumerate(seen.lines) if line.startswith("graph budget: "))
    last = next(n for n, line in enumerate(seen.lines) if line.startswith("  accept    "))
    prose = [line for line in seen.lines[first:last] if not line.startswith(" " * 10)]
    assert max(map(len, prose)) <= 80
