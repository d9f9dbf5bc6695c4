"""What ``fix`` and ``repro`` write, told from what is the user's: nothing else is ever replaced."""

from __future__ import annotations

import codecs
import contextlib
import os
from pathlib import Path
from typing import Final

from pytest_graphbreak.text.files import in_one_step, write

HEADER: Final = "Written by `graphbreak "
"""Begins the comment at the head of each file."""
_MOST: Final = 4096
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
            head = file.read(_MOST)
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
