"""Python source as its file has it: its encoding and the ends of its lines are kept."""

from __future__ import annotations

import io
import tokenize
from dataclasses import dataclass
from pathlib import Path


class SourceError(ValueError):
    """A file that is not text in the encoding that it names."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """The text of a file, with ``\\n`` at the end of each line whatever the file has there.

    ``encoding`` is what its first lines say (PEP 263), UTF-8 where they say nothing.
    """

    text: str
    encoding: str = "utf-8"
    newline: str = "\n"

    def encoded(self, text: str) -> bytes:
        """Another text as this file would have it. Raises ``UnicodeEncodeError``."""
        return text.replace("\n", self.newline).encode(self.encoding)


def read(path: Path) -> SourceFile:
    """Raises ``OSError`` and ``SourceError``."""
    data = path.read_bytes()
    try:
        head = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")  # Python knows them all
        encoding, _ = tokenize.detect_encoding(io.BytesIO(head).readline)
        text = data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise SourceError(f"{path}: its text cannot be read: {error}") from None
    counts = {"\r\n": text.count("\r\n")}
    counts |= {one: text.count(one) - counts["\r\n"] for one in ("\n", "\r")}
    newline = max(counts, key=lambda one: (counts[one], one == "\n"))
    return SourceFile(text.replace("\r\n", "\n").replace("\r", "\n"), encoding, newline)


def lines(text: str) -> list[str]:
    """The lines as Python numbers them, with their ends: not cut at form feeds."""
    return io.StringIO(text).readlines()
