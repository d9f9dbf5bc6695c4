"""Reads Python source: a file as it is, its functions by name, and its imports."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

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
    data = path.read_bytes()
    try:
        head = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")  # Python accepts all of them
        encoding, _ = tokenize.detect_encoding(io.BytesIO(head).readline)
        text = data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise SourceError(f"{path}: its text cannot be read: {error}") from None
    counts = {"\r\n": text.count("\r\n")}
    counts |= {end: text.count(end) - counts["\r\n"] for end in ("\n", "\r")}
    newline = max(counts, key=lambda end: (counts[end], end == "\n"))
    return SourceFile(text.replace("\r\n", "\n").replace("\r", "\n"), encoding, newline)


def lines(text: str) -> list[str]:
    """Return the lines as Python numbers them, with their ends, not split at form feeds."""
    return io.StringIO(text).readlines()


Function = ast.FunctionDef | ast.AsyncFunctionDef


def find(source: str, name: str) -> Function | None:
    """Return the ``def`` of a qualified name, as Python writes it, or None."""
    return next((node for full, node in _functions(ast.parse(source)) if full == name), None)


def _functions(node: ast.AST, outer: str = "") -> Iterator[tuple[str, Function]]:
    for child in ast.iter_child_nodes(node):
        inner = outer
        if isinstance(child, Function | ast.ClassDef):
            name = f"{outer}{child.name}"
            inner = f"{name}." if isinstance(child, ast.ClassDef) else f"{name}.<locals>."
            if isinstance(child, Function):
                yield name, child
        yield from _functions(child, inner)


def imports(source: str) -> dict[str, str]:
    """Return the names that the imports at the top of a file bind, with their full names."""
    names: dict[str, str] = {}
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                top = alias.name.partition(".")[0]
                names[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(statement, ast.ImportFrom) and not statement.level:
            for alias in statement.names:
                names[alias.asname or alias.name] = f"{statement.module}.{alias.name}"
    return names
