"""Writing files so that nothing is lost: one writer at a time, and each file in one step.

A hidden file that a killed writer left is removed by the next one (``clear``).
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

HIDDEN = ".graphbreak"
"""A directory of a baselines directory; in it is the lock."""
_LEFT = re.compile(r"\.graphbreak-[0-9a-f]{16}\.tmp")


def lock_path(directory: Path) -> Path:
    """The lock of a baselines directory, in the directory itself: where every writer finds it."""
    return Path(os.path.realpath(directory), HIDDEN, "lock")


@contextmanager
def locked(directory: Path, timeout: float) -> Iterator[None]:
    """Hold the lock of a baselines directory; wait up to ``timeout`` seconds for it.

    The system frees the lock of a process that ends, however it ends.
    ``BaselineError`` if it cannot be had.
    """
    from filelock import FileLock, Timeout

    path = lock_path(directory)
    try:
        _make_hidden(path)
        # Who may write the baselines may lock them: a container's root leaves the file to others.
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
    """The directory of the lock, which git ignores. A link there is not followed."""
    folder = lock.parent
    os.makedirs(folder, exist_ok=True)
    for path in (folder, lock, folder / ".gitignore"):
        if path.is_symlink():
            raise OSError(f"{path} is a symbolic link")
    with suppress(FileExistsError), open(folder / ".gitignore", "x") as file:
        file.write("*\n")


def clear(directory: Path) -> None:
    """Remove what killed writers left here, and nothing of a writer that lives."""
    with suppress(OSError):
        for name in os.listdir(directory):
            if _LEFT.fullmatch(name) and not _is_locked(directory / name):
                os.unlink(directory / name)


def _is_locked(path: Path) -> bool:
    """Whether a living process holds its temporary file; it does so until that is in place."""
    with suppress(OSError), open(path, "rb", opener=_open_own) as file:
        return not hold(file.fileno())
    return True


def _open_own(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))


def sync(directory: Path) -> None:
    """Make new names in a directory outlive a loss of power, where that can be asked for."""
    with suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def replace(path: Path, text: str) -> None:
    """Put a file with this text in place of the old one, if there is one, in one step.

    Mode and owner stay. ``BaselineError`` if it cannot be written; the old
    file then is as it was.
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
    """Remove a file. ``BaselineError`` if it cannot be removed."""
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
