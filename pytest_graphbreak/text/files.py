"""Files that commands and sessions write: in one step, and only over what is ours.

- ``put`` writes beside the destination under a hidden name, which then replaces the old file. If
  the process is killed at any moment, it leaves the old file or the new one, and perhaps the hidden
  one, which nobody reads.
- ``refuse_foreign`` keeps a command from replacing a file of the user: each kind of file that we
  write begins with a mark (``SCRIPT``, ``LOG``, ``PAGE``, ``REPORT``, ``RESULT``).
- ``display_path`` is how a path is shown, and ``without_collector`` is for whoever reads or writes
  very many files.
"""

from __future__ import annotations

import contextlib
import gc
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pytest_graphbreak.text.errors import UserError


@contextmanager
def in_one_step(path: Path) -> Iterator[int]:
    """Yield a new open file, which replaces ``path`` if the block ends without an error.

    It is locked (``hold``) while it has its hidden name, ``.graphbreak-*.tmp``, so that
    ``baseline.files`` can tell one that somebody is writing from one that a killed process left.
    Its mode is that of any new file. Raises ``OSError``; ``path`` is then unchanged.
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


# Whether a file may be replaced: it is not there, is empty, or begins as what we write does.

HEADER: Final = "Written by `graphbreak "
"""The beginning of the comment at the top of each script."""
LOG_HEADER: Final = f"# {HEADER}run --log`"
"""The first line of each log."""
PAGE_MARK: Final = "<!-- pytest-graphbreak"
"""The beginning of each page, in Markdown and in HTML.

In Markdown, `` -->`` follows in a comment that a bot replaces, and `` page -->`` in any other page.
"""
RESULT_KEY: Final = "written_by"
"""The first key of the JSON of a command that writes no report."""
_HEAD: Final = 4096
"""Bytes in which a mark is looked for: after ``#!`` and the line of the encoding."""

# How each kind of file begins that a command writes, and may replace.
SCRIPT: Final = re.compile(f"(?:\ufeff)?(?:[^\r\n]*(?:\r\n?|\n)){{0,2}}# {HEADER}".encode())
LOG: Final = re.compile(LOG_HEADER.encode())
PAGE: Final = re.compile(f"(?:<!doctype html>\n)?{PAGE_MARK}".encode())
REPORT: Final = re.compile(rb'\{\s*"version"\s*:\s*\d+\s*,\s*"environment"\s*:\s*\{')
RESULT: Final = re.compile(f'\\{{\\s*"{RESULT_KEY}"\\s*:\\s*"graphbreak '.encode())

_KINDS: Final = {
    SCRIPT: "written",
    LOG: "a log written",
    PAGE: "a page written",
    REPORT: "a report written",
    RESULT: "a result written",
}
"""What is said of a file that begins otherwise: ``not a report written by graphbreak``."""


def is_ours(path: Path, command: str = "") -> bool:
    """Return whether a script has our header, followed by ``command``; a symlink never counts."""
    head = b"" if _special(path) else _head(path) or b""
    match = SCRIPT.match(head)
    return match is not None and head.startswith(command.encode(), match.end())


def refuse_foreign(path: Path, mark: re.Pattern[bytes], option: str = "") -> None:
    """Raise ``UserError`` if something is there that may not be replaced.

    A file may be replaced if it begins with the mark (``REPORT``), or is empty. A stream may be
    written to: it loses nothing.
    """
    if what := _obstacle(path, mark):
        words = f"{path} is {what}, and is left as it is; the result would go there"
        raise UserError(f"{option}{words}, so name another file or move this one away")


def _obstacle(path: Path, mark: re.Pattern[bytes]) -> str:
    """Return what is there and may not be replaced, ``a symlink``; empty if nothing is."""
    if is_stream(path) or not os.path.lexists(path):
        return ""
    if what := _special(path):
        return what
    head = _head(path)
    if head is None:
        return "not readable"
    return "" if not head or mark.match(head) else f"not {_KINDS[mark]} by graphbreak"


def _special(path: Path) -> str:
    """Return what a path is instead of a regular file; empty if it is one."""
    if path.is_symlink():
        return "a symlink"
    return "" if path.is_file() else "a directory" if path.is_dir() else "no file"


def _head(path: Path) -> bytes | None:
    """Return the beginning of a file; None if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(_HEAD)
    except OSError:
        return None


def take_away(path: Path, option: str = "") -> None:
    """Remove the report of an earlier run, which would outlive a run that dies.

    Raises ``UserError`` for what is no report.
    """
    refuse_foreign(path, REPORT, option)
    if not is_stream(path):
        with suppress(OSError):  # what prevents it prevents the writing, too
            path.unlink()


def is_stream(path: Path) -> bool:
    """Return whether a path leads to a pipe or a device, such as ``/dev/stdout``."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def put(path: Path, data: bytes) -> None:
    """Write a file in one step, replacing any file of that name. Raises ``OSError``."""
    if is_stream(path):
        path.write_bytes(data)
        return
    with in_one_step(path) as handle:
        write(handle, data)


def probe(path: Path) -> None:
    """Raise ``OSError`` if a file of this name could not be written; nothing is left behind."""
    if os.path.lexists(path):  # ``put`` makes a file beside it, so this tries another name
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
