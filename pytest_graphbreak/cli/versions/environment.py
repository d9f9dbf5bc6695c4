"""An environment beside the present one: a layer over it that has what differs, and nothing else.

It is a virtual environment whose ``site-packages`` come before those of the Python that runs
this. What a request leaves as it is need not be installed again, and is found below. Only the
layer is written: pip uninstalls nothing outside of the environment that it runs in.

Not by ``uv run --with``, which resolves what is asked for by itself: of transformers 4.57 over an
environment with 5.23 it installs 18 packages (uv 0.13), where the layer installs 7.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.metadata
import json
import os
import re
import shutil
import site
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pytest_graphbreak.cli.elsewhere import WORDS, ElsewhereError
from pytest_graphbreak.cli.versions import inside
from pytest_graphbreak.layers.children.runner import CommandResult, Runner, tail
from pytest_graphbreak.model.report import RunReport
from pytest_graphbreak.runs import incoming
from pytest_graphbreak.runs.incoming import ReportError

_COPY: Final = "graphbreak"
"""What says that it installed the descriptions that uv is to find in a layer."""
_ELSEWHERE: Final = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON", "PIP_USER")
"""Variables that would have pip install elsewhere."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A Python, and the directory of its layer; none for the present one."""

    python: str
    directory: Path | None = None
    installed: Mapping[str, str] = field(default_factory=dict)
    """What the layer has: names of distributions and their versions."""
    conflicts: tuple[str, ...] = ()
    """What the installer says does not go together."""

    def environ(self) -> dict[str, str]:
        """The variables of processes in it."""
        found = dict(os.environ)
        if self.directory is not None:
            found.pop("PYTHONHOME", None)
            found["VIRTUAL_ENV"] = str(self.directory)
            here = os.path.dirname(self.python)
            found["PATH"] = os.pathsep.join(filter(None, (here, found.get("PATH"))))
            if before := found.get("PYTHONPATH"):  # it comes before all that is installed
                own = str(_packages(self.directory))
                found["PYTHONPATH"] = os.pathsep.join((own, before))
        return found

    def file(self, name: str) -> Path | None:
        """The file of an installed package that records call ``name``; None where there is none."""
        own = [] if self.directory is None else [str(_packages(self.directory))]
        for home in map(os.path.realpath, [*own, *_homes()]):
            path = Path(os.path.realpath(os.path.join(home, name)))
            if path.is_relative_to(home) and path.is_file():
                return path
        return None


def present() -> Environment:
    """The environment that runs this."""
    return Environment(sys.executable)


def make(runner: Runner, name: str, requirements: Sequence[str]) -> Environment:
    """A layer below the runner's directory with what ``requirements`` ask for.

    Raises ``ElsewhereError`` where there is no installer, and where it fails.
    """
    tool = _tool()
    directory = runner.directory / name
    made = runner.run([sys.executable, "-I", "-m", "venv", "--without-pip", str(directory)])
    python = directory / ("Scripts" if os.name == "nt" else "bin") / "python"
    if made.code or not python.exists():
        raise ElsewhereError(
            f"{sys.executable} cannot make a virtual environment", made.last(WORDS)
        )
    layer = Environment(str(python), directory)
    _put_over_the_present_one(directory)
    asked = ", ".join(requirements)
    with _descriptions(tool, layer):
        done = runner.run([*_command(tool, layer), "--", *requirements], environ=_environ(layer))
    if done.code is None:
        message = f"{asked}: {tool} did not install it within {runner.timeout:g} s"
        raise ElsewhereError(message, done.last(WORDS))
    if done.code:
        raise ElsewhereError(f"{asked}: {tool} cannot install it", _words(done))
    return Environment(
        str(python), directory, dict(sorted(_installed(directory))), tuple(_conflicts(done))
    )


def remove(environment: Environment) -> None:
    """Take a layer away. The present environment stays."""
    if environment.directory is not None:
        shutil.rmtree(environment.directory, ignore_errors=True)


