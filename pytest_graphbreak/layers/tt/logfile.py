"""The file that the TT plugin writes its headers to: turned on, and followed while it grows.

The plugin reads the name of the file from a variable when it is loaded, and keeps to it. So the
variables are set before that, where tests are to run on TT; values of the user's own stay. The
variable may change afterwards, and be put back (``--log-pid`` of tt-xla's suite does so in each
test), so each file that it has named in this process is followed from then on. What is printed, and
when, is read from tt-xla's source (pjrt_implementation/src/utils/logging.cc,
src/api/module_builder/module_builder.cc).
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from pytest_graphbreak.layers.tt.log import TTLines
from pytest_graphbreak.text.lines import LONGEST, characters

LEVEL: Final = "TTXLA_LOGGER_LEVEL"
FILE: Final = "TTXLA_LOGGER_FILE"
ENOUGH: Final = ("DEBUG", "VERBOSE")
"""Levels at which headers are printed; the plugin knows them only in capitals."""

_BEGIN: Final = b"File verbosity level:"
"""What the plugin says first, when it is loaded."""
_DESCRIPTORS: Final = Path("/proc/self/fd")
"""Where Linux lists the files that this process has open."""

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
        # Those of earlier windows are followed, too: the variable may be put back to one of them.
        self._starts = {path: _size(path) for path in files}
        self._open = _open_sizes() if files else {}
        """The files that this process had open then, and their sizes."""
        self._excluded: dict[Path, list[tuple[int, int]]] = {}
        _log_paths.update(files)

    @property
    def is_following(self) -> bool:
        """Whether any file is followed."""
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
                    grown |= _read(file, seen, errors, start=start, until=begin)
                    start = end
                grown |= _read(file, seen, errors, start=start)
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


# Turning the log on, by the variables that the plugin reads when it is loaded.

WANTED: Final[Mapping[str, Mapping[str, str]]] = {
    "headers": {LEVEL: "DEBUG"},
    "full": {LEVEL: "DEBUG", "TTMLIR_RUNTIME_LOGGER_LEVEL": "DEBUG", "XLA_HLO_DEBUG": "1"},
    "off": {},
}
"""The variables that are set, besides the file, for each value of ``graph_budget_tt_log``.

``XLA_HLO_DEBUG`` also changes what runs: tt_torch takes another executor in its
legacy flow, and torch_xla hashes every graph again. So no gate sets it.
"""

_OURS: Final = "graphbreak-tt-"
"""The beginning of the names of our own log directories."""


class _Switch:
    """The log of this process, which is on while anybody needs it."""

    def __init__(self) -> None:
        self._users = 0
        self._process = 0
        """The process that turned it on; a forked child is another."""
        self._added: dict[str, str] = {}
        """The variables that we set."""
        self._before: dict[str, str] = {}
        """Earlier values of what was added: the file of the process that started this one."""
        self._directory: Path | None = None
        """That of the file, if we made it."""

    def switch_on(self, log: str) -> None:
        self._users += 1
        if self._users == 1:
            self._process = os.getpid()
            self._added = self._variables(log)
            self._before = {name: os.environ[name] for name in self._added if name in os.environ}
            os.environ.update(self._added)
            atexit.register(self._end)

    def switch_off(self) -> None:
        self._users -= 1
        if not self._users:
            atexit.unregister(self._end)
            self._end()

    def _variables(self, log: str) -> dict[str, str]:
        """Return what is to be set; nothing if the user's own level prints no headers.

        A file of ours is named by this process, so that the workers of pytest-xdist do not share
        one, though they inherit the variable; a forked child goes on with its parent's.
        """
        if log == "off" or os.environ.get(LEVEL, "DEBUG") not in ENOUGH:
            return {}
        added = {name: text for name, text in WANTED[log].items() if name not in os.environ}
        file, name = Path(os.environ.get(FILE, "")), f"tt-{os.getpid()}.log"
        if not os.environ.get(FILE):
            self._directory = Path(tempfile.mkdtemp(prefix=_OURS))
            added[FILE] = str(self._directory / name)
        elif is_ours(str(file)) and file.name != name:
            added[FILE] = str(file.with_name(name))
        return added

    def _end(self) -> None:
        """Put everything back, except in a forked child, where it is all the parent's.

        What somebody has changed meanwhile stays.
        """
        added, self._added = self._added, {}
        directory, self._directory = self._directory, None
        if os.getpid() != self._process:
            return
        for name, value in added.items():
            if os.environ.get(name) != value:
                continue
            if name in self._before:
                os.environ[name] = self._before[name]
            else:
                del os.environ[name]
        if directory is not None:
            shutil.rmtree(directory, ignore_errors=True)


_switch = _Switch()


def turn_on(log: str = "headers") -> Callable[[], None]:
    """Have the plugin write its log from now on; return a function that turns it off, once.

    ``log`` is a key of ``WANTED``. To be called before the TT device is used in this process. Calls
    nest, and the first one decides. What is left on at the end of the process is put back there.
    """
    _switch.switch_on(log)
    on = contextlib.ExitStack()
    on.callback(_switch.switch_off)
    return on.close


def is_ours(file: str | None) -> bool:
    """Return whether we made the directory of this log."""
    return file is not None and Path(file).parent.name.startswith(_OURS)
