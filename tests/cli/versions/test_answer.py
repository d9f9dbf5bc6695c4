"""Hunks of unified diffs, also of files that look like diffs."""

from __future__ import annotations

import difflib

from hypothesis import given
from hypothesis import strategies as st

from pytest_graphbreak.cli.versions.answer import LONGEST, hunks

LINES = st.lists(st.sampled_from(["a", "b", "@@ -1 +1 @@", "+c", "-c", "", " ", "\\ No newline"]))


@given(LINES, LINES)
def test_every_changed_line_is_in_a_hunk(old: list[str], new: list[str]) -> None:
    found = [*hunks("\n".join(difflib.unified_diff(old, new, "a", "b", lineterm="")))]
    for side, lines, sign in ((False, old, "-"), (True, new, "+")):
        reported = [
            (number, lines[number - 1])
            for number in range(1, len(lines) + 1)
            if any(hunk.touches(number, new=side) for hunk in found)
        ]
        kept = [line[1:] for hunk in found for line in hunk.lines if line[:1] in (" ", sign)]
        assert [line for _, line in reported] == kept


def test_a_long_hunk_is_shown_around_the_place() -> None:
    new = [f"line {number}" for number in range(1, 501)]
    [hunk] = hunks("\n".join(difflib.unified_diff([], new, lineterm="")))
    shown = list(hunk.around(300, new=True))
    assert shown[0] == "@@ -0,0 +1,500 @@"
    assert shown[1] == "... 279 lines"
    assert "+line 300" in shown
    assert shown[-1] == "... 181 more lines"
    assert len(shown) == LONGEST + 3
    assert len(list(hunk.around(1, new=True))) == LONGEST + 2


def test_what_is_no_diff_has_no_hunks() -> None:
    for text in ("", "Binary files a and b differ\n", "@@ nonsense @@"):
        assert not [*hunks(text)]
    [torn] = hunks("@@ -1,9 +1,9 @@\n a\ndiff --git")
    assert torn.lines == (" a",)
