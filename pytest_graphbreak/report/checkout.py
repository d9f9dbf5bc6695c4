"""Lines of the checkout that a report is made in: around a place, and those that changed.

``CheckoutSources`` has the lines around a place of any report, for the page (``rows``) and
``cli.explain``; ``CheckoutLines`` has the lines that changed since the baseline was committed, for
the text of a failure (``report.failure``). Both stand here because neither a report nor a checkout
is trusted:

- A report could name any file of this machine in order to show it. So only Python files below the
  root are read, and only if the line that the report quotes is really there.
- A repository can name programs for git to run (a file system monitor, a diff tool), or hold a
  directory that looks like another repository. git is called so that it heeds neither.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Final, NamedTuple

from pytest_graphbreak.model.items import Frame
from pytest_graphbreak.model.places import Places, places

AROUND: Final = 3
"""The number of lines shown before and after the place."""
MOST_BYTES: Final = 2 * 2**20
"""The size of a file above which nothing of it is shown."""
_LONGEST_LINE: Final = 200
"""Characters of a line of an excerpt."""

Excerpt = tuple[int, list[str]]
"""The number of the first line, and the lines: ``(9, ["    def forward(self, x):", ...])``."""


class CheckoutSources:
    """The files of one checkout; each is read once."""

    def __init__(self, root: Path | None) -> None:
        self._root = None if root is None else root.resolve()
        self._files: dict[str, list[str]] = {}

    def excerpt(self, where: Frame) -> Excerpt | None:
        """Return the lines around a place of a report, or None if they cannot be shown."""
        file, number, code = where.file, where.line, where.code
        if not file or not number or not code:
            return None
        if file not in self._files:
            self._files[file] = self._read(file)
        lines = self._files[file]
        if number > len(lines) or lines[number - 1].strip() != code.strip():
            return None  # another version of the file was measured
        first = max(1, number - AROUND)
        return first, [line[:_LONGEST_LINE] for line in lines[first - 1 : number + AROUND]]

    def _read(self, file: str) -> list[str]:
        if self._root is None or PurePosixPath(file).suffix != ".py":
            return []
        try:
            path = (self._root / file).resolve()
            if not path.is_relative_to(self._root) or not path.is_file():
                return []
            if path.stat().st_size > MOST_BYTES:
                return []
            return path.read_text(encoding="utf-8").split("\n")
        except (OSError, ValueError):  # ValueError: a name with a NUL, a file that is not UTF-8
            return []


# Lines that changed since a baseline was committed.
#
# A red test may be due to an edit far from the place that it made worse: in a loader, a helper, a
# setting. Only git knows what was edited. Without git, without a commit of the baseline, or in a
# clone without history, nothing is known, and nothing is said. No verdict depends on it.

SLOWEST: Final = 120
"""The time that one call of git may take, in seconds."""
_SETTINGS: Final = ("core.fsmonitor=false", "safe.bareRepository=explicit", "core.quotePath=false")
_GIT: Final = ("git", *chain(*(("-c", setting) for setting in _SETTINGS)))
_DIFF: Final = (
    *("diff", "--no-color", "--no-ext-diff", "--no-textconv", "--no-prefix"),
    *("-U0", "--inter-hunk-context=0"),  # without context, so a hunk has changed lines only
)
# --- yolo/head.py, +++ yolo/head.py; after a name with spaces there is a tab.
_FILE: Final = re.compile(r"(?:---|\+\+\+) ([^\t]*)\t?")
# @@ -10,0 +11,2 @@
_HUNK: Final = re.compile(r"@@ -\d{1,9}(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_LARGEST: Final = 2**22
"""The size of a diff, in bytes, above which nobody looks for one line in it."""


class ChangedLine(NamedTuple):
    """A line that changed since the baseline; ``deleted`` if it is not there any more."""

    where: Frame
    deleted: bool = False


class CheckoutLines:
    """The lines of a checkout that a failed test may be due to.

    ``test`` is the file of the test, as Python has it; ``baseline`` the file of its baseline.
    """

    def __init__(self, root: Path, test: str, baseline: Path | None = None) -> None:
        self._root = root
        self._test = test
        self._baseline = baseline
        self._places = places(root)

    def definition_of(self, function: Frame) -> Frame:
        """Return the same function, with the line where it begins if that is known."""
        definition = self._places.definition_of(str(self._root / function.file), function.function)
        return function if definition is None else definition

    def changed_lines(self, near: Sequence[Frame]) -> tuple[str, list[ChangedLine]]:
        """Return the commit of the baseline, and the lines of the test that changed since then.

        ``near`` are the places of what got worse. The lines come in this order::

            0    in the function of such a place
            1    elsewhere in the file of one, unless that is the test's own
            2    in another file of the test, or at the top of the test's own, for all of its tests
            3    in another function of the test's file: mostly another test
        """
        if self._baseline is None:
            return "", []
        commit, hunks = changed_since(self._root, self._baseline)
        test, functions = self._places.file(self._test), {frame.function_key for frame in near}
        files = [frame.file for frame in near] + [*map(self._places.file, self._files)]

        def rank(line: ChangedLine) -> int:
            file, function = line.where.function_key
            if (file, function) in functions:
                return 0
            if file == test:
                return 2 if function == "<module>" else 3
            return 1 if any(frame.file == file for frame in near) else 2

        lines = [
            line
            for file in dict.fromkeys(files)
            for hunk in hunks.get(file, ())
            for line in hunk.lines(str(self._root / file), self._places)
        ]
        return commit, sorted(lines, key=rank)

    @cached_property
    def _files(self) -> tuple[str, ...]:
        """The file of the test, and those of the project's modules from which it takes names."""
        # Copies, since another thread may import; and a program may put anything into sys.modules.
        loaded = [module for module in [*sys.modules.values()] if isinstance(module, ModuleType)]
        tests = (module for module in loaded if getattr(module, "__file__", None) == self._test)
        values = [value for module in tests for value in [*vars(module).values()]]
        origins = (sys.modules.get(getattr(value, "__module__", None) or "") for value in values)
        used = (module for module in (*origins, *values) if isinstance(module, ModuleType))
        files = (str(getattr(module, "__file__", None) or "") for module in used)
        return tuple(dict.fromkeys((self._test, *filter(self._places.is_written, files))))


