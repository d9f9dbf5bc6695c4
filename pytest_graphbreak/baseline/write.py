"""Writing files so that nothing is lost: one writer at a time, and each file in one step.

A file is written beside its place under a hidden name and then takes the place
of the old one. Killed at any moment, the process leaves the old file or the new
one, and perhaps the hidden one, which nobody reads and the next writer removes.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pytest_graphbreak.baseline.model import BaselineError

_LEFT = re.compile(r"\.graphbreak-[0-9a-f]{16}\.tmp")


def lock_path(directory: Path) -> Path:
    """The lock of a baselines directory: among the temporary files, named after its real path."""
    name = hashlib.sha256(os.fsencode(os.path.realpath(directory))).hexdigest()[:24]
    user = os.getuid() if hasattr(os, "getuid") else "user"
    return Path(tempfile.gettempdir(), f"pytest-graphbreak-{user}", f"{name}.lock")


@contextmanager
def locked(directory: Path, timeout: float) -> Iterator[None]:
    """Hold the lock of a baselines directory; wait up to ``timeout`` seconds for it.

    The system frees the lock of a process that ends, however it ends.
    ``BaselineError`` if it can not be had.
    """
    from filelock import FileLock, Timeout

    path = lock_path(directory)
    lock = FileLock(path)
    try:
        _own_directory(path.parent)
        lock.acquire(timeout=timeout)
    except Timeout:
        raise BaselineError(
            f"another run has been writing baselines for {timeout:g} s, and holds {path}",
            path=directory,
            step=f"wait for it and try again (fuser {path} tells which process it is)",
        ) from None
    except (OSError, NotImplementedError) as error:
        raise BaselineError(
            f"the lock {path} can not be taken ({error})",
            path=directory,
            step="set TMPDIR to a directory on a local disk that can be written",
        ) from None
    try:
        yield
    finally:
        lock.release()


def _own_directory(path: Path) -> None:
    """Make a directory that only this user can write to; its place can be written by all."""
    os.makedirs(path, mode=0o700, exist_ok=True)
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode) or (hasattr(os, "getuid") and status.st_uid != os.getuid()):
        raise PermissionError(f"{path} is not a directory of this user's")


def clear(directory: Path) -> None:
    """Remove what killed writers left here. The lock is held: nobody else writes."""
    with suppress(OSError):
        for name in os.listdir(directory):
            if _LEFT.fullmatch(name):
                os.unlink(directory / name)


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

    Mode and owner stay. ``BaselineError`` if it can not be written; the old
    file then is as it was.
    """
    try:
        os.makedirs(path.parent, exist_ok=True)
        temporary = path.with_name(f".graphbreak-{secrets.token_hex(8)}.tmp")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            try:
                _write(handle, text.encode("utf-8"))
                _keep_mode(handle, path)
                os.fsync(handle)
            finally:
                os.close(handle)
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise _not_written(path, error) from None


def remove(path: Path) -> None:
    """Remove a file. ``BaselineError`` if it can not be removed."""
    try:
        path.unlink()
    except OSError as error:
        raise _not_written(path, error) from None


def _write(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


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
        f"can not be written ({error.strerror or error}); it is as it was",
        path=path,
        step="make room, or make its directory writable, and run again",
    )
