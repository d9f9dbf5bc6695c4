"""Files: written in one step, locked while open, marked with a header, and shown with short paths.

A file is written beside its destination under a hidden name and then replaces the old one. If the
process is killed at any moment, it leaves the old file or the new one, and perhaps the hidden one,
which nobody reads.
"""

from __future__ import annotations

import codecs
import contextlib
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final


@contextmanager
def in_one_step(path: Path) -> Iterator[int]:
    """Yield a new open file, which replaces ``path`` if the block ends without an error.

    It is locked (``hold``) while it has its hidden name, ``.graphbreak-*.tmp``. Its mode is that of
    any new file. Raises ``OSError``; ``path`` is then unchanged.
    """
    hidden = path.with_name(f".graphbreak-{os.urandom(8).hex()}.tmp")
    handle = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        try:
            hold(handle)
            yield handle
            if os.name != "nt":
                os.replace(hidden, path)
        finally:
            os.close(handle)
        if os.name == "nt":  # Windows neither replaces nor removes an open file
            os.replace(hidden, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(hidden)
        raise


def write(handle: int, data: bytes) -> None:
    """Write all of the data to an open file. Raises ``OSError``."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def hold(handle: int) -> bool:
    """Lock an open file until it is closed; return False if another process holds it.

    The lock ends with the process, so dead owners are recognised.
    """
    try:
        import fcntl
    except ImportError:  # Windows, which does not remove an open file
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


HEADER: Final = "Written by `graphbreak "
"""The beginning of the comment at the top of each file."""
_HEAD: Final = 4096
"""Bytes in which the header is looked for: after ``#!`` and the line of the encoding."""


def is_ours(path: Path) -> bool:
    """Return whether a file has the header of this package; a symlink never counts as such."""
    return is_of(path, "")


def is_of(path: Path, command: str) -> bool:
    """Return whether a file has the header of this package, followed by ``command``."""
    try:
        if path.is_symlink() or not path.is_file():
            return False
        with open(path, "rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return False
    first = head.removeprefix(codecs.BOM_UTF8).splitlines()[:3]
    return any(line.startswith(f"# {HEADER}{command}".encode()) for line in first)


def is_free(path: Path) -> bool:
    """Return whether a name may be written to: there is no such file, or it has the header."""
    return not os.path.lexists(path) or is_ours(path)


def put(path: Path, data: bytes) -> None:
    """Write a file in one step, replacing any file of that name. Raises ``OSError``."""
    with in_one_step(path) as handle:
        write(handle, data)


def probe(path: Path) -> None:
    """Raise ``OSError`` if a file of this name could not be written; nothing is left behind."""
    if os.path.lexists(path):
        if not os.access(path, os.W_OK):
            raise PermissionError(13, "Permission denied", str(path))
        path = path.with_name(f".graphbreak-{os.getpid()}")
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.close(handle)
    with contextlib.suppress(FileNotFoundError):
        path.unlink()


def display_path(path: Path, root: Path | None = None) -> str:
    """Return a path relative to ``root`` or to the current directory, if it is below it."""
    try:
        return str(path.relative_to(Path.cwd() if root is None else root))
    except (ValueError, OSError):
        return str(path)


# Pausing the garbage collector while much is read that is all in use.


@contextmanager
def without_collector() -> Iterator[None]:
    """Pause the garbage collector: millions of objects without a cycle would double the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
