"""Finds the lines of a checkout that changed since a baseline was committed, by asking git.

A red test may be due to an edit far from the place that it made worse: in a loader, a helper, a
setting. Only git knows what was edited. Without git, without a commit of the baseline, or in a
clone without history, nothing is known, and nothing is said. No verdict depends on it.

A checkout may come from an untrusted source: git runs no program that it names (a file system
monitor, a diff tool), and does not treat a directory in it as a repository.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final, NamedTuple

from pytest_graphbreak.judging.case import ChangedLine, SourceLines
from pytest_graphbreak.model.places import Places, places
from pytest_graphbreak.model.record import Frame

if TYPE_CHECKING:
    import pytest

    from pytest_graphbreak.config.settings import Settings
import os
import subprocess

from pytest_graphbreak.text.errors import UserError, reason

SLOWEST: Final = 120
"""The time that one call of git may take, in seconds."""
_SAFE: Final = ("-c", "core.fsmonitor=false", "-c", "safe.bareRepository=explicit")


class GitError(UserError):
    """Raised if git failed. The message says why."""


def git(directory: Path, *args: str) -> bytes:
    """Return what ``git args`` prints in ``directory``. Raises ``GitError`` with its first line."""
    command = ["git", *_SAFE, "--no-pager", "--no-optional-locks", *args]
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            env=os.environ | {"LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=SLOWEST,
        )
    except FileNotFoundError:
        raise GitError("git is not installed") from None
    except subprocess.TimeoutExpired:
        raise GitError(f"{directory}: git {args[0]} took more than {SLOWEST} s") from None
    except OSError as error:
        raise GitError(f"{directory}: git: {reason(error)}") from None
    if done.returncode:
        words = done.stderr.decode("utf-8", "replace").strip().split("\n")[0]
        raise GitError(f"{directory}: git {args[0]}: {words[:400] or 'failed'}")
    return done.stdout


_FILE: Final = re.compile(r"(?:---|\+\+\+) (?:[ab]/)?(.*)")
_HUNK: Final = re.compile(r"@@ -\d{1,9}(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_LARGEST: Final = 2**22
"""The size of a diff, in bytes, above which nobody looks for one line in it."""
_DIFF: Final = ("diff", "--no-color", "--no-ext-diff", "--no-textconv", "--no-prefix", "-U0")


class CheckoutLines(SourceLines):
    """The lines of this checkout that a failed test may be due to."""

    def __init__(self, item: pytest.Item, settings: Settings, baseline: Path | None = None) -> None:
        self._test = str(item.path)
        self._root = settings.root
        self._baseline = baseline
        self._places = places(settings.root)

    def definition_of(self, function: Frame) -> Frame:
        definition = self._places.definition_of(str(self._root / function.file), function.function)
        return function if definition is None else definition

    def changed_lines(self, near: Sequence[Frame]) -> tuple[str, tuple[ChangedLine, ...]]:
        if self._baseline is None:
            return "", ()
        commit, hunks = changed_since(self._root, self._baseline)
        paths = [frame.file for frame in near] + [*map(self._places.file, self._files)]
        lines = [
            line
            for file in dict.fromkeys(paths)
            for hunk in hunks.get(file, ())
            for line in hunk.lines(str(self._root / file), self._places)
        ]
        lines.sort(key=self._order(near))
        return commit, tuple(lines)

    def _order(self, near: Sequence[Frame]) -> Callable[[ChangedLine], int]:
        """Return the key by which changed lines are sorted; those of one rank stay as they are.

        Functions of the frames ``near`` come first, then their files, then the other files of the
        test, and last what stands in its file within other functions: mostly other tests.
        """
        functions = {frame.key[:2] for frame in near}
        test = self._places.file(self._test)
        files = {frame.file for frame in near} - {test}

        def rank(line: ChangedLine) -> int:
            where = line.where
            if where.key[:2] in functions:
                return 0
            if where.file in files:
                return 1
            return 3 if where.file == test and where.function != "<module>" else 2

        return rank

    @cached_property
    def _files(self) -> tuple[str, ...]:
        """The file of the test, and those of the project's modules from which it takes names."""
        loaded = [module for module in [*sys.modules.values()] if isinstance(module, ModuleType)]
        tests = (module for module in loaded if getattr(module, "__file__", None) == self._test)
        values = [value for module in tests for value in [*vars(module).values()]]
        origins = (sys.modules.get(getattr(value, "__module__", None) or "") for value in values)
        used = (module for module in (*origins, *values) if isinstance(module, ModuleType))
        files = (str(getattr(module, "__file__", None) or "") for module in used)
        return tuple(dict.fromkeys((self._test, *filter(self._places.is_written, files))))


class Hunk(NamedTuple):
    """A hunk of a diff without context: the first new line, how many, and what was there before."""

    first: int
    added: int
    deleted: list[str]

    def lines(self, file: str, places: Places) -> Iterator[ChangedLine]:
        """Yield its new lines; if it has none, those that were deleted, without their numbers."""
        for number in range(self.first, self.first + self.added):
            frame = places.frame(file, number)
            if frame.code:
                yield ChangedLine(frame)
        for code in filter(None, self.deleted) if not self.added else ():
            # git names the line above; what stood below it mostly was in the same function.
            frame = places.frame(file, self.first)
            yield ChangedLine(Frame(frame.file, frame.function, 0, code), deleted=True)


@lru_cache(8)
def changed_since(root: Path, baseline: Path) -> tuple[str, dict[str, tuple[Hunk, ...]]]:
    """Return the commit of ``baseline``, and what changed since in Python files below ``root``.

    The files are named from ``root``. Nothing is returned for a baseline that is not committed as
    it is.
    """
    try:
        if git(root, "status", "--porcelain", "--", str(baseline)).strip():
            return "", {}
        commit = git(root, "log", "-1", "--format=%H", "--", str(baseline)).decode().strip()
        if not commit:
            return "", {}
        text = git(root, *_DIFF, "--relative", commit, "--", "*.py")
    except GitError:
        return "", {}
    if len(text) > _LARGEST:
        return "", {}
    return commit[:10], read(text.decode("utf-8", "replace"))


def read(diff: str) -> dict[str, tuple[Hunk, ...]]:
    """Return the hunks of each file of a diff without context."""
    hunks: dict[str, tuple[Hunk, ...]] = {}
    file, lines_left, deleted = "", 0, list[str]()
    for line in diff.split("\n"):
        if lines_left and line[:1] in ("-", "+"):
            lines_left -= 1
            deleted += [line[1:].strip()] if line[0] == "-" else []
        elif match := _HUNK.match(line):
            gone, first, came = (1 if number is None else int(number) for number in match.groups())
            deleted = []
            hunks[file] = (*hunks.get(file, ()), Hunk(first, came, deleted))
            lines_left = gone + came
        elif (name := _FILE.fullmatch(line)) and name[1] != "/dev/null":
            file = name[1]
    return hunks
