"""The baselines of a directory: look-up by node id, checks, and stale entries.

A node id belongs to one file and one key in it, never outside the directory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from pytest_graphbreak.baseline.model import BaselineError, Document, Entry, Expected
from pytest_graphbreak.baseline.read import load
from pytest_graphbreak.baseline.rules import expectation
from pytest_graphbreak.model.budget import writable
from pytest_graphbreak.text.files import without_collector

SUFFIX = ".yaml"
"""The end of the names of baseline files; others in the directory are not read."""
_BARE = ".~"
"""The end of the name for a test file without a dot, so that ``test_a`` differs from ``test_a.py``:
``test_a.~.yaml``.
"""


def split_nodeid(nodeid: str) -> tuple[str, str, str | None]:
    """Return file, test and case of a node id.

    The file is the text before the first ``::``. The case is the text between the first ``[`` and
    the last ``]`` of what follows, if that ends with ``]``; both may contain ``/``, ``::``,
    brackets, quotes and newlines. ``a.py::TestA::test_b[cpu-1]`` is ``a.py``, ``TestA::test_b`` and
    ``cpu-1``. Raises ``BaselineError`` if the id names no test, or a file that is not inside the
    root directory.
    """
    file, colons, name = nodeid.partition("::")
    if not colons or not name:
        raise BaselineError(f"{nodeid!r} is not the node id of a test (file::test)")
    _refuse_outside(nodeid, file)
    test, bracket, case = name.partition("[")
    if test and bracket and case.endswith("]"):
        return file, writable(test), writable(case[:-1])
    return file, writable(name), None


def baseline_path(directory: Path, file: str) -> Path:
    """Return the path of the baseline of a test file: its path, mirrored under ``directory``.

    ``test_a.py`` has ``test_a.yaml``; any other name keeps its suffix (``test_a.txt.yaml``), and so
    does a Python file with a dot in its stem (``test_a.b.py.yaml``), so that no two files share a
    baseline. ``mirrored_file`` is the inverse::

        test_a.py     test_a.yaml
        test_a.b.py   test_a.b.py.yaml
        test_a.txt    test_a.txt.yaml
        test_a        test_a.~.yaml      otherwise it would share the first one
        test_a.~      test_a.~.~.yaml    otherwise it would share the one above
    """
    _refuse_outside(file, file)
    parent, _, name = file.rpartition("/")
    stem = name.removesuffix(".py")
    if stem == name or "." in stem or not stem:
        stem = name + _BARE if "." not in name or name.endswith(_BARE) else name
    return Path(directory, parent, stem + SUFFIX)


def mirrored_file(directory: Path, path: Path) -> str:
    """Return the test file that a baseline mirrors, as the inverse of ``baseline_path``."""
    parent, slash, name = path.relative_to(directory).as_posix().rpartition("/")
    stem = name.removesuffix(SUFFIX)
    file = stem.removesuffix(_BARE) if "." in stem else stem + ".py"
    return parent + slash + (file or stem)


def resolve(directory: Path, path: Path) -> Path:
    """Return the real path of a baseline file.

    Raises ``BaselineError`` if a link leads out of ``directory``.
    """
    root, real = os.path.realpath(directory), os.path.realpath(path)
    if not real.startswith(root.rstrip(os.sep) + os.sep):
        raise BaselineError(
            f"a symbolic link leads out of the baselines, to {real}",
            path=path,
            step="put the file itself there",
        )
    return Path(real)


def _refuse_outside(nodeid: str, file: str) -> None:
    if problem := _problem(file):
        raise BaselineError(
            f"{nodeid!r} {problem}, and can have no baseline",
            step="run pytest with a rootdir that holds the test (--rootdir, or a pytest.ini there)",
        )


@lru_cache(4096)  # a file has many tests
def _problem(file: str) -> str:
    """Return why a test file can have no baseline, or an empty text."""
    parts = file.split("/")
    if not file or "\0" in file:
        return "names no file"
    if "\\" in file:
        return "has a backslash in its file name"
    if file.startswith("/") or file[1:2] == ":":
        return "is not relative to the root directory"
    if ".." in parts:
        return "is outside of the root directory"
    if "." in parts or "" in parts:
        return "has an empty part or a '.' in its path"
    try:
        os.fsencode(file)
    except UnicodeEncodeError:  # lone surrogates
        return "has a character that no file name has"
    return ""


class Baselines:
    """The baselines of a directory; each file is read once, when it is first needed.

    Every method that reads raises ``BaselineError`` for a file that is not valid.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = Path(directory)
        self._documents: dict[str, Document | BaselineError | None] = {}

    def document(self, file: str) -> Document | None:
        """Return the baseline file of a test file, or None if it has none."""
        if file not in self._documents:
            path = baseline_path(self.directory, file)
            try:
                resolve(self.directory, path)
                self._documents[file] = load(path, file)
            except BaselineError as error:
                self._documents[file] = error
        document = self._documents[file]
        if isinstance(document, BaselineError):
            raise document
        return document

    def entry(self, nodeid: str) -> Entry | None:
        """Return the entry of a test, or None if it has none."""
        file, test, case = split_nodeid(nodeid)
        document = self.document(file)
        return None if document is None else document.entry(test, case)

    def expectation(self, nodeid: str, profile: str) -> Expected | None:
        """Return what a test is judged by on a profile, or None if no baseline has it."""
        entry = self.entry(nodeid)
        return None if entry is None else expectation(entry, profile)

    def would_lose(self, nodeid: str) -> bool:
        """Return whether an entry for a test would remove those of the test as it was.

        ``test_a[x]`` removes the entry of ``test_a`` from before it had parameters. An update
        writes it, and a record refuses.
        """
        file, test, case = split_nodeid(nodeid)
        document = self.document(file)
        entries = None if document is None else document.tests.get(test)
        return entries is not None and entries.would_lose(case)

    def check(self, is_needed: Callable[[str], bool] = lambda file: True) -> None:
        """Read the baseline files of the test files that are needed.

        ``is_needed`` gets the name of the baseline if it cannot belong to any test file. Raises
        ``BaselineError`` with the first error of each invalid file.
        """
        faults = []
        with without_collector():
            for file, path in self._paths():
                if not is_needed(file or path.relative_to(self.directory).as_posix()):
                    continue
                try:
                    if file is None:  # it is read for its errors only
                        document = load(resolve(self.directory, path), "")
                    else:
                        document = self.document(file)
                    if document is None and path.is_symlink():
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
        """Return the test files that have a baseline file, sorted, even if they are gone."""
        return [file for file, _ in self._paths() if file is not None]

    def entries(self) -> Iterator[Entry]:
        """Yield every entry of every file."""
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
        """Return the entries whose test is gone.

        ``collected`` are the node ids of the run. Only two kinds of files are checked:
        ``complete_files``, of which every test was collected, and ``gone_files``, which the caller
        knows to be gone and of which all entries are stale. In complete files, an entry that was
        never recorded on the run's ``profile`` is skipped, since its test may exist only on another
        torch or device.
        """
        tests = {file: set[tuple[str, str | None]]() for file in complete_files}
        for nodeid in collected:
            try:
                file, test, case = split_nodeid(nodeid)
            except BaselineError:
                continue  # a test outside of the root directory has no baseline
            if file in tests:
                tests[file].add((test, case))
        entries: list[Entry] = []
        gone = set(gone_files)
        for file in tests.keys() | gone:
            document = self.document(file)
            if document is not None and file in gone:
                entries += document.entries()
            elif document is not None:
                entries += _gone_entries(document, tests[file], profile)
        return sorted(entries, key=lambda entry: (entry.path, entry.line))

    def _paths(self) -> list[tuple[str | None, Path]]:
        """Return every YAML file with its test file, or with None if it cannot belong to one."""
        if not self.directory.exists():
            return []
        refuse_file(self.directory)
        return sorted(
            (
                (_test_file(self.directory, Path(parent, name)), Path(parent, name))
                for parent, name in _walk(self.directory)
                if name.endswith(SUFFIX)
            ),
            key=lambda pair: pair[1],
        )