def _packages(directory: Path) -> Path:
    if os.name == "nt":
        return directory / "Lib" / "site-packages"
    return (
        directory / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    )


def _put_over_the_present_one(directory: Path) -> None:
    """What the layer has not is found in the present environment, with its .pth files."""
    lines = [f"import site; site.addsitedir({home!r})" for home in _homes()]
    # The last by name: it must not come before what is installed here.
    (_packages(directory) / "zzz_present.pth").write_text("\n".join([*lines, ""]), encoding="utf-8")
    with contextlib.suppress(OSError):
        # What pip and uv read of a virtual environment itself.
        shutil.copyfile(Path(sys.prefix) / "pip.conf", directory / "pip.conf")


def _homes() -> list[str]:
    """The directories of installed packages of this Python, in the order in which it looks."""
    known = [*site.getsitepackages()]
    if site.ENABLE_USER_SITE:
        known.append(site.getusersitepackages())
    listed = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    return [path for path in dict.fromkeys([*known, *listed]) if os.path.isdir(path)]


def _tool() -> str:
    """What installs: pip where the present environment has it, else uv, or ``ElsewhereError``."""
    if has_pip():
        return "pip"
    if shutil.which("uv"):
        return "uv"
    raise ElsewhereError(
        f"{sys.executable} has no pip, and there is no uv on the PATH: "
        "install one of them (python -m ensurepip)"
    )


def _command(tool: str, layer: Environment) -> list[str]:
    if tool == "uv":
        return ["uv", "pip", "install", "--no-progress", "--python", layer.python]
    # The layer's Python finds this pip in the present environment, and installs into its own.
    return [layer.python, "-I", "-m", "pip", "install", "--no-input", "--progress-bar", "off"]


@contextlib.contextmanager
def _descriptions(tool: str, layer: Environment) -> Iterator[None]:
    """For uv, which looks only into the environment that it installs into: what there is below."""
    assert layer.directory is not None
    copies = _describe(_packages(layer.directory)) if tool == "uv" else []
    try:
        yield
    finally:
        for copy in copies:
            with contextlib.suppress(OSError):
                if (copy / "INSTALLER").read_text() == _COPY:
                    shutil.rmtree(copy)


def has_pip() -> bool:
    """Whether the present environment has pip.

    Looked for on the path alone: the finder that setuptools puts before it takes a search for pip
    for the beginning of pip, and then refuses to be imported itself (``_distutils_hack``).
    """
    return importlib.machinery.PathFinder.find_spec("pip") is not None


def _describe(packages: Path) -> list[Path]:
    """Copies of what describes the packages of the present environment; they list no code."""
    copies: list[Path] = []
    for home in _homes():
        for source in Path(home).glob("*.dist-info"):
            copy = packages / source.name
            if copy.exists():
                continue
            with contextlib.suppress(OSError):
                copy.mkdir()
                copies.append(copy)
                for name in ("METADATA", "WHEEL"):
                    shutil.copyfile(source / name, copy / name)
                (copy / "INSTALLER").write_text(_COPY)
                names = ("METADATA", "WHEEL", "INSTALLER", "RECORD")
                (copy / "RECORD").write_text("".join(f"{copy.name}/{one},,\n" for one in names))
    return copies


