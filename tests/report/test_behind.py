"""The lines that changed since the baseline, below the first entry of a failure."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_graphbreak.judging.verdict import Verdict
from pytest_graphbreak.model.record import Frame, Record
from pytest_graphbreak.report.footer import ChangedLine, SourceLines
from pytest_graphbreak.report.text import with_changed
from pytest_graphbreak.text.output import TextLine

pytestmark = pytest.mark.pure

EDITED = Frame("data.py", "batches", 31, "yield x[:3]")


class OneEdit(SourceLines):
    """Source lines of a checkout where one line was edited."""

    def changed_lines(self, near: Sequence[Frame]) -> tuple[str, tuple[ChangedLine, ...]]:
        return "1a2b3c4d5e", (ChangedLine(EDITED),)


def entries(*lines: TextLine) -> list[str]:
    return [str(one) for one in with_changed(lines, Verdict("over"), Record(), OneEdit())]


LOST = TextLine("net.py:3 in f is no longer reached", "lost", 2, "- ")
GONE = TextLine("entry   gone", "gone", 2, "- ")
NEW = TextLine("recompile 0/1", "new", 2, "+ ")
BREAK = TextLine("Skip inlining", "new", 2, "+ GB0099  ")
PLACE = TextLine("net.py:4 in f", indent=6)
CHANGED = [
    "      changed since the baseline (1a2b3c4d5e): data.py:31 in batches",
    "          yield x[:3]",
]


def test_they_end_the_first_entry_before_the_next_of_any_sign() -> None:
    assert entries(LOST, PLACE, GONE) == [str(LOST), str(PLACE), *CHANGED, str(GONE)]
    assert entries(NEW, PLACE, BREAK) == [str(NEW), str(PLACE), *CHANGED, str(BREAK)]
    assert entries(LOST, NEW, PLACE) == [str(LOST), str(NEW), str(PLACE), *CHANGED]


def test_they_are_left_out_if_the_entry_has_one_of_them_or_there_is_no_entry() -> None:
    same = TextLine("made in data.py:31 in batches", indent=6)
    assert entries(NEW, same) == [str(NEW), str(same)]
    assert entries(PLACE) == [str(PLACE)]
