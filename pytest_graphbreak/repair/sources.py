"""The text of a source file: read in its own encoding, split into lines, and encoded again.

``trial`` and ``child`` read what a program runs, remedies split it into ``lines``, ``patches``
encodes what they make of it, and ``graphbreak fix`` writes it with a comment at its head.
"""

from __future__ import annotations

import io
import re
import tokenize
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct


class SourceError(ValueError):
    """Raised for a file that is not text in the encoding that it declares."""


class SourceFile(Struct, frozen=True):
    """The text of a file, with newlines as line ends whatever the file uses.

    ``encoding`` is the one that its first lines declare (PEP 263), UTF-8 by default.
    """

    text: str
    encoding: str = "utf-8"
    newline: str = "\n"

    def encode(self, text: str) -> bytes:
        """Return another text encoded like this file. Raises ``UnicodeEncodeError``."""
        return text.replace("\n", self.newline).encode(self.encoding)


def read(path: Path) -> SourceFile:
    """Read a file. Raises ``OSError`` and ``SourceError``."""
    try:
        with tokenize.open(path) as file:
            text, ends = file.read(), file.newlines
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise SourceError(f"{path}: its text cannot be read: {error}") from None
    return SourceFile(text, file.encoding, ends if isinstance(ends, str) else "\n")


def lines(text: str) -> list[str]:
    """Return the lines as Python numbers them, with their ends, not split at form feeds."""
    return io.StringIO(text).readlines()


def comments(source: str) -> list[str]:
    """Return the comments of source, as far as it is Python."""
    texts: list[str] = []
    with suppress(tokenize.TokenError, SyntaxError):
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            texts += [token.string] * (token.type == tokenize.COMMENT)
    return texts


_FIRST: Final = re.compile(r"#!|[ \t\f]*#.*?coding[:=]")
"""Lines that only count if they are among the first two: ``#!`` and the encoding (PEP 263)."""


def headed(text: str, header: str) -> str:
    """Return a file with a comment at its head, in ASCII, which is valid in any encoding."""
    rows = lines(text)
    top = max((n for n, line in enumerate(rows[:2], 1) if _FIRST.match(line)), default=0)
    rows[top:top] = [f"# {header.encode('ascii', 'backslashreplace').decode()}\n"]
    return "".join(rows)
