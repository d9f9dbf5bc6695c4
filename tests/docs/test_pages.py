"""No page says a thing twice in a row, and no section is empty."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.pure

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCED = re.compile(r"^( *)```.*?^\1```$", re.M | re.S)
LONG = 50
NEAR = 4
LIKE = 0.94


def _prose(page: Path) -> str:
    return FENCED.sub("", page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_heading_has_a_text(page: Path) -> None:
    assert not re.findall(r"^(#+) [^\n]*\n\s*^\1 .*$", _prose(page), re.M)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_nothing_is_said_twice_in_a_row(page: Path) -> None:
    lines = [line for line in _prose(page).split("\n") if len(line) >= LONG and line[0] != "|"]
    for at, line in enumerate(lines):
        for other in lines[at + 1 : at + NEAR]:
            alike = difflib.SequenceMatcher(None, line, other)
            assert alike.quick_ratio() < LIKE or alike.ratio() < LIKE, (line, other)


def test_the_documentation_stays_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 130
    words = sum(len(page.read_text(encoding="utf-8").split()) for page in PAGES)
    assert words <= 40_000, "say it in one place, and link to it"
