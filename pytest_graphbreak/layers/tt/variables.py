"""The variables by which the TT plugin writes a log, and turning that log on.

The plugin reads them once, when it is loaded. So ``turn_on`` sets them before that, where tests or
a script are to run on TT; values of the user's own stay. What is set is put back at the end.
``logfile`` then reads the file that they name. It holds a header for each stage of each graph.

Source: tt-xla, pjrt_implementation/src/utils/logging.cc.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

LEVEL: Final = "TTXLA_LOGGER_LEVEL"
FILE: Final = "TTXLA_LOGGER_FILE"
ENOUGH: Final = ("DEBUG", "VERBOSE")
"""Levels at which headers are printed; the plugin knows them only in capitals."""

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


def header_file(environ: Mapping[str, str]) -> Path | None:
    """Return the file that the plugin writes headers to, according to these variables."""
    name = environ.get(FILE)
    if not name or environ.get(LEVEL) not in ENOUGH:
        return None
    return Path(os.path.abspath(name))


def is_ours(file: str | None) -> bool:
    """Return whether we made the directory of this log."""
    return file is not None and Path(file).parent.name.startswith(_OURS)


def turn_on(log: str = "headers") -> Callable[[], None]:
    """Have the plugin write its log from now on; return a function that turns it off, once.

    ``log`` is a key of ``WANTED``. To be called before the TT device is used in this process. Calls
    nest, and the first one decides. What is left on at the end of the process is put back there.
    """
    _switch.switch_on(log)
    on = contextlib.ExitStack()
    on.callback(_switch.switch_off)
    return on.close


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
        """The directory of the file, if we made it."""

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

        The file is the user's if they named one, else one in a directory of ours::

            /tmp/graphbreak-tt-k3f2/tt-4242.log

        Its name has the id of this process, so that the workers of pytest-xdist, which inherit the
        variable, do not share one. A forked child goes on with its parent's.
        """
        if log == "off" or os.environ.get(LEVEL, "DEBUG") not in ENOUGH:
            return {}
        added = {name: text for name, text in WANTED[log].items() if name not in os.environ}
        file, name = Path(os.environ.get(FILE, "")), f"tt-{os.getpid()}.log"
        if not os.environ.get(FILE):
            self._directory = Path(tempfile.mkdtemp(prefix=_OURS))
            added[FILE] = str(self._directory / name)
        elif is_ours(str(file)) and file.name != name:  # the file of our parent process
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
