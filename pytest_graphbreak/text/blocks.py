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
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple, cast

if TYPE_CHECKING:
    import bz2
    import lzma

    from _typeshed import WriteableBuffer


# Reads compressed logs (gzip, bzip2, xz) and UTF-16 as the bytes of their text, part by part.
#
# The kind is detected by the first bytes, not by the name. Memory is bounded whatever the file says
# of itself: a part has a given size, and a dictionary of xz is refused above ``_MOST_MEMORY``.

LONGEST_MARK: Final = 6

_GZIP: Final = b"\x1f\x8b"
_BZIP2: Final = b"BZh"
_XZ: Final = b"\xfd7zXZ\x00"
_OTHERS: Final = {
    b"\x28\xb5\x2f\xfd": ("with zstd", "zstd -dc"),
    b"\x04\x22\x4d\x18": ("with lz4", "lz4 -dc"),
    b"PK\x03\x04": ("as a zip archive", "unzip -p"),
    b"7z\xbc\xaf\x27\x1c": ("as a 7z archive", "7z x -so"),
}
_MOST_MEMORY: Final = 256 * 2**20
"""Maximum bytes that unpacking xz may take; ``xz -9`` needs 65 MiB."""
_PART: Final = 256 * 1024
"""Bytes that are read or unpacked at a time, so that damage costs only the end of the log."""


class Damaged(ValueError):
    """Compressed data is cut off or damaged at this point."""


def name(head: bytes) -> str:
    """Return how a file is packed, given its beginning: ``gz``, ``bz2``, ``xz``, or empty.

    Raises ``ValueError`` for a packing that cannot be read here, with the command that unpacks it.
    """
    for mark, (how, command) in _OTHERS.items():
        if head.startswith(mark):
            raise ValueError(f"it is packed {how}: {command} FILE | graphbreak analyze -")
    known = {_GZIP: "gz", _BZIP2: "bz2", _XZ: "xz"}
    return next((kind for mark, kind in known.items() if head.startswith(mark)), "")


def unpack(raw: io.RawIOBase, kind: str) -> Iterator[bytes]:
    """Yield the unpacked bytes of an open file, in parts; ``kind`` is the result of ``name``.

    Raises ``Damaged`` after the part that precedes the damage.
    """
    file: io.BufferedReader = io.BufferedReader(raw)
    if kind != "gz":
        yield from _streams(file, kind)
        return
    opened = gzip.GzipFile(fileobj=file)
    try:
        yield from iter(partial(opened.read1, _PART), b"")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise Damaged(str(error)) from None


def _codec(kind: str) -> bz2.BZ2Decompressor | lzma.LZMADecompressor:
    """Return a decompressor; imported only here, since a Python may be built without it."""
    if kind == "bz2":
        import bz2

        return bz2.BZ2Decompressor()
    import lzma

    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MOST_MEMORY)


def _streams(file: io.BufferedReader, kind: str) -> Iterator[bytes]:
    """Unpack streams one after the other, as made by ``cat a.xz b.xz`` and ``pbzip2``."""
    ahead = b""
    while True:
        codec = _codec(kind)
        while not codec.eof:
            data = b""
            if codec.needs_input:
                data, ahead = ahead or file.read1(_PART), b""
                if not data:
                    raise Damaged("it ends before its end marker")
            try:
                part = codec.decompress(data, _PART)
            except Exception as error:  # OSError of bz2, LZMAError of lzma; no file is read here
                raise Damaged(str(error)) from None
            if part:
                yield part
        ahead = codec.unused_data.lstrip(b"\0")  # zeros before another stream are padding
        while not ahead and (more := file.read1(_PART)):
            ahead = more.lstrip(b"\0")
        if not ahead:
            return


def utf16(head: bytes) -> str:
    """Return the encoding of a text that begins with ``head`` if it is UTF-16, else empty.

    PowerShell's ``>`` writes UTF-16. Without a byte order mark, the zeros in ASCII text show it.
    """
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if len(head) >= 4 and head[1] == head[3] == 0 and head[0] and head[2]:
        return "utf-16-le"
    if len(head) >= 4 and head[0] == head[2] == 0 and head[1] and head[3]:
        return "utf-16-be"
    return ""


def as_utf8(parts: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """Yield the same text in UTF-8; invalid input becomes U+FFFD."""
    return (text.encode() for text in codecs.iterdecode(parts, encoding, "replace"))


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
    """An opened log: a file, a FIFO, standard input (``-``); plain, ``.gz``, ``.bz2`` or ``.xz``.

    Its first bytes show how it is packed, and whether its text is UTF-16. It is opened once and
    read once, so that a pipe loses nothing. Raises ``OSError`` (or ``ValueError`` for a name that
    cannot be a file, or an unknown packing) if the log cannot be opened. After reading, ``fault``
    says why the end of the log is missing, if it is.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.fault: str | None = None
        self._unpacked = 0
        self._ahead = b""
        self._file = _stdin() if path == "-" else io.FileIO(path)
        try:
            self._raw = _Raw(self._file)
            head = self._raw.begins(LONGEST_MARK)
            self.packed = name(head)
            self._parts = self._converted(head)
        except BaseException:
            self.close()
            raise

    def blocks(self, size: int = SIZE, context: int = CONTEXT) -> Iterator[Block]:
        """Return all blocks of the log; each byte is new in exactly one block."""
        return cut(self._convert if self._parts else self._fill, size, context)

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
        while filled < len(view) and (count := self._raw.readinto(view[filled:])):
            filled += count
        return filled

    def _converted(self, head: bytes) -> Iterator[bytes] | None:
        """Return the parts of the text, or None if the bytes of the file are the text."""
        parts = unpack(self._raw, self.packed) if self.packed else iter(self._raw.part, b"")
        if self.packed:
            head = self._next(parts)
            parts = chain([head] if head else [], parts)
        if encoding := utf16(head):
            return as_utf8(parts, encoding)
        return parts if self.packed else None

    def _convert(self, view: memoryview) -> int:
        """Fill ``view`` with converted text."""
        assert self._parts is not None
        filled = 0
        while filled < len(view) and (self._ahead or not self.fault):
            if not self._ahead:
                self._ahead = self._next(self._parts)
                self._unpacked += len(self._ahead)
                if not self._ahead:
                    break
            part = self._ahead[: len(view) - filled]
            view[filled : filled + len(part)] = part
            filled, self._ahead = filled + len(part), self._ahead[len(part) :]
        return filled

    def _next(self, parts: Iterator[bytes]) -> bytes:
        """Return the next part, or nothing at the end or at the ``fault`` of a packed log."""
        try:
            return next(parts, b"")
        except Damaged as error:
            self.fault = self._damaged(error)
            return b""

    def _damaged(self, error: Damaged) -> str:
        """Return why the end of a packed log is missing, and from where on."""
        if not self._unpacked:
            where, rest = f"within its first {self.taken:,} bytes", "nothing of it can be read"
            rest += ", so copy it again"
        else:
            where, rest = f"after {self._unpacked:,} bytes of the log", "what came before is read"
        return f"the .{self.packed} is cut off or damaged {where} ({error}); {rest}"


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

    def part(self) -> bytes:
        return self.read(_PART) or b""

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
