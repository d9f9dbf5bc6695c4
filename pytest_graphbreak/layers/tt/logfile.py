"""Follows the file that the TT plugin writes its headers to: what is added while a window is open.

The plugin keeps to the file that the variable (``variables.FILE``) names when it is loaded. The
variable may be changed before that and be put back after (``--log-pid`` of tt-xla's suite does so
in each test), and nobody tells which name the plugin has read. So each file that it has named in
this process, while a window was open, is followed from then on, by its size in bytes::

    the window opens    ``LogFiles``                     100
    a wider fixture     ``exclude`` begins and ends      150, 200
    the window closes   ``read``, of what ``TTLines``    250    100 to 150 and 200 to 250 are read
                        takes the lines (``log``)

Source: tt-xla, pjrt_implementation/src/utils/logging.cc.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pytest_graphbreak.layers.tt.log import TTLines
from pytest_graphbreak.layers.tt.variables import header_file
from pytest_graphbreak.text.lines import LONGEST, characters

_BEGIN: Final = b"File verbosity level:"
"""What the plugin says first, when it is loaded."""
_DESCRIPTORS: Final = Path("/proc/self/fd")
"""Where Linux lists the files that this process has open."""

_log_paths: set[Path] = set()
"""The files that the variable has named while a window was open, in this process."""


class LogFiles:
    """The parts that are added to the plugin's log from here on, whichever file that is."""

    def __init__(self) -> None:
        file = header_file(os.environ)
        files = {path for path in _log_paths if path.exists()} | ({file} if file else set())
        # Those of earlier windows are followed, too: the variable may be put back to one of them.
        self._starts = {path: _size(path) for path in files}
        """The files that are followed, and their sizes when they were first."""
        self._open = _open_sizes() if files else {}
        """The files that this process had open then, and their sizes."""
        self._excluded: dict[Path, list[tuple[int, int]]] = {}
        """The parts of each file that are left out, in order and apart: their begins and ends."""
        _log_paths.update(files)

    @property
    def is_following(self) -> bool:
        """Whether any file is followed."""
        return bool(self._starts)

    @contextlib.contextmanager
    def exclude(self) -> Iterator[None]:
        """Leave out what is added inside. Calls do not nest: of wider fixtures that request each
        other the outermost alone is excluded (``suite.phases``)."""
        self._follow()
        before = {file: _size(file) for file in self._starts}
        try:
            yield
        finally:
            self._follow()
            for file, start in self._starts.items():
                begin = before.get(file, start)
                self._excluded.setdefault(file, []).append((begin, _size(file)))

    def read(self, seen: TTLines, errors: list[str]) -> bool:
        """Pass all that was added to ``seen``; return whether there was anything."""
        self._follow()
        grown = False
        for file, start in self._starts.items():
            try:
                for begin, end in self._excluded.get(file, ()):
                    grown |= _read(file, seen, errors, start=start, until=begin)
                    start = end
                grown |= _read(file, seen, errors, start=start)
            except OSError as error:
                errors.append(f"tt: the log {file} cannot be read: {error.strerror or error}")
        seen.finish()
        return grown

    def _follow(self) -> None:
        """Begin to follow the file that the variable names now, if it is another one.

        Where its part begins::

            it was open when the window opened    at its size then: the plugin writes to it
            it was not                            at the last line that the plugin begins with
        """
        file = header_file(os.environ)
        if file is not None and file not in self._starts:
            start = self._open.get(os.path.realpath(file))
            self._starts[file] = _load_offset(file) if start is None else start
            _log_paths.add(file)


def _open_sizes() -> dict[str, int]:
    """Return the size of each file that this process has open: a loaded plugin writes to one.

    The result is empty if the system does not say (TT's own is Linux).
    """
    sizes = {}
    with contextlib.suppress(OSError):
        for descriptor in _DESCRIPTORS.iterdir():
            with contextlib.suppress(OSError):
                sizes[os.readlink(descriptor)] = descriptor.stat().st_size
    return sizes


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _load_offset(file: Path) -> int:
    """Return where this process's lines begin in a file that was not open with the window.

    The plugin appends to the file, and says its level as the first thing when it is loaded.
    """
    try:
        return max(file.read_bytes().rfind(_BEGIN), 0)
    except OSError:
        return 0


def _read(
    file: Path, seen: TTLines, errors: list[str], *, start: int, until: int | None = None
) -> bool:
    """Count what was added to a file since it had ``start`` bytes; return whether anything was.

    With ``until``, only what was added before it had that many bytes is counted.
    """
    size = _size(file) if until is None else until
    if size < start:
        errors.append(f"tt: the log {file} was cut back while its graphs were counted")
        start = 0
    if size == start:
        return False
    with file.open("rb") as stream:
        stream.seek(start)
        lines = characters(stream)
        while start < size and (line := lines.readline(min(size - start, LONGEST))):
            start += len(line)
            seen.add_line(line)
    return True