def refuse_file(directory: Path) -> None:
    """Raise ``BaselineError`` if something else is in place of a directory of baselines."""
    if directory.exists() and not directory.is_dir():
        step = "name a directory with graph_budget_dir"
        raise BaselineError("is no directory", path=directory, step=step)


def _test_file(directory: Path, path: Path) -> str | None:
    file = mirrored_file(directory, path)
    try:
        return file if baseline_path(directory, file) == path else None
    except BaselineError:
        return None


def _gone_entries(
    document: Document, tests: set[tuple[str, str | None]], profile: str
) -> Iterator[Entry]:
    names = {test for test, _ in tests}
    for test, entries in document.tests.items():
        for case, entry in entries.entries.items():
            # A remark on a test applies to all of its cases.
            if (test, case) in tests or (case is None and test in names and entry.is_remark):
                continue
            if not entry.recorded_profiles or profile in entry.recorded_profiles:
                yield entry


def _walk(directory: Path) -> Iterator[tuple[str, str]]:
    """Yield every file below a directory, with its parent; links to directories are not followed.

    Recursion is avoided, since ``os.walk`` of Python before 3.12 recurses and the stack is finite.
    """
    parents = [os.fspath(directory)]
    while parents:
        parent = parents.pop()
        try:
            with os.scandir(parent) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        parents.append(entry.path)
                    else:
                        yield parent, entry.name
        except OSError as error:
            raise BaselineError(
                f"cannot be read ({error.strerror or error})",
                path=parent,
                step="make it a directory that can be read",
            ) from None
