"""Opens logs and cuts them into large blocks for bulk searching.

A block ends at the end of a line if one is in reach, so that a searched string is never cut in two.
A line longer than a block (a constant of MLIR has no line breaks) is returned in parts, each with
some of the text before and after it.
"""

from __future__ import annotations

import codecs
import gzip
import io
import os
import select
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import msgspec

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


LONGEST_MARK: Final = 6

_WRAPPED: Final = b'{"log"'
"""The beginning of a log that Docker wrote (its driver ``json-file``)."""
_LONGEST_LINE: Final = 1024 * 1024
"""Bytes of a line that may be a wrapped one; Docker cuts lines at 16 KiB."""

_GZIP: Final = b"\x1f\x8b"
_OTHERS: Final = {
    b"BZh": ("with bzip2", "bzip2 -dc FILE"),
    b"\xfd7zXZ\x00": ("with xz", "xz -dc FILE"),
    b"\x28\xb5\x2f\xfd": ("with zstd", "zstd -dc FILE"),
    b"\x04\x22\x4d\x18": ("with lz4", "lz4 -dc FILE"),
    b"PK\x03\x04": ("as a zip archive", "unzip -p FILE"),
    b"7z\xbc\xaf\x27\x1c": ("as a 7z archive", "7z x -so FILE"),
    codecs.BOM_UTF16_LE: ("as UTF-16", "iconv -f utf-16 -t utf-8 FILE"),
    codecs.BOM_UTF16_BE: ("as UTF-16", "iconv -f utf-16 -t utf-8 FILE"),
}
_PART: Final = 256 * 1024
"""Bytes that are unpacked at a time, so that damage costs only the end of the log."""


def is_packed(head: bytes) -> bool:
    """Return whether a file is gzip, given its beginning.

    Raises ``ValueError`` for a form that cannot be read here, with the command that converts it.
    """
    for mark, (how, command) in _OTHERS.items():
        if head.startswith(mark):
            raise ValueError(f"it is packed {how}: {command} | graphbreak analyze -")
    return head.startswith(_GZIP)


SIZE: Final = 4 * 1024 * 1024
"""Bytes read at a time. Larger blocks are not faster; see benchmarks/logs.py."""

CONTEXT: Final = 4096
"""Bytes around a hit that are in its block, even inside a line that is longer than a block."""


class Block(NamedTuple):
    """A part of a log. Of ``data[:limit]``, the bytes ``start`` to ``end`` are new.

    ``data`` is reused for the next block, so anything to be kept must be copied. ``offset`` is the
    position of ``data[0]`` in the unpacked log, in bytes.
    """

    data: bytearray
    start: int
    end: int
    limit: int
    offset: int


class Source:
    """An opened log: a file, a FIFO, standard input (``-``); gzip, plain, or wrapped by Docker.

    Its first bytes show whether it is packed. It is opened once and read once, so that a pipe loses
    nothing. Raises ``OSError`` (or ``ValueError`` for a name that cannot be a file, or an unknown
    packing) if the log cannot be opened. After reading, ``fault`` says why the end of the log is
    missing, if it is.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.fault: str | None = None
        self._unpacked = 0
        self._file = _stdin() if path == "-" else io.FileIO(path)
        try:
            self._raw = _Raw(self._file)
            head = self._raw.begins(LONGEST_MARK)
            packed = is_packed(head)
            self._gzip = gzip.GzipFile(fileobj=io.BufferedReader(self._raw)) if packed else None
            self._plain = _Unwrapped(self._raw) if head == _WRAPPED else self._raw
        except BaseException:
            self.close()
            raise

    def blocks(self, size: int = SIZE, context: int = CONTEXT) -> Iterator[Block]:
        """Return all blocks of the log; each byte is new in exactly one block."""
        return cut(self._fill, size, context)

    @property
    def taken(self) -> int:
        """The number of bytes of the file that were read so far (packed, if it is)."""
        return self._raw.taken

    @property
    def size(self) -> int | None:
        """The size of the file in bytes, or None if it has no size, such as a pipe."""
        return _size(self._file)

    def close(self) -> None:
        if self.path != "-":
            self._file.close()

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _fill(self, view: memoryview) -> int:
        """Fill ``view`` completely, also from a pipe, which returns little at a time."""
        filled = 0
        while filled < len(view) and (count := self._read(view[filled:])):
            filled += count
        return filled

    def _read(self, view: memoryview) -> int:
        """Read something into ``view``; 0 at the end, or at the ``fault`` of a packed log."""
        if self._gzip is None:
            return self._plain.readinto(view)
        if self.fault:
            return 0
        try:
            part = self._gzip.read1(min(_PART, len(view)))
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            self.fault = self._damaged(error)
            return 0
        view[: len(part)] = part
        self._unpacked += len(part)
        return len(part)

    def _damaged(self, error: Exception) -> str:
        """Return why the end of a packed log is missing, and from where on."""
        if not self._unpacked:
            where, rest = f"within its first {self.taken:,} bytes", "nothing of it can be read"
            rest += ", so copy it again"
        else:
            where, rest = f"after {self._unpacked:,} bytes of the log", "what came before is read"
        return f"the .gz is cut off or damaged {where} ({error}); {rest}"


_Readable = io.RawIOBase | io.BufferedIOBase
"""An open file; ``readinto`` returns None if it would have to wait."""


class _Raw(io.RawIOBase):
    """The bytes of an open file from its beginning, after a look at the first ones."""

    def __init__(self, file: _Readable) -> None:
        self._file = file
        self._ahead = b""
        self.taken = 0

    def begins(self, count: int) -> bytes:
        """Return the first ``count`` bytes, or a whole shorter file; they stay to be read."""
        while len(self._ahead) < count:
            more = bytearray(count - len(self._ahead))
            taken = self._read(memoryview(more))
            if not taken:
                break
            self._ahead += more[:taken]
        return self._ahead

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
        """Read something, 0 at the end; the creator of a pipe may have made it non-blocking."""
        while (count := self._file.readinto(view)) is None:
            select.select([self._file.fileno()], [], [])
        self.taken += count
        return count


class _Wrapped(msgspec.Struct):
    """A line as Docker writes it: ``{"log": "text\\n", "stream": "stderr", "time": "..."}``."""

    log: str


class _Unwrapped(io.RawIOBase):
    """The text of a log whose lines Docker wrapped; a line that is not wrapped stays as it is."""

    def __init__(self, raw: _Raw) -> None:
        self._lines = io.BufferedReader(raw)
        self._decode = msgspec.json.Decoder(_Wrapped).decode
        self._text = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        while not self._text and (line := self._lines.readline(_LONGEST_LINE)):
            self._text = self._unwrapped(line)
        part, self._text = self._text[: len(view)], self._text[len(view) :]
        view[: len(part)] = part
        return len(part)

    def _unwrapped(self, line: bytes) -> bytes:
        try:
            return self._decode(line).log.encode("utf-8", "replace")
        except msgspec.MsgspecError:
            return line


def _stdin() -> _Readable:
    if sys.stdin is None:
        raise OSError(9, "Standard input is closed", "-")
    return cast("_Readable", sys.stdin.buffer)


def _size(file: _Readable) -> int | None:
    try:
        found = os.fstat(file.fileno())
    except (OSError, ValueError):  # not a file of the system
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def cut(
    readinto: Callable[[memoryview], int | None], size: int = SIZE, context: int = CONTEXT
) -> Iterator[Block]:
    """Yield blocks of what ``readinto`` reads. ``size`` must be more than twice ``context``.

    The only buffer holds what was read and at most ``size`` bytes of an unfinished line, whatever
    the length of the lines.
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
