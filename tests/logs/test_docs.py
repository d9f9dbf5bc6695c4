"""The example of the page about logs is what the command prints today."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_graphbreak.cli import main
from pytest_graphbreak.layers.tt.variables import WANTED

pytestmark = pytest.mark.pure

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = Path(__file__).parent / "data" / "example"
PAGE = (ROOT / "docs" / "how-to" / "analyze-a-log.md").read_text()
HARDWARE = (ROOT / "docs" / "how-to" / "tt-hardware.md").read_text()


def test_the_example_is_what_the_command_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(EXAMPLE)
    assert main(["analyze", "run.log"]) == 0
    (shown,) = re.findall(r"```text\n(.*?)```", PAGE, re.S)
    assert shown.strip() == capsys.readouterr().out.strip()


def test_the_command_of_the_page_is_the_one_that_analyze_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "empty.log"
    log.write_text("")
    assert main(["analyze", str(log)]) == 0
    said = capsys.readouterr().out
    commands = re.findall(r"^\$ (TTXLA_LOGGER_LEVEL=.*)$", PAGE, re.M)
    assert commands
    for command in commands:
        assert command.replace("your_script.py", "YOUR_SCRIPT.py") in said


def test_the_hardware_page_names_every_variable() -> None:
    assert HARDWARE.startswith("# On TT hardware\n")
    for name in (*WANTED["full"], "TTXLA_LOGGER_FILE", "TT_COMPILE_ONLY_SYSTEM_DESC"):
        assert f"`{name}" in HARDWARE
