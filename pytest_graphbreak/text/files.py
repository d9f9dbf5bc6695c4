"""Files: written in one step, locked while open, with our header; their paths as they are typed.

A file is written beside its place under a hidden name and then takes the place of
the old one. Killed at any moment, the process leaves the old file or the new one,
and perhaps the hidden one, which nobody reads.
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
    """A new open file, which takes the place of ``path`` when the block ends well.

    It is held (``hold``) while it has its hidden name, ``.graphbreak-*.tmp``. Its
    mode is that of any new file. Raises ``OSError``; ``path`` is then as it was.
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
        if os.name == "nt":  # where no file that is open is replaced, and none is removed
            os.replace(hidden, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(hidden)
        raise


def write(handle: int, data: bytes) -> None:
    """Write all of it to an open file. Raises ``OSError``."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def hold(handle: int) -> bool:
    """Lock an open file until it is closed; False if another process holds it.

    Its holder loses it with its life, so dead owners are known.
    """
    try:
        import fcntl
    except ImportError:  # Windows, which removes no file that is open
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


HEADER: Final = "Written by `graphbreak "
"""Begins the comment at the head of each file."""
_HEAD: Final = 4096
"""Bytes in which the header is looked for: behind ``#!`` and the line of the encoding."""


def is_ours(path: Path) -> bool:
    """Whether a file has our header. A symlink is the user's, wherever it leads."""
    return is_of(path, "")


def is_of(path: Path, command: str) -> bool:
    """Whether a file is ours, and its header goes on with ``command``."""
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
    """Whether a name may be written to: nobody has it, or the file is ours."""
    return not os.path.lexists(path) or is_ours(path)


def put(path: Path, data: bytes) -> None:
    """Write a file in one step, in place of one of that name. Raises ``OSError``."""
    with in_one_step(path) as handle:
        write(handle, data)


def probe(path: Path) -> None:
    """Raises ``OSError`` where a file of this name could not be written; nothing is left."""
    if os.path.lexists(path):
        if not os.access(path, os.W_OK):
            raise PermissionError(13, "Permission denied", str(path))
        path = path.with_name(f".graphbreak-{os.getpid()}")
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.close(handle)
    with contextlib.suppress(FileNotFoundError):
        path.unlink()


def shown(path: Path, root: Path | None = None) -> str:
    """A path relative to ``root`` or to the current directory, if it is below it."""
    try:
        return str(path.relative_to(Path.cwd() if root is None else root))
    except (ValueError, OSError):
        return str(path)


# The garbage collector, paused while much is read that is all in use.


@contextmanager
def uncollected() -> Iterator[None]:
    """Pause it: millions of objects without a cycle double its time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
