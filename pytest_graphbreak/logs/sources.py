"""Finds the source files that a log names, on the machine that reads it.

A log often comes from another machine (``/root/tt-xla/venv/lib/...``). A file is looked for at the
path in the log, then in the user's own directories, then among the installed packages. A log is not
trusted: a file that it names is opened only if it is a regular Python file that lies, with links
resolved, below the user's directories, or in an installed package.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Final

from pytest_graphbreak.model.items import Frame
from pytest_graphbreak.model.places import Places

_SITE: Final = re.compile(r".*/(?:site|dist)-packages/(?=.)")
"""What comes before a package's own path: ``/root/venv/lib/python3.12/site-packages/``."""
_MACHINERY: Final = re.compile(
    r"/lib(?:64)?/python3\.\d+/(?!(?:site|dist)-packages/)"
    r"|/(?:tt_torch|torch_xla|pjrt_plugin_tt|ttxla_tools|_pytest|pluggy)/|/bin/(?:pytest|py\.test)$"
)
"""Files of no model: the standard library, and machinery that runs from a checkout."""

_LARGEST: Final = 10 * 1024 * 1024
"""The most bytes of a file that is opened."""
_FILES: Final = 20_000
"""The most answers that are remembered, of files that were looked for and of places."""
_LONGEST: Final = 4096
"""The longest name of a file that is looked for, in characters."""
_DEEPEST: Final = 32
"""The maximum number of directories of a name that are looked for below the user's own."""


class Sources(Places):
    """Names places of a log, with their source lines if the files are found here."""

    def __init__(self, places: Places, directories: Iterable[Path] = ()) -> None:
        """Set the user's directories: the root of ``places`` and ``directories``."""
        super().__init__(places.root)
        self.infra = places.infra
        self._folders = [str(places.root), *map(str, directories)]
        # How the paths of files begin that may be shown: the user's, once links are resolved, and
        # those of packages, as they are.
        self._below = [os.path.join(os.path.realpath(folder), "") for folder in self._folders]
        self._installed = [os.path.join(directory, "") for directory in _packages()]
        self.find = lru_cache(_FILES)(self._find)
        self._cached_frame = lru_cache(_FILES)(super().frame)

    def file(self, filename: str) -> str:
        return super().file(self.find(filename) or filename)

    def frame(self, filename: str, line: int, name: str = "", code: str | None = None) -> Frame:
        """Return the place of a line; ``code`` from the log is preferred to that of a file here."""
        return self._cached_frame(filename, line, name, code)

    def lines(self, file: str) -> list[str]:
        here = self.find(file)
        return [] if here is None else super().lines(here)

    def full_path(self, end: str, line: int, code: str, guess: str) -> str:
        """Return ``guess`` if it ends with ``end``, else a file found here, or an empty string."""
        return guess if guess.endswith(end) else self.find(end) or ""

    def _find(self, file: str) -> str | None:
        """Return the path of the file on this machine, or None.

        For ``/ci/repo/models/yolo.py`` these are tried: that file, and below each of the user's
        directories ``ci/repo/models/yolo.py``, ``repo/models/yolo.py``, ``models/yolo.py`` and
        ``yolo.py``. A file of a package is looked for by its path in the package.
        """
        if not file.endswith(".py") or "\0" in file or len(file) > _LONGEST:
            return None
        candidates = [file] if os.path.isabs(file) else []
        if match := _SITE.match(file):
            tail = file[match.end() :]
            candidates += [
                os.path.join(place, tail) for place in (*self._folders, *self._installed)
            ]
        else:
            parts = file.lstrip("/").split("/")
            candidates += [
                os.path.join(root, *parts[index:])
                for root in self._folders
                for index in range(max(0, len(parts) - _DEEPEST), len(parts))
            ]
        return next(
            (path for path in candidates if self._may_be_shown(path) and _readable(path)), None
        )

    def _may_be_shown(self, file: str) -> bool:
        """Return whether a file may be shown that a log names.

        A checkout may come from others and contain links that lead out of it, so links are
        resolved. Installed packages were installed by the user, who may have linked them from a
        cache.
        """
        try:
            if os.path.normpath(file).startswith(tuple(self._installed)):
                return True
            return os.path.realpath(file).startswith(tuple(self._below))
        except OSError:
            return False

    def is_written(self, filename: str) -> bool:
        return super().is_written(filename) and not _MACHINERY.search(filename)


def _packages() -> list[str]:
    """Return the directories where packages are installed for this Python."""
    return [
        os.path.abspath(entry)
        for entry in sys.path
        if os.path.basename(entry.rstrip("/")) in ("site-packages", "dist-packages")
    ]


def _readable(file: str) -> bool:
    try:
        return os.path.isfile(file) and os.path.getsize(file) <= _LARGEST
    except OSError:
        return False
