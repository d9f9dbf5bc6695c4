"""Reads and writes baseline files as a whole.

What is read is bounded, since the files may come from a pull request (``load_text``). There is one
writer at a time, which holds a lock (``hold_lock``) and replaces each file in one step
(``replace``). ``update`` is that writer, and its steps are: lock, read, ``clear``, ``replace`` or
``remove``, ``sync``, unlock. ``clear`` removes the hidden files of writers that were killed.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pytest_graphbreak.baseline.model import BaselineError
from pytest_graphbreak.text.files import hold, in_one_step, write

LARGEST = 32 * 1024 * 1024
"""Maximum size of a file in bytes; 100,000 tests take about 20 MB."""
LONGEST_LINE = 100_000
"""How many bytes at the end of a file are searched for its last line."""
_CUT_OFF = re.compile(rb"[ -]+(?:(?!note:|ungated:)[a-z]+: *(?:[^\s\[{\"'].*)?)?\Z")
"""A last line without line end that is a key with an unquoted value, or the start of one.

      count: 1           matches, since it may have been ``count: 12``
    -                    matches, as does ``    graphs:``: the value is missing
    note: seen on CI     does not: a text of people is as good without its end
    graphs: {dynamo: 1   does not: it is no YAML, and the parser says so
"""
HIDDEN = ".graphbreak"
"""A directory in a baselines directory; it contains the lock."""
_TEMPORARY = re.compile(r"\.graphbreak-[0-9a-f]{16}\.tmp")
"""The name of the file that ``text.files.in_one_step`` writes before it takes the right name."""


def lock_path(directory: Path) -> Path:
    """Return the lock of a baselines directory; it is inside, where every writer finds it."""
    return Path(os.path.realpath(directory), HIDDEN, "lock")


@contextmanager
def hold_lock(directory: Path, timeout: float) -> Iterator[None]:
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
            if _TEMPORARY.fullmatch(name) and not _is_locked(directory / name):
                os.unlink(directory / name)


def _is_locked(path: Path) -> bool:
    """Return whether a running process still holds its temporary file."""
    with suppress(OSError), open(path, "rb", opener=_open_no_link) as file:
        return not hold(file.fileno())
    return True  # what cannot be opened is left alone


def _open_no_link(path: str, flags: int) -> int:
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
        raise _write_error(path, error) from None


def remove(path: Path) -> None:
    """Remove a file. Raises ``BaselineError`` if it cannot be removed."""
    try:
        path.unlink()
    except OSError as error:
        raise _write_error(path, error) from None


def _keep_mode(handle: int, path: Path) -> None:
    """Give the new file the mode and owner of the old one, if there is one."""
    try:
        old = os.stat(path)
    except FileNotFoundError:
        return
    os.fchmod(handle, stat.S_IMODE(old.st_mode))
    with suppress(OSError):  # only root may give files away
        os.fchown(handle, old.st_uid, old.st_gid)


def _write_error(path: Path, error: OSError) -> BaselineError:
    return BaselineError(
        f"cannot be written ({error.strerror or error}); it is as it was",
        path=path,
        step="make room, or make its directory writable, and run again",
    )


# reading


def load_text(path: Path) -> str | None:
    """Return the text of a file, with line ends and byte order mark, or None if absent."""
    data = _load_bytes(path)
    if data is None:
        return None
    if is_cut_off(data):
        raise BaselineError(
            "ends in the middle of a line, as a file that was cut off does",
            path=path,
            line=data.count(b"\n") + 1,
            step="take it from git again; if it is whole, end its last line",
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BaselineError(
            f"is not UTF-8 (byte 0x{data[error.start]:02x})",
            path=path,
            line=data.count(b"\n", 0, error.start) + 1,
            step="save it as UTF-8, or take it from git again",
        ) from None


def _load_bytes(path: Path) -> bytes | None:
    try:
        with open(path, "rb", opener=_open_at_once) as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise BaselineError("is no regular file", path=path, step="move it away")
            if status.st_size > LARGEST:
                raise BaselineError(
                    f"is larger than {LARGEST // 1024 // 1024} MiB, and is not read",
                    path=path,
                    step="split the test file, or delete this file and record it again",
                )
            return stream.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        step = "make it a file that can be read"
        words = f"cannot be read ({error.strerror or error})"
        raise BaselineError(words, path=path, step=step) from None


def is_cut_off(data: bytes) -> bool:
    """Return whether a file may have lost its end, since part of a value is a value as well."""
    last_line = data[-LONGEST_LINE:].rpartition(b"\n")[2].rpartition(b"\r")[2]
    return _CUT_OFF.match(last_line) is not None


def _open_at_once(path: str, flags: int) -> int:
    # Opening a named pipe would wait for its other end.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
