"""The baselines of a directory: look-up by node id, checks, and stale entries."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
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
from pytest_graphbreak.text.files import hold, in_one_step, uncollected, write


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
                inside(self.directory, path)
                self._documents[file] = load(path, file)
            except BaselineError as error:
                self._documents[file] = error
        found = self._documents[file]
        if isinstance(found, BaselineError):
            raise found
        return found

    def entry(self, nodeid: str) -> Entry | None:
        """Return the entry of a test, or None if it has none."""
        file, test, case = split_nodeid(nodeid)
        document = self.document(file)
        return None if document is None else document.entry(test, case)

    def expected(self, nodeid: str, profile: str) -> Expected | None:
        """Return what a test is judged by on a profile, or None if no baseline has it."""
        entry = self.entry(nodeid)
        return None if entry is None else entry.expected(profile)

    def check(self, wanted: Callable[[str], bool] = lambda file: True) -> None:
        """Read the baseline files of the wanted test files.

        ``wanted`` gets the own name of a baseline that cannot belong to any test file. Raises
        ``BaselineError`` with the first error of each invalid file.
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
        """Return the test files that have a baseline file, sorted, even if they are gone."""
        return [file for file, _ in self._found() if file is not None]

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
        """Return every YAML file with its test file, or with None if it cannot belong to one."""
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
            # A remark on a test applies to all of its cases.
            if (test, case) in tests or (case is None and test in names and entry.is_remark):
                continue
            if not entry.recorded or profile in entry.recorded:
                yield entry


def _walk(directory: Path) -> Iterator[tuple[str, str]]:
    """Yield every file below a directory, with its parent; links to directories are not followed.

    Recursion is avoided, since ``os.walk`` of Python before 3.12 recurses and the stack is finite.
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


# Writing files safely: one writer at a time, and each file replaced in one step.
#
# A hidden file that a killed writer left is removed by the next one (``clear``).

HIDDEN = ".graphbreak"
"""A directory in a baselines directory; it contains the lock."""
_LEFT = re.compile(r"\.graphbreak-[0-9a-f]{16}\.tmp")


def lock_path(directory: Path) -> Path:
    """Return the lock of a baselines directory; it is inside, where every writer finds it."""
    return Path(os.path.realpath(directory), HIDDEN, "lock")


@contextmanager
def locked(directory: Path, timeout: float) -> Iterator[None]:
    """Hold the lock of a baselines directory; wait up to ``timeout`` seconds for it.

    The system frees the lock of a process that ends, however it ends. Raises ``BaselineError`` if
    the lock cannot be acquired.
    """
    from filelock import FileLock, Timeout

    path = lock_path(directory)
    try:
        _make_hidden(path)
        # Whoever may write the baselines may lock them: root in a container leaves the file to
        # others.
        lock = FileLock(path, mode=0o666)
        lock.acquire(timeout=timeout)
    except Timeout:
        raise BaselineError(
            f"another run has been writing baselines for {timeout:g} s, and holds {path}",
            path=directory,
            step=f"wait for it and try again (fuser {path} shows which process it is)",
        ) from None
    except (OSError, NotImplementedError) as error:
        words = getattr(error, "strerror", None) or error
        raise BaselineError(
            f"cannot be written: the lock {path} cannot be taken ({words})",
            path=directory,
            step="make it a directory that can be written, on a file system that can lock",
        ) from None
    try:
        yield
    finally:
        lock.release()


def _make_hidden(lock: Path) -> None:
    """Create the directory of the lock, ignored by git. Links there are not followed."""
    folder = lock.parent
    os.makedirs(folder, exist_ok=True)
    for path in (folder, lock, folder / ".gitignore"):
        if path.is_symlink():
            raise OSError(f"{path} is a symbolic link")
    with suppress(FileExistsError), open(folder / ".gitignore", "x") as file:
        file.write("*\n")


def clear(directory: Path) -> None:
    """Remove what killed writers left here, but nothing of a running writer."""
    with suppress(OSError):
        for name in os.listdir(directory):
            if _LEFT.fullmatch(name) and not _is_locked(directory / name):
                os.unlink(directory / name)


def _is_locked(path: Path) -> bool:
    """Return whether a running process still holds its temporary file."""
    with suppress(OSError), open(path, "rb", opener=_open_own) as file:
        return not hold(file.fileno())
    return True


def _open_own(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))


def sync(directory: Path) -> None:
    """Make new names in a directory survive a loss of power, where the system supports it."""
    with suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def replace(path: Path, text: str) -> None:
    """Put a file with this text in place of the old one, if there is one, in one step.

    Mode and owner are kept. Raises ``BaselineError`` if the file cannot be written; the old file is
    then unchanged.
    """
    try:
        os.makedirs(path.parent, exist_ok=True)
        with in_one_step(path) as handle:
            write(handle, text.encode("utf-8"))
            _keep_mode(handle, path)
            os.fsync(handle)
    except OSError as error:
        raise _not_written(path, error) from None


def remove(path: Path) -> None:
    """Remove a file. Raises ``BaselineError`` if it cannot be removed."""
    try:
        path.unlink()
    except OSError as error:
        raise _not_written(path, error) from None


def _keep_mode(handle: int, path: Path) -> None:
    """Give the new file the mode and owner of the old one, if there is one."""
    try:
        old = os.stat(path)
    except FileNotFoundError:
        return
    os.fchmod(handle, stat.S_IMODE(old.st_mode))
    with suppress(OSError):  # only root may give files away
        os.fchown(handle, old.st_uid, old.st_gid)


def _not_written(path: Path, error: OSError) -> BaselineError:
    return BaselineError(
        f"cannot be written ({error.strerror or error}); it is as it was",
        path=path,
        step="make room, or make its directory writable, and run again",
    )
