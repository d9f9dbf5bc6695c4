"""Opens logs and cuts them into large blocks for bulk searching.

A block ends at the end of a line wherever a line ends in reach, so that what
is searched for is never cut in two. A line longer than a block (a constant of
MLIR has no line breaks) is handed out in parts, each with some of the text
before and after it.
"""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, cast

SIZE: Final = 4 * 1024 * 1024
"""Bytes read at a time. Larger blocks are not faster; see tests/benchmarks/logs.py."""

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
    """An opened log: a file, a ``.gz`` file (told by its first bytes), standard input (``-``).

    Raises ``OSError`` (or ``ValueError`` for a name that can be no file) where
    the log cannot be opened. ``fault`` says after reading why the end of the
    log is missing, if it is.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.fault: str | None = None
        self._stream = _stdin() if path == "-" else _file(path)
        self.packed = self._stream.peek(2)[:2] == _GZIP
        self._gzip = gzip.GzipFile(fileobj=self._stream) if self.packed else None

    def blocks(self, size: int = SIZE, context: int = CONTEXT) -> Iterator[Block]:
        """All of the log; each byte is new in exactly one block."""
        return cut(self._unpack if self._gzip else self._stream.readinto, size, context)

    def close(self) -> None:
        if self.path != "-":
            self._stream.close()

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _unpack(self, view: memoryview) -> int:
        """Fill ``view`` in small steps: damage costs the end of the log, not a whole block."""
        assert self._gzip is not None
        filled = 0
        while filled < len(view) and not self.fault:
            try:
                part = self._gzip.read1(min(_UNPACK, len(view) - filled))
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                self.fault = f"the .gz is cut off or damaged ({error}); what came before is read"
                break
            if not part:
                break
            view[filled : filled + len(part)] = part
            filled += len(part)
        return filled


def _stdin() -> io.BufferedReader:
    if sys.stdin is None:
        raise OSError(9, "Standard input is closed", "-")
    stream: BinaryIO = sys.stdin.buffer
    if isinstance(stream, io.BufferedReader):
        return stream
    return io.BufferedReader(cast("io.RawIOBase", stream))


def _file(path: str) -> io.BufferedReader:
    if Path(path).is_dir():
        raise IsADirectoryError(21, "Is a directory", path)
    return Path(path).open("rb")


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
