"""The command itself, without a subcommand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_graphbreak.cli import COMMANDS, main

pytestmark = pytest.mark.pure


def test_alone_it_lists_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    shown = capsys.readouterr()
    assert not shown.out
    words = shown.err.split()
    places = [
        words.index(word) for word in ("judge:", "accept", "look:", "analyze", "mend:", "prove")
    ]
    assert places == sorted(places)
    assert [name for name in COMMANDS if name not in words] == []


def test_a_command_that_is_misspelt_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["chek", "graphs.json"])
    assert ended.value.code == 2
    assert "invalid choice: 'chek'; did you mean 'check'?" in capsys.readouterr().err


def test_every_command_has_its_chapter_in_the_reference() -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "commands.md"
    chapters = re.findall(r"^## (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(chapters) == sorted(COMMANDS), "docs/reference/commands.md: a chapter for each"
