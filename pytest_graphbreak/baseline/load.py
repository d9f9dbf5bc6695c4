"""The text of a baseline file: all of it, or a ``BaselineError`` that says what is wrong."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from pytest_graphbreak.baseline.model import BaselineError

LARGEST = 32 * 1024 * 1024
"""Bytes of a file that is read; 100,000 tests are about 20 MB."""
_CUT_OFF = re.compile(
    rb"(?:^|[\r\n])(?:[ -]+|[ -]*(?:layer|reason|id|where|code|count):[^\r\n]*)\Z"
)
"""A last line without an end, in a place or before one."""
LONGEST_LINE = 100_000


def load_text(path: Path) -> str | None:
    """The text of a file, with its line ends and byte order mark as they are; None if absent."""
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
            data = stream.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        step = "make it a file that can be read"
        raise BaselineError(_reason(error, "cannot be read"), path=path, step=step) from None
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


def is_cut_off(data: bytes) -> bool:
    """Whether a file may have lost its end: what is left of a place is a place, too."""
    return _CUT_OFF.search(data[-LONGEST_LINE:]) is not None


def _open_at_once(path: str, flags: int) -> int:
    # Opening a named pipe would wait for its other end.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _reason(error: OSError, what: str) -> str:
    return f"{what} ({error.strerror or error})"
