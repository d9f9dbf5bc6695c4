"""Turns the log of tt-xla's plugin on, by the variables that the plugin reads when it is loaded.

It reads them once, so ``turn_on`` sets them before that, where tests are to run on TT. Values of
the user's own stay, and the file that they name is the one that is followed. What is printed, and
when, is read from tt-xla's source (pjrt_implementation/src/utils/logging.cc,
src/api/module_builder/module_builder.cc).
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from pytest_graphbreak.layers.tt.files import ENOUGH, FILE, LEVEL

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


class Prepared(Struct, frozen=True):
    """The variables that ``prepare_environment`` set.

    ``before`` has the earlier values of those that were set already (to the file of the process
    that started this one). ``directory`` is the one that we made for the file, if we did.
    """

    added: Mapping[str, str] = {}
    before: Mapping[str, str] = {}
    directory: Path | None = None

    def restore(self, environ: MutableMapping[str, str] | None = None) -> None:
        """Put back the variables that still have our values, and remove our directory."""
        target = os.environ if environ is None else environ
        for name, value in self.added.items():
            if target.get(name) != value:
                continue
            if name in self.before:
                target[name] = self.before[name]
            else:
                del target[name]
        if self.directory is not None:
            shutil.rmtree(self.directory, ignore_errors=True)


def prepare_environment(
    environ: MutableMapping[str, str] | None = None,
    directory: Path | None = None,
    log: str = "headers",
) -> Prepared:
    """Turn on the plugin's log, by the variables that it reads when it is loaded.

    ``log`` is a key of ``WANTED``. To be called before the TT device is used in this process. A
    file of ours goes to ``directory`` (default: a new temporary one, which ``restore`` removes) and
    is named by this process, so that the workers of pytest-xdist do not share one, though they
    inherit the variable; a forked child goes on with its parent's. If the user's own level prints
    no headers, nothing is set.
    """
    target = os.environ if environ is None else environ
    if log == "off" or target.get(LEVEL, "DEBUG") not in ENOUGH:
        return Prepared()
    variables = {name: value for name, value in WANTED[log].items() if name not in target}
    new_directory = None
    if not target.get(FILE) or _inherited_directory(target[FILE]):
        place = directory or _inherited_directory(target.get(FILE, ""))
        if place is None:
            place = new_directory = Path(tempfile.mkdtemp(prefix=_OURS))
        variables[FILE] = str(place / f"tt-{os.getpid()}.log")
    before = {name: target[name] for name in variables if name in target}
    target.update(variables)
    return Prepared(variables, before, new_directory)


def _inherited_directory(file: str) -> Path | None:
    """Return the directory of our log if the process that started this one made it; else None."""
    path = Path(file)
    if path.parent.name.startswith(_OURS) and path.name != f"tt-{os.getpid()}.log":
        return path.parent
    return None


class _Switch:
    """The log of this process, which is on while anybody needs it."""

    def __init__(self) -> None:
        self.prepared: Prepared | None = None
        self._users = 0
        self._process = 0

    def switch_on(self, log: str) -> None:
        self._users += 1
        if self.prepared is None:
            self.prepared = prepare_environment(log=log)
            self._process = os.getpid()
            atexit.unregister(self.end)
            atexit.register(self.end)

    def switch_off(self) -> None:
        self._users -= 1
        if self._users == 0:
            self.end()

    def end(self) -> None:
        """Put everything back, except in a forked child, where it is all the parent's."""
        prepared, self.prepared = self.prepared, None
        if prepared is not None and os.getpid() == self._process:
            prepared.restore()


_switch = _Switch()


def turn_on(log: str = "headers") -> Callable[[], None]:
    """Have the plugin write its log from now on; return a function that turns it off, once.

    ``log`` is a key of ``WANTED``. Calls nest, and the first one decides. What is
    left on at the end of the process is put back there.
    """
    _switch.switch_on(log)
    calls = [_switch.switch_off]

    def turn_off() -> None:
        while calls:
            calls.pop()()

    return turn_off


def is_ours(file: str | None) -> bool:
    """Return whether we made the directory of this log."""
    return file is not None and Path(file).parent.name.startswith(_OURS)
