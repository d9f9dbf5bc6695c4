"""Reads what is packed (gzip, bzip2, xz) or in UTF-16 as the bytes of its text, part by part.

The first bytes show the kind, not the name. Memory is bounded whatever the file
says of itself: a part has a given size, and a dictionary of xz is refused above ``_MOST_MEMORY``.
"""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Callable
from typing import Final, Protocol

Part = Callable[[int], bytes]
"""Reads at most so many bytes; none at the end. Raises ``Damaged``."""

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
"""Bytes that unpacking xz may take; ``xz -9`` needs 65 MiB."""
_READ: Final = 256 * 1024


class Damaged(ValueError):
    """What is packed is cut off or damaged here."""


class _Codec(Protocol):
    """What ``bz2.BZ2Decompressor`` and ``lzma.LZMADecompressor`` have in common."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


def name(head: bytes) -> str:
    """How a file that begins with ``head`` is packed: ``gz``, ``bz2``, ``xz``; empty if it is not.

    Raises ``ValueError`` for a packing that cannot be read here, with what unpacks it.
    """
    for mark, (how, command) in _OTHERS.items():
        if head.startswith(mark):
            raise ValueError(f"it is packed {how}: {command} FILE | graphbreak analyze -")
    known = {_GZIP: "gz", _BZIP2: "bz2", _XZ: "xz"}
    return next((kind for mark, kind in known.items() if head.startswith(mark)), "")


def unpack(raw: io.RawIOBase, kind: str) -> Part:
    """Read the unpacked bytes of an open file. ``kind`` is what ``name`` gave."""
    file: io.BufferedReader = io.BufferedReader(raw)
    return _gzip(file) if kind == "gz" else _Streams(file, kind).read


def _gzip(file: io.BufferedReader) -> Part:
    opened = gzip.GzipFile(fileobj=file)

    def read(size: int) -> bytes:
        try:
            return opened.read1(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise Damaged(str(error)) from None

    return read


def _codec(kind: str) -> _Codec:
    """Imported only here, since a Python may be built without them."""
    if kind == "bz2":
        import bz2

        return bz2.BZ2Decompressor()
    import lzma

    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MOST_MEMORY)


class _Streams:
    """Packed streams one after the other, as ``cat a.xz b.xz`` and ``pbzip2`` make them."""

    def __init__(self, file: io.BufferedReader, kind: str) -> None:
        self._file = file
        self._kind = kind
        self._codec = _codec(kind)
        self._ahead = b""

    def read(self, size: int) -> bytes:
        while not self._codec.eof or self._follows():
            data = b""
            if self._codec.needs_input:
                data, self._ahead = self._ahead or self._file.read1(_READ), b""
                if not data:
                    raise Damaged("it ends before its end marker")
            if part := self._decompressed(data, size):
                return part
        return b""

    def _decompressed(self, data: bytes, size: int) -> bytes:
        try:
            return self._codec.decompress(data, size)
        except Exception as error:  # OSError of bz2, LZMAError of lzma; no file is read here
            raise Damaged(str(error)) from None

    def _follows(self) -> bool:
        """Whether another stream begins; zeros before it are padding."""
        rest = self._codec.unused_data.lstrip(b"\0")
        while not rest and (more := self._file.read1(_READ)):
            rest = more.lstrip(b"\0")
        self._ahead = rest
        if rest:
            self._codec = _codec(self._kind)
        return bool(rest)


def utf16(head: bytes) -> str:
    """The encoding of text that begins with ``head`` if it is UTF-16, which PowerShell's ``>``
    writes; else empty. Without a byte order mark the zeros of ASCII show it."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if len(head) >= 4 and head[1] == head[3] == 0 and head[0] and head[2]:
        return "utf-16-le"
    if len(head) >= 4 and head[0] == head[2] == 0 and head[1] and head[3]:
        return "utf-16-be"
    return ""


def as_utf8(part: Part, encoding: str) -> Part:
    """The same text in UTF-8; what is no text of the encoding becomes U+FFFD."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    ahead = b""

    def read(size: int) -> bytes:
        nonlocal ahead
        while not ahead:
            data = part(size)
            ahead = decoder.decode(data, final=not data).encode()
            if not data:
                break
        given, ahead = ahead[:size], ahead[size:]
        return given

    return read


def first(head: bytes, part: Part) -> Part:
    """Read ``head``, then what ``part`` reads."""

    def read(size: int) -> bytes:
        nonlocal head
        given, head = head[:size], head[size:]
        return given or part(size)

    return read
