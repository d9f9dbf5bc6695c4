"""The files that the TT plugin writes its headers to, and what was added to them meanwhile.

The plugin reads the name of the file from a variable when it is loaded, and keeps to it. The
variable may change afterwards, and be put back (``--log-pid`` of tt-xla's suite does so in each
test), so each file that it has named in this process is followed from then on.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from pytest_graphbreak.layers.tt.log import TTLines
from pytest_graphbreak.text.lines import LONGEST, characters

LEVEL: Final = "TTXLA_LOGGER_LEVEL"
FILE: Final = "TTXLA_LOGGER_FILE"
ENOUGH: Final = ("DEBUG", "VERBOSE")
"""Levels at which headers are printed; the plugin knows them only in capitals."""

_BEGIN: Final = b"File verbosity level:"
_DESCRIPTORS: Final = Path("/proc/self/fd")

_log_paths: set[Path] = set()
"""The files that the variable has named while a window was open, in this process."""


def header_file(environ: Mapping[str, str]) -> Path | None:
    """Return the file that the plugin writes headers to, according to these variables."""
    name = environ.get(FILE)
    if not name or environ.get(LEVEL) not in ENOUGH:
        return None
    return Path(os.path.abspath(name))


class LogFiles:
    """The parts that are added to the plugin's log from here on, whichever file that is."""

    def __init__(self) -> None:
        file = header_file(os.environ)
        files = {path for path in _log_paths if path.exists()} | ({file} if file else set())
        self._starts = {path: _size(path) for path in files}
        self._open = _open_sizes() if files else {}
        self._excluded: dict[Path, list[tuple[int, int]]] = {}
        _log_paths.update(files)

    def __bool__(self) -> bool:
        """Return whether any file is followed."""
        return bool(self._starts)

    @contextlib.contextmanager
    def exclude(self) -> Iterator[None]:
        """Leave out what is added inside."""
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
                    grown = _read(file, start, seen, errors, begin) or grown
                    start = end
                grown = _read(file, start, seen, errors) or grown
            except OSError as error:
                errors.append(f"tt: the log {file} cannot be read: {error.strerror or error}")
        seen.finish()
        return grown

    def _follow(self) -> None:
        """Begin to follow the file that the variable names now, if it changed."""
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
    file: Path, start: int, seen: TTLines, errors: list[str], until: int | None = None
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
            seen.line(line)
    return True
