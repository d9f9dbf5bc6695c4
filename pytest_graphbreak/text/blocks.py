"""Opens logs and cuts them into large blocks for bulk searching.

A block ends at the end of a line wherever a line ends in reach, so that what
is searched for is never cut in two. A line longer than a block (a constant of
MLIR has no line breaks) is handed out in parts, each with some of the text
before and after it.
"""

from __future__ import annotations

import io
import os
import select
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, cast

from pytest_graphbreak.text import packed

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

SIZE: Final = 4 * 1024 * 1024
"""Bytes read at a time. Larger blocks are not faster; see benchmarks/logs.py."""

CONTEXT: Final = 4096
"""Bytes around a hit that are in its block, even inside a line that is longer than a block."""

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
    """An opened log: a file, a FIFO, standard input (``-``); plain, ``.gz``, ``.bz2`` or ``.xz``.

    Its first bytes show how it is packed, and whether its text is UTF-16. It is opened
    once and read once, so that a pipe loses nothing. Raises ``OSError`` (or ``ValueError`` for a
    name that can be no file, or an unknown packing) where the log cannot be opened. ``fault``
    says after reading why the end of the log is missing, if it is.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.fault: str | None = None
        self._unpacked = 0
        self._file = _stdin() if path == "-" else _open(path)
        try:
            self._raw = _Raw(self._file)
            head = self._raw.begins(packed.LONGEST_MARK)
            self.packed = packed.name(head)
            self._part = self._parts(head)
        except BaseException:
            self.close()
            raise

    def blocks(self, size: int = SIZE, context: int = CONTEXT) -> Iterator[Block]:
        """All of the log; each byte is new in exactly one block."""
        return cut(self._unpack if self._part else self._fill, size, context)

    @property
    def taken(self) -> int:
        """How many bytes of the file were read so far (packed, if it is)."""
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

    def _parts(self, head: bytes) -> packed.Part | None:
        """What is read part by part; None where the bytes of the file are the text."""
        part = packed.unpack(self._raw, self.packed) if self.packed else self._raw.part
        if self.packed:
            try:
                head = part(packed.LONGEST_MARK)
            except packed.Damaged as error:
                self.fault = self._damaged(error)
                return lambda size: b""
            part = packed.first(head, part)
        encoding = packed.utf16(head)
        if encoding:
            return packed.as_utf8(part, encoding)
        return part if self.packed else None

    def _unpack(self, view: memoryview) -> int:
        """Fill ``view`` in small steps: damage costs the end of the log, not a whole block."""
        assert self._part is not None
        filled = 0
        while filled < len(view) and not self.fault:
            try:
                part = self._part(min(_UNPACK, len(view) - filled))
            except packed.Damaged as error:
                self.fault = self._damaged(error)
                break
            if not part:
                break
            view[filled : filled + len(part)] = part
            filled += len(part)
            self._unpacked += len(part)
        return filled

    def _damaged(self, error: packed.Damaged) -> str:
        """Why the end of a packed log is missing, and from where on."""
        if not self._unpacked:
            where, rest = f"within its first {self.taken:,} bytes", "nothing of it can be read"
            rest += ", so copy it again"
        else:
            where, rest = f"after {self._unpacked:,} bytes of the log", "what came before is read"
        return f"the .{self.packed} is cut off or damaged {where} ({error}); {rest}"


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

    def begins(self, count: int) -> bytes:
        """The first ``count`` bytes, or all of a shorter file; they are handed out later, too."""
        while len(self._ahead) < count:
            more = bytearray(count - len(self._ahead))
            taken = self._read(memoryview(more))
            if not taken:
                break
            self._ahead += more[:taken]
        return self._ahead

    def part(self, size: int) -> bytes:
        return self.read(size) or b""

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
