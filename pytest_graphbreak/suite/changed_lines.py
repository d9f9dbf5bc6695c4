"""Finds the lines of a checkout that changed since a baseline was committed, by asking git.

A red test may be due to an edit far from the place that it made worse: in a loader, a helper, a
setting. Only git knows what was edited. Without git, without a commit of the baseline, or in a
clone without history, nothing is known, and nothing is said.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from pytest_graphbreak.config.git import GitError, git

_FILE: Final = re.compile(r"\+\+\+ (?:b/)?(.*)")
_HUNK: Final = re.compile(r"@@ -\d{1,9}(?:,\d{1,9})? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_LARGEST: Final = 2**22
"""The size of a diff, in bytes, above which nobody looks for one line in it."""
_DIFF: Final = ("diff", "--no-color", "--no-ext-diff", "--no-textconv", "--no-prefix", "-U0")


class ChangedLines(NamedTuple):
    """What changed since a commit: for each file, named from the root, the lines that are new.

    The lines are 1-based; where lines were only deleted, the one above and the one below stand for
    them.
    """

    commit: str = ""
    files: dict[str, tuple[int, ...]] = {}  # noqa: RUF012  # it is never changed


@lru_cache(8)
def changed_since(root: Path, baseline: Path) -> ChangedLines:
    """Return what changed in the Python files below ``root`` since ``baseline`` was committed.

    Nothing is returned for a baseline that is not committed as it is.
    """
    try:
        if git(root, "status", "--porcelain", "--", str(baseline)).strip():
            return ChangedLines()
        commit = git(root, "log", "-1", "--format=%H", "--", str(baseline)).decode().strip()
        if not commit:
            return ChangedLines()
        text = git(root, *_DIFF, "--relative", commit, "--", "*.py")
    except GitError:
        return ChangedLines()
    if len(text) > _LARGEST:
        return ChangedLines()
    return ChangedLines(commit[:10], read(text.decode("utf-8", "replace")))


def read(diff: str) -> dict[str, tuple[int, ...]]:
    """Return the new lines of each file of a diff without context."""
    found: dict[str, tuple[int, ...]] = {}
    file = ""
    for line in diff.split("\n"):
        if name := _FILE.fullmatch(line):
            file = name[1]
        elif hunk := _HUNK.match(line):
            start, count = int(hunk[1]), int(hunk[2] or 1)
            lines = range(start, start + count) if count else range(max(start, 1), start + 2)
            found[file] = (*found.get(file, ()), *lines)
    return found
