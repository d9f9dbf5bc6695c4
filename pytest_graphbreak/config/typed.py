"""How pytest was started, so that the commands that we print work when they are typed.

``python -m pytest`` puts the current directory on ``sys.path`` and ``pytest`` does not; a
suite's own options, its ini file and its plugins decide what a test does. What only
selects, reports or decorates is left out.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

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
"""Options of pytest and ours that decide what a test is; whether each takes a value."""

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
"""Options that say which tests run, and where: for the same run again."""


_MODULES: Final = {"pytest": "pytest", "graphbreak": "pytest_graphbreak"}


@dataclass(frozen=True, slots=True)
class Typed:
    """What was typed: the words that start pytest, what to keep, and what was selected.

    ``tool`` are the words that start ``graphbreak`` of the same environment. ``below`` is the way
    from the directory where it was typed to the rootdir, from which node ids are named.
    """

    start: tuple[str, ...] = ("pytest",)
    tool: tuple[str, ...] = ("graphbreak",)
    options: tuple[str, ...] = ()
    selection: tuple[str, ...] = ()
    below: str = ""

    def test(self, nodeid: str, *flags: str) -> str:
        """The command for one test."""
        file, mark, rest = nodeid.partition("::")
        path = os.path.join(self.below, file) if self.below else file
        return self._line(flags, (f"{path}{mark}{rest}",))

    def rerun(self, *flags: str) -> str:
        """The command for the same tests once more."""
        return self._line(flags, self.selection)

    def python(self, script: str) -> str:
        """The command that runs a file, where ``start`` is ``python -m pytest``."""
        return _joined((*self.start[:-2], script))

    def graphbreak(self, *words: str) -> str:
        """The command that runs a command of ours."""
        return _joined((*self.tool, *words))

    def _line(self, flags: Iterable[str], rest: Iterable[str]) -> str:
        return _joined((*self.start, *self.options, *flags, *rest))


def _joined(words: Iterable[str]) -> str:
    from pytest_graphbreak.text.safe import printable

    return " ".join(shlex.quote(printable(word)) for word in words)


def typed(config: pytest.Config) -> Typed:
    """How this session was started; in a worker of xdist, how its controller was."""
    sent = getattr(config, "workerinput", {}).get("graphbreak_typed")
    if sent:
        return Typed(**sent)
    here = config.invocation_params.dir
    args = [str(arg) for arg in config.invocation_params.args]
    own = _own_options(config)
    below = os.path.relpath(config.rootpath, here)
    return Typed(
        start=start("pytest", sys.argv[0], sys.orig_argv, here),
        tool=start("graphbreak", sys.argv[0], sys.orig_argv, here),
        options=tuple(_taken(args, {**_KEPT, **own})),
        selection=(*_taken(args, _SELECTS), *_positional(config)),
        below="" if below == os.curdir else below,
    )


def own() -> Typed:
    """How this process, one of our commands, was started: for what it prints to be typed.

    pytest is started by ``python -m pytest``, which finds tests and a package beside them.
    """
    return Typed(
        start=start("pytest", sys.argv[0], sys.orig_argv, Path.cwd()),
        tool=start("graphbreak", sys.argv[0], sys.orig_argv, Path.cwd()),
    )


def start(program: str, script: str, original: Sequence[str], here: Path) -> tuple[str, ...]:
    """The words that start ``pytest`` or ``graphbreak`` as this process was started.

    As short as they still mean this one; from ``graphbreak`` on, pytest is a module of its Python.
    ``script`` is ``sys.argv[0]``, ``original`` is
    ``sys.orig_argv``: the interpreter as it was typed comes first.
    """
    directory, name = os.path.split(script)
    is_script = name in ("pytest", "py.test", "graphbreak")
    runner = _runner(len(original) - is_script)
    if is_script and not (program == "pytest" and name == "graphbreak"):
        wanted = name if program == "pytest" else program
        path = os.path.join(directory, wanted)
        return (*runner, wanted if runner else _short(path, wanted, here))
    if runner:
        return (*runner, "python", "-m", _MODULES[program])
    beside = os.path.join(os.path.dirname(sys.executable), program)
    if program == "graphbreak" and shutil.which(program) == beside:
        return (program,)
    python = sys.executable if is_script or not (original and original[0]) else original[0]
    return (_short(python, os.path.basename(python), here), "-m", _MODULES[program])


def _runner(own_words: int) -> tuple[str, ...]:
    """``uv run`` with its options, where that started this process; else nothing.

    uv puts the environment's directory on PATH for this process alone: ``pytest`` is another in
    the shell where the command is typed, or none. ``own_words`` is how many words of uv's command
    line are those that it started. https://docs.astral.sh/uv/reference/environment/
    """
    if not os.environ.get("UV_RUN_RECURSION_DEPTH"):
        return ()
    try:
        line = Path(f"/proc/{os.getppid()}/cmdline").read_text(encoding="utf-8")
    except (OSError, ValueError):
        line = ""  # no Linux
    words = line.rstrip("\0").split("\0")
    if os.path.basename(words[0]) != "uv" or "run" not in words[: -own_words or None]:
        return ("uv", "run")  # started by a shell, or by a program, that uv started
    return ("uv", *words[1:-own_words])


def _short(path: str, name: str, here: Path) -> str:
    """The name alone where the shell finds this one; else the path, from ``here`` if below."""
    if os.sep not in path or shutil.which(name) == path:
        return name
    if os.path.isabs(path) and Path(path).is_relative_to(here):
        return os.path.relpath(path, here)
    return path


def _own_options(config: pytest.Config) -> dict[str, bool]:
    """The options that conftest files add with ``parser.addoption``, as ``--arch``.

    pytest keeps them apart from those of its own and of most plugins, which have a group
    with a name. It does not say so in public; where it changes they are not kept.
    """
    group = getattr(getattr(config, "_parser", None), "_anonymous", None)
    found: dict[str, bool] = {}
    for option in getattr(group, "options", ()):
        attributes = option.attrs()
        flag = attributes.get("nargs") == 0 or str(attributes.get("action", "")).startswith(
            ("store_", "count", "append_const")
        )
        found |= dict.fromkeys(option.names(), not flag)
    return found


def _taken(args: Sequence[str], wanted: Mapping[str, bool]) -> Iterator[str]:
    """The options of ``wanted`` that were typed, each with its value."""
    rest = iter(args)
    for arg in rest:
        name, equals, _ = arg.partition("=")
        if name in wanted:
            yield arg
            if wanted[name] and not equals:
                yield from ([value] if (value := next(rest, None)) is not None else ())
        elif len(arg) > 2 and arg[0] == "-" != arg[1] and wanted.get(arg[:2]):
            yield arg  # -pNAME, -n4


def _positional(config: pytest.Config) -> tuple[str, ...]:
    given = config.args_source is type(config).ArgsSource.ARGS
    return tuple(config.args) if given else ()
