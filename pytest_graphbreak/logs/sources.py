"""Finds the source files that a log names, on the machine that reads it.

A log often comes from elsewhere (``/root/tt-xla/venv/lib/...``). A file is
looked for where the log says, then in the user's own directory, then among the
packages that are installed here. Only regular Python files are ever opened: a
log is not trusted with names of anything else.
"""

from __future__ import annotations

import os
import re
import sys
from functools import lru_cache
from typing import Final

from pytest_graphbreak.places import Places, function_name, is_resume
from pytest_graphbreak.record import Frame

_SITE: Final = re.compile(r".*/(?:site|dist)-packages/(?=.)")
_MACHINERY: Final = re.compile(
    r"/lib(?:64)?/python3\.\d+/(?!(?:site|dist)-packages/)"
    r"|/(?:tt_torch|torch_xla|pjrt_plugin_tt|ttxla_tools|_pytest|pluggy)/"
)
"""Frames that are nobody's model: the standard library, and machinery run from a checkout."""

_LARGEST: Final = 10 * 1024 * 1024
_FILES: Final = 20_000


class Sources:
    """Names places of a log, with their source lines where the files are found here."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self.find = lru_cache(_FILES)(self._find)
        self.is_user = lru_cache(_FILES)(self._is_user)
        self.frame = lru_cache(_FILES)(self._frame)

    def function(self, file: str, line: int, name: str) -> Frame:
        """A function that Dynamo compiled: its definition; of the rest of one, where it goes on."""
        here = self.find(file)
        if is_resume(name) or here is None:
            return self.frame(file, line, name)
        return self._places.definition(here, line, name)

    def _find(self, file: str) -> str | None:
        """The file on this machine, or None."""
        found = _SITE.match(file)
        tail = file[found.end() :] if found else file.lstrip("/")
        candidates = [file]
        if found:
            candidates += [os.path.join(str(self._places.root), tail)]
            candidates += [os.path.join(entry, tail) for entry in sys.path if entry]
        else:
            parts = tail.split("/")
            candidates += [
                os.path.join(str(self._places.root), *parts[index:]) for index in range(len(parts))
            ]
        return next(filter(_readable, candidates), None)

    def _is_user(self, file: str) -> bool:
        return not _MACHINERY.search(file) and self._places.is_user(file)

    def _frame(self, file: str, line: int, name: str = "", code: str | None = None) -> Frame:
        """A line; ``code`` is its text where the log has it, which is truer than a file here."""
        here = self.find(file)
        if here is not None:
            return self._places.frame(here, line, name, code)
        return Frame(self._places.file(file), function_name(name), line, (code or "").strip())


def _readable(file: str) -> bool:
    if not file.endswith(".py") or "\0" in file:
        return False
    try:
        return os.path.isfile(file) and os.path.getsize(file) <= _LARGEST
    except OSError:
        return False