class Hunk(NamedTuple):
    """A hunk of a diff without context: what came in place of what.

    ``@@ -10,0 +11,2 @@`` is ``Hunk(11, 2, [])``: two lines came, none was deleted.
    """

    first: int
    """The number of the first new line; if none came, of the line above those that are gone."""
    added: int
    """How many lines came."""
    deleted: list[str]
    """The lines that are gone, without their indentation."""

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
    it is, or if git fails.
    """
    try:
        commit = _git(root, "log", "-1", "--format=%H", "--", str(baseline)).decode().strip()
        if not commit or _git(root, "status", "--porcelain", "--", str(baseline)).strip():
            return "", {}
        text = _git(root, *_DIFF, "--relative", commit, "--", "*.py")
    except (OSError, subprocess.SubprocessError):
        return "", {}
    if len(text) > _LARGEST:
        return "", {}
    return commit[:10], read_hunks(text.decode("utf-8", "replace"))


def _git(directory: Path, *args: str) -> bytes:
    return subprocess.run(
        [*_GIT, "--no-pager", "--no-optional-locks", *args],
        cwd=directory,
        env=os.environ | {"LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        timeout=SLOWEST,
    ).stdout


def read_hunks(diff: str) -> dict[str, tuple[Hunk, ...]]:
    """Return the hunks of each file of a diff without context.

    A line of a hunk may look like the name of a file (``--- a``), so the lines left are counted.
    """
    hunks: dict[str, tuple[Hunk, ...]] = {}
    file, lines_left, deleted = "", 0, list[str]()
    for line in diff.split("\n"):
        if lines_left and line[:1] in ("-", "+"):
            lines_left -= 1
            deleted += [line[1:].strip()] if line[0] == "-" else []
        elif match := _HUNK.match(line):
            # A number of lines that is left out is 1: ``@@ -10 +10 @@``.
            gone, first, came = (1 if number is None else int(number) for number in match.groups())
            deleted = []
            hunks[file] = (*hunks.get(file, ()), Hunk(first, came, deleted))
            lines_left = gone + came
        elif (name := _FILE.fullmatch(line)) and name[1] != "/dev/null":
            file = name[1]
    return hunks
