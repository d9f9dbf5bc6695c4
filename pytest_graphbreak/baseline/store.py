"""The baselines of a directory: looked up by node id, checked as a whole, stale entries found."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pytest_graphbreak.baseline.model import BaselineError, Document, Entry, Expected
from pytest_graphbreak.baseline.paths import (
    SUFFIX,
    baseline_path,
    inside,
    mirrored_file,
    split_nodeid,
)
from pytest_graphbreak.baseline.read import load
from pytest_graphbreak.text.garbage import uncollected


class Baselines:
    """Reads each file once, when it is first asked for.

    Every method that reads raises ``BaselineError`` on a file that is not as it
    has to be.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = Path(directory)
        self._documents: dict[str, Document | BaselineError | None] = {}

    def document(self, file: str) -> Document | None:
        """The baseline file of a test file; None if it has none."""
        if file not in self._documents:
            path = baseline_path(self.directory, file)
            try:
                inside(self.directory, path)
                self._documents[file] = load(path, file)
            except BaselineError as error:
                self._documents[file] = error
        found = self._documents[file]
        if isinstance(found, BaselineError):
            raise found
        return found

    def entry(self, nodeid: str) -> Entry | None:
        """The entry of a test; None if it has none."""
        file, test, case = split_nodeid(nodeid)
        document = self.document(file)
        return None if document is None else document.entry(test, case)

    def expected(self, nodeid: str, profile: str) -> Expected | None:
        """What a test is judged by on a profile; None if no baseline says."""
        entry = self.entry(nodeid)
        return None if entry is None else entry.expected(profile)

    def check(self, wanted: Callable[[str], bool] = lambda file: True) -> None:
        """Read the baseline files of the wanted test files.

        A baseline that can be for none is taken for one with its own name. ``BaselineError`` with
        the first fault of each bad one.
        """
        faults = []
        with uncollected():
            for file, path in self._found():
                if not wanted(file or path.relative_to(self.directory).as_posix()):
                    continue
                try:
                    if file is None:
                        found = load(inside(self.directory, path), "")
                    else:
                        found = self.document(file)
                    if found is None and path.is_symlink():
                        step = "remove it, or put the file itself there"
                        raise BaselineError("is a link to nothing", path=path, step=step)
                except BaselineError as error:
                    faults.append(error)
        if faults:
            first, *others = faults
            raise BaselineError(
                first.message, path=first.path, line=first.line, step=first.step, also=others
            )

    def files(self) -> list[str]:
        """The test files that have a baseline file, sorted; also those that are gone."""
        return [file for file, _ in self._found() if file is not None]

    def entries(self) -> Iterator[Entry]:
        """Every entry of every file."""
        for file in self.files():
            document = self.document(file)
            if document is not None:
                yield from document.entries()

    def stale(
        self,
        collected: Iterable[str],
        complete_files: Iterable[str],
        gone_files: Iterable[str] = (),
        *,
        profile: str,
    ) -> list[Entry]:
        """The entries whose test is gone.

        ``collected`` are the node ids of the run. Only ``complete_files``, of
        which every test was collected, are looked at, and ``gone_files``, which
        the caller knows to be gone: all that these have is stale. Else an entry
        that was never recorded on the run's ``profile`` is not judged: a test
        may be there on another torch or device alone.
        """
        tests = {file: set[tuple[str, str | None]]() for file in complete_files}
        for nodeid in collected:
            try:
                file, test, case = split_nodeid(nodeid)
            except BaselineError:
                continue  # a test outside of the root directory has no baseline
            if file in tests:
                tests[file].add((test, case))
        found: list[Entry] = []
        gone = set(gone_files)
        for file in tests.keys() | gone:
            document = self.document(file)
            if document is not None and file in gone:
                found += document.entries()
            elif document is not None:
                found += _missing(document, tests[file], profile)
        return sorted(found, key=lambda stale: (stale.path, stale.line))

    def _found(self) -> list[tuple[str | None, Path]]:
        """Every YAML file with the test file that it is for; None if it can be for none."""
        if not self.directory.exists():
            return []
        if not self.directory.is_dir():
            step = "name a directory with graph_budget_dir"
            raise BaselineError("is no directory", path=self.directory, step=step)
        return sorted(
            (
                (_mirrored(self.directory, Path(parent, name)), Path(parent, name))
                for parent, name in _walk(self.directory)
                if name.endswith(SUFFIX)
            ),
            key=lambda found: found[1],
        )


def _mirrored(directory: Path, path: Path) -> str | None:
    file = mirrored_file(directory, path)
    try:
        return file if baseline_path(directory, file) == path else None
    except BaselineError:
        return None


def _missing(
    document: Document, tests: set[tuple[str, str | None]], profile: str
) -> Iterator[Entry]:
    names = {test for test, _ in tests}
    for test, known in document.tests.items():
        for case, entry in known.entries.items():
            # A mere remark on a test holds for all of its cases.
            if (test, case) in tests or (case is None and test in names and entry.is_remark):
                continue
            if not entry.recorded or profile in entry.recorded:
                yield entry


def _walk(directory: Path) -> Iterator[tuple[str, str]]:
    """Every file below with its directory; links to directories are not followed.

    ``os.walk`` of Python before 3.12 calls itself, and Python's stack is finite.
    """
    left = [os.fspath(directory)]
    while left:
        parent = left.pop()
        try:
            with os.scandir(parent) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)
                    else:
                        yield parent, entry.name
        except OSError as error:
            raise BaselineError(
                f"cannot be read ({error.strerror or error})",
                path=parent,
                step="make it a directory that can be read",
            ) from None
