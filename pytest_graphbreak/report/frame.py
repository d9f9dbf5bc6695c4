"""The frame of the HTML pages: one file with its style, its script and its data.

A page loads nothing from elsewhere. Its content security policy contains the hashes of its one
style and its one script, so a browser runs nothing else, whatever the data contains; the script
inserts text only as text.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cached_property
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any, Final

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.text.safe import html, script_json


def fill(name: str, title: str, data: Any) -> str:
    """Return a page of this package with its style, its script and data in it.

    ``name`` is that of the HTML file and of its script, which are preceded by the common parts of
    all pages: ``frame.html`` and ``shared.js``.
    """
    style = _asset("page.css")
    script = f'"use strict";\n(() => {{\n{_asset("shared.js")}\n{_asset(f"{name}.js")}}})();\n'
    return (
        _asset("frame.html")
        .replace("{{body}}", _asset(f"{name}.html"))
        .replace("{{style-hash}}", _hash(style))
        .replace("{{script-hash}}", _hash(script))
        .replace("{{title}}", html(title))
        .replace("{{style}}", style)
        .replace("{{script}}", script)
        # The data comes last, so that nothing in it is replaced.
        .replace("{{data}}", script_json(data))
    )


def _asset(name: str) -> str:
    return (resources.files(__package__) / "assets" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


# Lines of source around a place, read from the checkout that a report is rendered in.
#
# A report is not trusted: it could name any file of this machine in order to show it. So only
# Python files below the root are read, and only if the line that the report quotes is really there.

AROUND: Final = 3
"""The number of lines shown before and after the place."""
_MOST_BYTES: Final = 2 * 2**20
_LONGEST_LINE: Final = 200

Excerpt = tuple[int, list[str]]
"""The number of the first line, and the lines."""


class CheckoutSources:
    """The files of one checkout; each is read once."""

    def __init__(self, root: Path | None) -> None:
        self._given = root
        self._files: dict[str, list[str]] = {}

    @cached_property
    def _root(self) -> Path | None:
        return None if self._given is None else self._given.resolve()

    def excerpt(self, where: Frame) -> Excerpt | None:
        """Return the lines around a place of a report, or None if they cannot be shown."""
        file, number, code = where.file, where.line, where.code
        if not file or not number or not code:
            return None
        if file not in self._files:
            self._files[file] = self._read(file)
        lines = self._files[file]
        if number > len(lines) or lines[number - 1].strip() != code.strip():
            return None  # another version of the file was measured
        first = max(1, number - AROUND)
        return first, [line[:_LONGEST_LINE] for line in lines[first - 1 : number + AROUND]]

    def _read(self, file: str) -> list[str]:
        if self._root is None or PurePosixPath(file).suffix != ".py" or "\0" in file:
            return []
        try:
            path = (self._root / file).resolve()
            if not path.is_relative_to(self._root) or not path.is_file():
                return []
            if path.stat().st_size > _MOST_BYTES:
                return []
            return path.read_text(encoding="utf-8").split("\n")
        except (OSError, ValueError):
            return []
