"""Runs pytest in this process and gives back what a person saw on a terminal of 80 columns."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from unittest import mock

import pytest

_OFF: Final = ("CI", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE", "NO_COLOR")
_NO_PLUGINS: Final = (
    # The first two collect garbage at the end of each run.
    *("unraisableexception", "threadexception", "cacheprovider", "faulthandler", "doctest"),
    *("pastebin", "stepwise", "setuponly", "setupplan", "debugging", "legacypath", "junitxml"),
)
_COLOURS: Final = {
    "0": "/",
    "1": "bold",
    "2": "dim",
    "31": "red",
    "32": "green",
    "33": "yellow",
    "34": "blue",
    "35": "purple",
    "36": "cyan",
    "90": "grey",
}
WIDTH: Final = 160
"""Columns of a line of JSON, where something fits on it."""
_INSTALLED: Final = re.compile(r"(/[^\s\"':,]*/)(?:site-packages|lib/python3\.\d+)/")
_TIMES: Final = re.compile(r"\b\d+\.\d\ds\b")
_ESCAPE: Final = re.compile(r"\x1b\[([\d;]*)m")


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def __init__(self, *, real: bool) -> None:
        super().__init__()
        self._real = real

    def isatty(self) -> bool:
        return self._real

    @property
    def text(self) -> str:
        """What was written, colours as ``<red>``, without blanks at the ends of lines."""
        named = _ESCAPE.sub(lambda found: _named(found[1]), self.getvalue())
        return "\n".join(line.rstrip() for line in named.splitlines()) + "\n"


def _named(codes: str) -> str:
    return f"<{' '.join(_COLOURS.get(code, code) for code in (codes or '0').split(';'))}>"


@contextlib.contextmanager
def in_checkout() -> Iterator[Path]:
    """An empty directory, that is gone afterwards."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name).resolve()


@contextlib.contextmanager
def inside(directory: Path, environ: Mapping[str, str], *, terminal: bool) -> Iterator[Terminal]:
    """Work in a directory, with the environment of a developer; what is printed is kept."""
    shown = Terminal(real=terminal)
    known, modules = sys.path[:], set(sys.modules)
    # As in an environment that is active: commands are printed by their names.
    path = os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", "")))
    with (
        mock.patch.dict(os.environ, {"COLUMNS": "80", "TERM": "xterm", "PATH": path, **environ}),
        _chdir(directory),
        contextlib.redirect_stdout(shown),
        contextlib.redirect_stderr(shown),
    ):
        for name in _OFF:
            if name not in environ:
                os.environ.pop(name, None)
        try:
            yield shown
        finally:
            sys.path[:] = known
            _forget(set(sys.modules) - modules, directory)


@contextlib.contextmanager
def _chdir(directory: Path) -> Iterator[None]:
    """``contextlib.chdir``, which came with Python 3.11."""
    before = Path.cwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


def _forget(names: set[str], directory: Path) -> None:
    """The programs of the next run have the same names."""
    for name in names:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file and Path(file).is_relative_to(directory):
            del sys.modules[name]


def run_pytest(typed: Sequence[str], plugins: Sequence[object] = (), added: str = "") -> int:
    """One run without plugins of others, as a person has ``typed`` it. The exit code."""
    off = " ".join(f"-p no:{name}" for name in _NO_PLUGINS)
    ours = f"-p pytest_graphbreak.plugin {off} -s -q --rootdir=. {added}"
    environ = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ours}
    with (
        mock.patch.dict(os.environ, environ),
        mock.patch.object(sys, "argv", ["pytest", *typed]),
        mock.patch.object(sys, "dont_write_bytecode", True),
    ):
        code = pytest.main([*typed], plugins=list(plugins))
    return int(code)


def pretty(data: Any, indent: int = 0) -> str:
    """JSON with each thing on one line that fits there: short to read in a diff."""
    line = json.dumps(data, ensure_ascii=True)
    if indent + len(line) <= WIDTH or not isinstance(data, dict | list) or not data:
        return line
    margin = "\n" + " " * (indent + 1)
    if isinstance(data, dict):
        parts = [f"{json.dumps(key)}: {pretty(value, indent + 1)}" for key, value in data.items()]
        return "{" + margin + f",{margin}".join(parts) + "\n" + " " * indent + "}"
    parts = [pretty(value, indent + 1) for value in data]
    return "[" + margin + f",{margin}".join(parts) + "\n" + " " * indent + "]"


def shortened(data: Any) -> Any:
    """The same with long texts cut: pages of advice are read where they are written."""
    if isinstance(data, dict):
        return {key: shortened(value) for key, value in data.items()}
    if isinstance(data, list):
        return [shortened(value) for value in data]
    return f"{data[:57]}..." if isinstance(data, str) and len(data) > 160 else data


def steady(text: str, top: Path) -> str:
    """The same without what is this machine's: its directories, addresses, times."""
    text = _INSTALLED.sub("/python/site-packages/", text.replace(str(top), "/checkout"))
    return _TIMES.sub("0.00s", re.sub(r"0x[0-9a-f]{6,}", "0x7f", text))