def _environ(layer: Environment) -> dict[str, str]:
    found = layer.environ()
    for name in _ELSEWHERE:
        found.pop(name, None)
    return found | {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_USER": "0", "NO_COLOR": "1"}


def _words(done: CommandResult) -> list[str]:
    """What an installer says of its failure: its errors, or its last lines."""
    lines = [line for line in done.err.splitlines() if line.strip()]
    errors = [n for n, line in enumerate(lines) if line.lstrip().lower().startswith("error")]
    return lines[errors[0] :][:WORDS] if errors else done.last(WORDS)


def _conflicts(done: CommandResult) -> Iterator[str]:
    """``torchvision 0.28 requires torch==2.13, but you have torch 2.15 which is incompatible.``"""
    for line in done.err.splitlines():
        if " requires " in line and "which is " in line:
            yield line.strip()


def _installed(directory: Path) -> Iterator[tuple[str, str]]:
    for one in importlib.metadata.distributions(path=[str(_packages(directory))]):
        with contextlib.suppress(Exception):  # a damaged description is nobody's version
            yield one.metadata["Name"], one.version


# One run of pytest elsewhere, with a report of it.

_ERROR: Final = re.compile(r"E {3,}\S|ERROR:? +\S|usage: ")
"""Lines in which pytest says why it ran nothing ..."""
_RAISED: Final = re.compile(r"E {3,}[A-Za-z_][\w.]{0,100}(?:Error|Exception|Interrupt)\b")
"""... and what was raised."""


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """What came of it. ``report`` is None where there is none, and ``why`` then says why.

    ``words`` are the last lines that were printed. ``outside`` are the modules that the tests
    imported from the user's checkout, where they were to run with another commit: top-level name
    and file.
    """

    report: RunReport | None = None
    path: Path = Path()
    why: str = ""
    words: Sequence[str] = ()
    outside: Mapping[str, str] = field(default_factory=dict)


class Tests:
    """Runs pytest with the arguments of the user, and reports below the runner's directory."""

    __test__ = False  # for pytest, which collects classes of this name

    def __init__(self, runner: Runner, arguments: Sequence[str]) -> None:
        self._runner = runner
        self._arguments = list(arguments)
        self._progress = runner.directory / "progress"
        self._outside = runner.directory / "outside.json"

    def run(
        self,
        environment: Environment,
        name: str,
        *,
        cwd: Path,
        first: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
    ) -> SuiteRun:
        """Run the tests in ``cwd``. ``first`` are arguments before the user's."""
        report = self._runner.directory / f"{name}.json"
        for path in (report, self._progress, self._outside):
            path.unlink(missing_ok=True)
        command = [
            environment.python,
            "-m",
            "pytest",
            *first,
            *self._arguments,
            f"--graph-budget-report={report}",
            "-p",
            inside.__name__,
            "-p",
            "no:graphbreak-github",
            "-o",
            f"cache_dir={self._runner.directory / 'cache'}",
        ]
        environ = environment.environ() | {
            inside.PROGRESS: str(self._progress),
            inside.OUTSIDE: str(self._outside),
            "PYTHONDONTWRITEBYTECODE": "1",
            **(variables or {}),
        }
        ended = self._runner.run(command, cwd=cwd, environ=environ)
        self._progress.unlink(missing_ok=True)
        return self._result(ended, report)

    def status(self) -> str:
        """How far the run is: ``12 of 120 tests``."""
        return tail(self._progress, 100)

    def _result(self, ended: CommandResult, path: Path) -> SuiteRun:
        outside: dict[str, str] = {}
        with contextlib.suppress(OSError, ValueError):
            outside = json.loads(self._outside.read_text(encoding="utf-8"))
        report = None
        if ended.code is None:
            why = f"it did not end within {self._runner.timeout:g} s"
        elif not path.exists():
            why = _why(ended)
        else:
            try:
                report = incoming.load(path)
                why = "" if report.tests else _why(ended)
            except ReportError as error:
                why = str(error)
        return SuiteRun(None if why else report, path, why, ended.last(WORDS), outside)


def _why(ended: CommandResult) -> str:
    """Why nothing ran, in one line of pytest's."""
    said = [line.strip() for line in (*ended.out.splitlines(), *ended.err.splitlines())]
    errors = [line for line in said if _ERROR.match(line)]
    raised = [line for line in errors if _RAISED.match(line)]
    line = (raised[-1:] or errors[:1] or ended.last(1) or ["nothing was printed"])[0]
    return f"{line.removeprefix('E ').strip()} (exit {ended.code})"


def python_path(*directories: Path) -> dict[str, str]:
    """The variable that puts directories before what is installed."""
    before = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([*map(str, directories), *([before] if before else [])])}
