"""How pytest was started, so that the printed commands work when they are typed.

``typed_command`` reads it of a session, ``this_command`` of a ``graphbreak`` command; the ``Typed``
that they return makes all commands that are printed: one test again, the same tests, ``accept``.
``python -m pytest`` puts the current directory on ``sys.path`` and ``pytest`` does not; a suite's
own options, its ini file and its plugins decide what a test does. Options that only select, report
or decorate are left out. ``this_run`` returns the run of GitHub Actions that ``accept`` can name.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    import pytest

_KEPT: Final = {
    "-p": True,
    "-c": True,
    "--config-file": True,
    "--rootdir": True,
    "--confcutdir": True,
    "-o": True,
    "--override-ini": True,
    "--import-mode": True,
    "--noconftest": False,
    "--runxfail": False,
    "--graph-budget-dir": True,
    "--graph-budget-profile": True,
    "--graph-budget-device": True,
}
"""Options of pytest and this plugin that affect what a test does; whether each takes a value.

Those of conftest files are added (``_own_options``).
"""

_SELECTS: Final = {
    "-k": True,
    "-m": True,
    "--deselect": True,
    "--ignore": True,
    "--ignore-glob": True,
    "--pyargs": False,
    "-n": True,
    "--numprocesses": True,
    "--dist": True,
    "--forked": False,
    "--boxed": False,
}
"""Options that select which tests run, and where: for repeating the same run."""


_MODULES: Final = {"pytest": "pytest", "graphbreak": "pytest_graphbreak"}
"""What ``python -m`` takes to start each command."""


class Typed(Struct, frozen=True):
    """The typed command: the words that start pytest, options to keep, and the selection.

    ``tool`` are the words that start ``graphbreak`` of the same environment. ``here`` is the
    directory where it was typed, ``root`` the rootdir, from which node ids are named: with ``root``
    ``/x`` and ``here`` ``/x/tests``, ``tests/test_a.py::test_b`` is typed as ``test_a.py::test_b``.
    Both are empty for a ``graphbreak`` command, which prints names as they are. ``baselines`` is
    the directory of the baselines as it is typed there, if a command on reports would look for them
    elsewhere.
    """

    start: tuple[str, ...] = ("pytest",)
    tool: tuple[str, ...] = ("graphbreak",)
    options: tuple[str, ...] = ()
    selection: tuple[str, ...] = ()
    here: str = ""
    root: str = ""
    baselines: str = ""

    def test(self, nodeid: str, *flags: str) -> str:
        """Return the command of pytest for one test."""
        return self._line(flags, (self.path(nodeid),))

    def on_test(self, command: str, nodeid: str) -> str:
        """Return a command of ``graphbreak`` that runs one test, with the options of this run.

        A script has no ``::``, and was named where the command is typed.
        """
        if "::" not in nodeid:
            return self.graphbreak(command, nodeid)
        line = self.graphbreak(command, self.path(nodeid))
        return _with_options(line, self.options) if self.options else line

    def accept(
        self, *reports: str, nodeid: str = "", run: GitHubRun | None = None, prune: bool = False
    ) -> str:
        """Return the command that accepts the counts of reports, of one test or of all.

        If ``run`` made them it is named instead, since the command is typed on another machine, in
        any checkout. With ``prune`` it drops the entries of tests that are gone, too.
        """
        what, tool = reports, self.tool
        if run is not None:
            what, tool = ("--run", run.number), ("graphbreak",)
            what += ("--repo", run.repository) if run.repository else ()
        directory = ("--graph-budget-dir", self.baselines) if self.baselines else ()
        only = ("--tests", nodeid) if nodeid else ()
        pruning = ("--prune",) if prune else ()
        return _join((*tool, "accept", *what, *directory, *only, *pruning))

    def path(self, name: str) -> str:
        """Return a path or node id, which is named from the rootdir, as it is typed."""
        if not self.root:
            return name
        file, mark, test = name.partition("::")
        return f"{os.path.relpath(os.path.join(self.root, file), self.here)}{mark}{test}"

    def rerun(self, *flags: str) -> str:
        """Return the command for the same tests once more."""
        return self._line(flags, self.selection)

    def graphbreak(self, *words: str) -> str:
        """Return the command line of a ``graphbreak`` command."""
        return _join((*self.tool, *words))

    def _line(self, flags: Iterable[str], selection: Iterable[str]) -> str:
        return _join((*self.start, *self.options, *flags, *selection))


def _join(words: Iterable[str]) -> str:
    from pytest_graphbreak.text.safe import printable

    return " ".join(shlex.quote(printable(word)) for word in words)


def _with_options(line: str, options: Sequence[str] = ()) -> str:
    """Return a command that starts pytest itself, with the options that reach it by a variable."""
    words = " ".join(filter(None, (os.environ.get("PYTEST_ADDOPTS"), _join(options))))
    return f"PYTEST_ADDOPTS={shlex.quote(words)} {line}" if words else line


def typed_command(config: pytest.Config) -> Typed:
    """Return how this session was started; in an xdist worker, how its controller was."""
    sent = getattr(config, "workerinput", {}).get("graphbreak_typed")
    if sent:
        return Typed(**sent)
    here = config.invocation_params.dir
    args = [str(arg) for arg in config.invocation_params.args]
    options = _own_options(config)
    return Typed(
        start=start("pytest", sys.argv[0], sys.orig_argv, here),
        tool=start("graphbreak", sys.argv[0], sys.orig_argv, here),
        options=tuple(_typed_options(args, {**_KEPT, **options})),
        selection=(*_typed_options(args, _SELECTS), *_positional(config)),
        here=str(here),
        root=str(config.rootpath),
    )


def this_command(baselines: str | None = None) -> Typed:
    """Return how this process, a ``graphbreak`` command, was started, for the commands it prints.

    pytest is started by ``python -m pytest``, which finds tests and a package beside them.
    ``baselines`` is ``--graph-budget-dir`` as it was typed.
    """
    return Typed(
        start=start("pytest", sys.argv[0], sys.orig_argv, Path.cwd()),
        tool=start("graphbreak", sys.argv[0], sys.orig_argv, Path.cwd()),
        baselines=baselines or "",
    )


def start(program: str, script: str, original: Sequence[str], here: Path) -> tuple[str, ...]:
    """Return the words that start ``pytest`` or ``graphbreak`` as this process was started.

    They are as short as possible. If ``graphbreak`` was started, pytest is a module of its Python::

        typed              "pytest"           "graphbreak"
        pytest             pytest             graphbreak
        python -m pytest   python -m pytest   graphbreak if PATH finds that of this Python,
                                              else python -m pytest_graphbreak
        uv run pytest      uv run pytest      uv run graphbreak

    ``script`` is ``sys.argv[0]``, ``original`` is ``sys.orig_argv``: the interpreter as it was
    typed comes first.
    """
    directory, name = os.path.split(script)
    is_script = name in ("pytest", "py.test", "graphbreak")
    # Of a script, the interpreter was not typed: it comes from the script's first line.
    runner = _runner(len(original) - 1 if is_script else len(original))
    # A script was typed: ``program`` is itself, or the script beside it.
    if is_script and not (program == "pytest" and name == "graphbreak"):
        script_name = name if program == "pytest" else program
        path = os.path.join(directory, script_name)
        return (*runner, script_name if runner else _short(path, script_name, here))
    # A module was typed: ``program`` is a module of the same Python,
    if runner:
        return (*runner, "python", "-m", _MODULES[program])
    # but ``graphbreak`` alone is shorter, if a shell takes it from that Python.
    beside = os.path.join(os.path.dirname(sys.executable), program)
    if program == "graphbreak" and shutil.which(program) == beside:
        return (program,)
    python = sys.executable if is_script or not (original and original[0]) else original[0]
    return (_short(python, os.path.basename(python), here), "-m", _MODULES[program])


def _runner(own_words: int) -> tuple[str, ...]:
    """Return ``uv run`` with its options if that started this process, else nothing.

    uv puts the environment's directory on PATH for this process only, so ``pytest`` is a different
    one, or missing, in the shell where the command is typed. ``own_words`` is how many words of
    uv's command line belong to the command that it started.
    https://docs.astral.sh/uv/reference/environment/
    """
    if not os.environ.get("UV_RUN_RECURSION_DEPTH"):
        return ()
    # uv tells what it starts only that it does; its options are in its own command line.
    try:
        line = Path(f"/proc/{os.getppid()}/cmdline").read_text(encoding="utf-8")
    except (OSError, ValueError):
        line = ""  # not Linux
    words = line.rstrip("\0").split("\0")
    of_uv = words[: len(words) - own_words]
    if os.path.basename(words[0]) != "uv" or "run" not in of_uv:
        return ("uv", "run")  # started by a shell, or by a program, that uv started
    return ("uv", *of_uv[1:])


def _short(path: str, name: str, here: Path) -> str:
    """Return only the name if the shell finds this file, else the path, from ``here`` if below."""
    if os.sep not in path or shutil.which(name) == path:
        return name
    if os.path.isabs(path) and Path(path).is_relative_to(here):
        return os.path.relpath(path, here)
    return path


def _own_options(config: pytest.Config) -> dict[str, bool]:
    """Return the options that conftest files add with ``parser.addoption``, such as ``--arch``.

    pytest keeps them apart from its own options and those of most plugins, which have a named
    group. This is not public; if it changes, they are not kept.
    """
    group = getattr(getattr(config, "_parser", None), "_anonymous", None)
    takes_value: dict[str, bool] = {}
    for option in getattr(group, "options", ()):
        attributes = option.attrs()
        flag = attributes.get("nargs") == 0 or str(attributes.get("action", "")).startswith(
            ("store_", "count", "append_const")
        )
        takes_value |= dict.fromkeys(option.names(), not flag)
    return takes_value


def _typed_options(args: Sequence[str], options: Mapping[str, bool]) -> Iterator[str]:
    """Yield the options of ``options`` that were typed, each with its value.

    The value is the next word (``-p NAME``), or in the same one (``-pNAME``, ``--rootdir=DIR``).
    """
    remaining = iter(args)
    for arg in remaining:
        name, equals, _ = arg.partition("=")
        if name in options:
            yield arg
            if options[name] and not equals:
                yield from ([value] if (value := next(remaining, None)) is not None else ())
            continue
        is_short = len(arg) > 2 and arg[0] == "-" and arg[1] != "-"
        if is_short and options.get(arg[:2]):
            yield arg  # with its value: -pNAME, -n4


def _positional(config: pytest.Config) -> tuple[str, ...]:
    is_typed = config.args_source is type(config).ArgsSource.ARGS
    return tuple(config.args) if is_typed else ()


# The run of GitHub Actions whose counts a command accepts, on another machine.


class GitHubRun(Struct, frozen=True):
    """A run of GitHub Actions. ``repository`` is ``OWNER/NAME``, or ``HOST/OWNER/NAME``."""

    number: str
    repository: str


_REPOSITORY: Final = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
_SERVER: Final = re.compile(r"https?://([\w.-]+(?::\d+)?)/?", re.ASCII)
_PUBLIC: Final = "github.com"
"""The host that ``gh`` takes if the name of a repository has none."""


def this_run(environ: Mapping[str, str] = os.environ) -> GitHubRun | None:
    """Return the run of GitHub Actions that this process is part of, or None elsewhere.

    Source: GitHub's "Default environment variables".
    """
    number, name = environ.get("GITHUB_RUN_ID", ""), environ.get("GITHUB_REPOSITORY", "")
    if environ.get("GITHUB_ACTIONS") != "true" or not number.isascii() or not number.isdigit():
        return None
    if not _REPOSITORY.fullmatch(name):
        return None
    server = _SERVER.fullmatch(environ.get("GITHUB_SERVER_URL", ""))
    host = server[1] if server else _PUBLIC
    return GitHubRun(number, name if host == _PUBLIC else f"{host}/{name}")
