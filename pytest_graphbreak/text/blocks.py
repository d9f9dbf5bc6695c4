"""Opens logs and cuts them into large blocks for bulk searching.

A block ends at the end of a line wherever a line ends in reach, so that what
is searched for is never cut in two. A line longer than a block (a constant of
MLIR has no line breaks) is handed out in parts, each with some of the text
before and after it.
"""

from __future__ import annotations

import gzip
import io
import os
import select
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, cast

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

SIZE: Final = 4 * 1024 * 1024
"""Bytes read at a time. Larger blocks are not faster; see benchmarks/logs.py."""

CONTEXT: Final = 4096
"""Bytes around a hit that are in its block, even inside a line that is longer than a block."""

_GZIP: Final = b"\x1f\x8b"
_UNPACK: Final = 256 * 1024


class Block(NamedTuple):
    """A part of a log. Of ``data[:limit]``, the bytes ``start`` to ``end`` are new.

    ``data`` is used again for the next block: what is to be kept must be copied.
    ``offset`` is the position of ``data[0]`` in the unpacked log, in bytes.
    """

    data: bytearray
    start: int
    end: int
    limit: int
    offset: int


class Source:
    """An opened log: a file, a FIFO, a ``.gz`` (told by its first bytes), standard input (``-``).

    It is opened once and read once, so that a pipe loses nothing. Raises ``OSError``
    (or ``ValueError`` for a name that can be no file) where the log cannot be
    opened. ``fault`` says after reading why the end of the log is missing, if it is.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.fault: str | None = None
        self._file = _stdin() if path == "-" else _open(path)
        try:
            self._raw = _Raw(self._file)
            self.packed = self._raw.begins(_GZIP)
        except OSError:
            self.close()
            raise
        self._gzip = gzip.GzipFile(fileobj=io.BufferedReader(self._raw)) if self.packed else None

    def blocks(self, size: int = SIZE, context: int = CONTEXT) -> Iterator[Block]:
        """All of the log; each byte is new in exactly one block."""
        return cut(self._unpack if self._gzip else self._fill, size, context)

    @property
    def taken(self) -> int:
        """How many bytes were read so far, as they stand in the file (packed, if they are)."""
        return self._raw.taken

    @property
    def size(self) -> int | None:
        """How many there are; None for what has no size, such as a pipe."""
        return _size(self._file)

    def close(self) -> None:
        if self.path != "-":
            self._file.close()

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _fill(self, view: memoryview) -> int:
        """Fill ``view`` from a pipe, too, which hands out little at a time."""
        filled = 0
        while filled < len(view) and (count := self._raw.readinto(view[filled:])):
            filled += count
        return filled

    def _unpack(self, view: memoryview) -> int:
        """Fill ``view`` in small steps: damage costs the end of the log, not a whole block."""
        assert self._gzip is not None
        filled = 0
        while filled < len(view) and not self.fault:
            try:
                part = self._gzip.read1(min(_UNPACK, len(view) - filled))
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                self.fault = self._damaged(error)
                break
            if not part:
                break
            view[filled : filled + len(part)] = part
            filled += len(part)
        return filled

    def _damaged(self, error: Exception) -> str:
        """Why the end of a packed log is missing, and from where on."""
        assert self._gzip is not None
        if (count := self._gzip.tell()) == 0:
            where, rest = f"within its first {self.taken:,} bytes", "nothing of it can be read"
            rest += ", so copy it again"
        else:
            where, rest = f"after {count:,} bytes of the log", "what came before is read"
        return f"the .gz is cut off or damaged {where} ({error}); {rest}"


class _Readable(Protocol):
    """What is asked of an open file; ``readinto`` gives None where it would have to wait."""

    def readinto(self, view: memoryview, /) -> int | None: ...
    def fileno(self) -> int: ...
    def close(self) -> None: ...


class _Raw(io.RawIOBase):
    """The bytes of an open file from its beginning, of which the first were looked at."""

    def __init__(self, file: _Readable) -> None:
        self._file = file
        self._ahead = b""
        self.taken = 0

    def begins(self, mark: bytes) -> bool:
        """Whether the file begins with ``mark``; what is read to know it is handed out later."""
        while len(self._ahead) < len(mark):
            more = bytearray(len(mark) - len(self._ahead))
            count = self._read(memoryview(more))
            if not count:
                break
            self._ahead += more[:count]
        return self._ahead == mark

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        if self._ahead:
            part, self._ahead = self._ahead[: len(view)], self._ahead[len(view) :]
            view[: len(part)] = part
            return len(part)
        return self._read(view)

    def _read(self, view: memoryview) -> int:
        """Read something, 0 at the end. Who made a pipe may have made it non-blocking."""
        while (count := self._file.readinto(view)) is None:
            select.select([self._file.fileno()], [], [])
        self.taken += count
        return count


def _stdin() -> _Readable:
    if sys.stdin is None:
        raise OSError(9, "Standard input is closed", "-")
    return cast("_Readable", sys.stdin.buffer)


def _open(path: str) -> _Readable:
    return Path(path).open("rb", buffering=0)


def _size(file: _Readable) -> int | None:
    try:
        found = os.fstat(file.fileno())
    except (OSError, ValueError):  # no file of the system's
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def cut(
    readinto: Callable[[memoryview], int | None], size: int = SIZE, context: int = CONTEXT
) -> Iterator[Block]:
    """Blocks of what ``readinto`` reads. ``size`` must be more than twice ``context``.

    The one buffer holds what was read and at most ``size`` bytes of an
    unfinished line, whatever the length of the lines.
    """
    buffer = bytearray(2 * size + context)
    view = memoryview(buffer)
    start = filled = offset = 0
    while count := readinto(view[filled : filled + size]):
        filled += count
        end = buffer.rfind(b"\n", start, filled) + 1
        keep = end
        if not end:
            if filled - start < size:
                continue
            end = filled - context
            keep = end - context
        yield Block(buffer, start, end, filled, offset)
        buffer[: filled - keep] = buffer[keep:filled]
        start, filled, offset = end - keep, filled - keep, offset + keep
    if filled > start:
        yield Block(buffer, start, filled, filled, offset)
