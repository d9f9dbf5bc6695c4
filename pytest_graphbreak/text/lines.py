"""Opens logs and reads them line by line: files, pipes, standard input; plain or gzip.

Lines are text in which each character is a byte (Latin-1): nothing fails to decode, positions are
those in the file, and ``in`` is twice as fast as for bytes. ``text.prefixes.text`` has the words.
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
from collections.abc import Iterator
from functools import partial
from typing import IO, TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


LONGEST: Final = 1024 * 1024
"""Bytes of a line that are read at a time: constants of MLIR have megabytes without an end."""

_GZIP: Final = b"\x1f\x8b"
_OTHERS: Final = {
    b"BZh": ("with bzip2", "bzip2 -dc FILE"),
    b"\xfd7zXZ\x00": ("with xz", "xz -dc FILE"),
    b"\x28\xb5\x2f\xfd": ("with zstd", "zstd -dc FILE"),
    b"\x04\x22\x4d\x18": ("with lz4", "lz4 -dc FILE"),
    b"PK\x03\x04": ("as a zip archive", "unzip -p FILE"),
    b"7z\xbc\xaf\x27\x1c": ("as a 7z archive", "7z x -so FILE"),
    b'{"log"': ("by Docker's driver json-file", "docker logs CONTAINER"),
    codecs.BOM_UTF16_LE: ("as UTF-16", "iconv -f utf-16 -t utf-8 FILE"),
    codecs.BOM_UTF16_BE: ("as UTF-16", "iconv -f utf-16 -t utf-8 FILE"),
}
"""The first bytes of other forms, how that is packed, and the command that unpacks it."""
_LONGEST_MARK: Final = max(map(len, (_GZIP, *_OTHERS)))


def is_packed(head: bytes) -> bool:
    """Return whether a file is gzip, given its beginning.

    Raises ``ValueError`` for a form that cannot be read here, with the command that converts it.
    """
    for mark, (how, command) in _OTHERS.items():
        if head.startswith(mark):
            raise ValueError(f"it is packed {how}: {command} | graphbreak analyze -")
    return head.startswith(_GZIP)


class Source:
    """An opened log: a file, a FIFO, standard input (``-``); gzip or plain.

    Its first bytes show whether it is packed. It is opened once and read once, so that a pipe loses
    nothing. Raises ``OSError`` (or ``ValueError`` for a name that cannot be a file, or an unknown
    packing) if the log cannot be opened. After reading, ``fault`` says why the end of the log is
    missing, if it is.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.fault: str | None = None
        self._file = _stdin() if path == "-" else io.FileIO(path)
        try:
            self._raw = _Raw(self._file)
            self._text = self._open(self._raw.head(_LONGEST_MARK))
        except BaseException:
            self.close()
            raise

    def _open(self, head: bytes) -> io.TextIOWrapper:
        if is_packed(head):
            return characters(gzip.GzipFile(fileobj=io.BufferedReader(self._raw)))
        return characters(io.BufferedReader(self._raw))

    def __iter__(self) -> Iterator[str]:
        """Yield each line with its line break; one longer than ``LONGEST`` in parts."""
        try:
            yield from iter(partial(self._text.readline, LONGEST), "")
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            self.fault = self._damage(error)

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

    def _damage(self, error: Exception) -> str:
        """Return why the end of a packed log is missing, and from where on."""
        if unpacked := cast("gzip.GzipFile", self._text.buffer).tell():
            where, advice = f"after {unpacked:,} bytes of the log", "what came before is read"
        else:
            where = f"within its first {self.taken:,} bytes"
            advice = "nothing of it can be read, so copy it again"
        return f"the .gz is cut off or damaged {where} ({error}); {advice}"


def characters(file: IO[bytes] | io.BufferedIOBase) -> io.TextIOWrapper:
    """Return an opened file as text in which each character is a byte."""
    return io.TextIOWrapper(cast("IO[bytes]", file), encoding="latin-1", newline="\n")


_Readable = io.RawIOBase | io.BufferedIOBase
"""An open file; ``readinto`` returns None if it would have to wait."""


class _Raw(io.RawIOBase):
    """The bytes of an open file from its beginning, after a look at the first ones."""

    def __init__(self, file: _Readable) -> None:
        self._file = file
        self._ahead = b""
        self.taken = 0

    def head(self, count: int) -> bytes:
        """Return the first ``count`` bytes, or a whole shorter file; they stay to be read."""
        while len(self._ahead) < count:
            buffer = bytearray(count - len(self._ahead))
            taken = self._read(memoryview(buffer))
            if not taken:
                break
            self._ahead += buffer[:taken]
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


def _stdin() -> _Readable:
    if sys.stdin is None:
        raise OSError(9, "Standard input is closed", "-")
    return cast("_Readable", sys.stdin.buffer)


def _size(file: _Readable) -> int | None:
    try:
        status = os.fstat(file.fileno())
    except (OSError, ValueError):  # not a file of the system
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
