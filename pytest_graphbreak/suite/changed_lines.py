"""Finds the lines of a checkout that changed since a baseline was committed, by asking git.

A red test may be due to an edit far from the place that it made worse: in a loader, a helper, a
setting. Only git knows what was edited. Without git, without a commit of the baseline, or in a
clone without history, nothing is known, and nothing is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from pytest_graphbreak.config.git import GitError, git
from pytest_graphbreak.judging.edited import EditedLine
from pytest_graphbreak.model.places import Places, places

_FILE: Final = re.compile(r"(?:---|\+\+\+) (?:[ab]/)?(.*)")
_HUNK: Final = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
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
    diff: str = ""


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
    diff = text.decode("utf-8", "replace")
    return ChangedLines(commit[:10], read(diff), diff)


@lru_cache(8)
def edited_since(root: Path, baseline: Path) -> tuple[EditedLine, ...]:
    """Return the lines that were added or removed since ``baseline`` was committed."""
    changed = changed_since(root, baseline)
    before, now = _Committed(root, changed.commit), places(root)
    found: list[EditedLine] = []
    for one in _hunks(changed.diff):
        file = str(root / one.file)
        old, new = range(one.old, one.old + one.gone), range(one.new, one.new + one.came)
        found += [EditedLine(before.frame(file, line), is_new=False) for line in old]
        found += [EditedLine(now.frame(file, line), is_new=True) for line in new]
    return tuple(found)


class _Committed(Places):
    """Places in the files of a commit."""

    def __init__(self, root: Path, commit: str) -> None:
        super().__init__(root)
        self._commit = commit
        self._texts: dict[str, list[str]] = {}

    def lines(self, file: str) -> list[str]:
        if file not in self._texts:
            name = Path(file).relative_to(self.root).as_posix()
            try:
                text = git(self.root, "show", f"{self._commit}:./{name}").decode("utf-8", "replace")
            except GitError:  # the file is new
                text = ""
            self._texts[file] = text.splitlines(keepends=True)
        return self._texts[file]


class _Hunk(NamedTuple):
    """A hunk of a diff without context: the first lines and their numbers, before and after."""

    file: str
    old: int
    gone: int
    new: int
    came: int


def _hunks(diff: str) -> Iterator[_Hunk]:
    file, skipped = "", 0
    for line in diff.split("\n"):
        if skipped and line[:1] in ("-", "+"):
            skipped -= 1
        elif hunk := _HUNK.match(line):
            old, gone, new, came = (1 if one is None else int(one) for one in hunk.groups())
            yield _Hunk(file, old, gone, new, came)
            skipped = gone + came
        elif (name := _FILE.fullmatch(line)) and name[1] != "/dev/null":
            file = name[1]


def read(diff: str) -> dict[str, tuple[int, ...]]:
    """Return the new lines of each file of a diff without context."""
    found: dict[str, tuple[int, ...]] = {}
    for one in _hunks(diff):
        start = one.new
        lines = range(start, start + one.came) if one.came else range(max(start, 1), start + 2)
        found[one.file] = (*found.get(one.file, ()), *lines)
    return found
