"""Makes an environment as a layer over the present one that contains only the differences.

It is a virtual environment whose ``site-packages`` come before those of the Python that runs this.
Packages that a request leaves unchanged need not be installed again, and are found below. Only the
layer is written: pip uninstalls nothing outside of the environment that it runs in.

``uv run --with`` is not used, since it resolves the request separately: for transformers 4.57 over
an environment with 5.23 it installs 18 packages (uv 0.13), where the layer installs 7.
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
"""Marks this package as the installer of the metadata copies that uv needs in a layer."""
_ELSEWHERE: Final = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON", "PIP_USER")
"""Variables that would make pip install elsewhere."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A Python, and the directory of its layer, which is None for the present environment."""

    python: str
    directory: Path | None = None
    installed: Mapping[str, str] = field(default_factory=dict)
    """The distributions in the layer and their versions."""
    conflicts: tuple[str, ...] = ()
    """The conflicts that the installer reports."""

    def environ(self) -> dict[str, str]:
        """Return the environment variables for processes in it."""
        found = dict(os.environ)
        if self.directory is not None:
            found.pop("PYTHONHOME", None)
            found["VIRTUAL_ENV"] = str(self.directory)
            here = os.path.dirname(self.python)
            found["PATH"] = os.pathsep.join(filter(None, (here, found.get("PATH"))))
            if before := found.get("PYTHONPATH"):  # it precedes all installed packages
                own = str(_packages(self.directory))
                found["PYTHONPATH"] = os.pathsep.join((own, before))
        return found

    def file(self, name: str) -> Path | None:
        """Return the file of an installed package that records call ``name``, or None."""
        own = [] if self.directory is None else [str(_packages(self.directory))]
        for home in map(os.path.realpath, [*own, *_homes()]):
            path = Path(os.path.realpath(os.path.join(home, name)))
            if path.is_relative_to(home) and path.is_file():
                return path
        return None


def present() -> Environment:
    """Return the environment that runs this."""
    return Environment(sys.executable)


def make(runner: Runner, name: str, requirements: Sequence[str]) -> Environment:
    """Make a layer below the runner's directory with what ``requirements`` ask for.

    Raises ``ElsewhereError`` if there is no installer, or if it fails.
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
    """Remove a layer. The present environment stays."""
    if environment.directory is not None:
        shutil.rmtree(environment.directory, ignore_errors=True)


def _packages(directory: Path) -> Path:
    if os.name == "nt":
        return directory / "Lib" / "site-packages"
    return (
        directory / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    )


def _put_over_the_present_one(directory: Path) -> None:
    """Make the present environment, with its .pth files, visible below the layer."""
    lines = [f"import site; site.addsitedir({home!r})" for home in _homes()]
    # Sorted last by name: it must not precede the packages installed here.
    (_packages(directory) / "zzz_present.pth").write_text("\n".join([*lines, ""]), encoding="utf-8")
    with contextlib.suppress(OSError):
        # The configuration of a virtual environment that pip and uv read.
        shutil.copyfile(Path(sys.prefix) / "pip.conf", directory / "pip.conf")


def _homes() -> list[str]:
    """Return the directories of installed packages of this Python, in search order."""
    known = [*site.getsitepackages()]
    if site.ENABLE_USER_SITE:
        known.append(site.getusersitepackages())
    listed = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    return [path for path in dict.fromkeys([*known, *listed]) if os.path.isdir(path)]


def _tool() -> str:
    """Return ``pip`` if the present environment has it, else ``uv``. Raises ``ElsewhereError``."""
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
    """Make the packages below the layer visible to uv, which only looks into the layer itself."""
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
    """Return whether the present environment has pip.

    Only the path is searched: setuptools puts a finder before it that takes a search for pip for
    the start of pip, and then refuses to be imported itself (``_distutils_hack``).
    """
    return importlib.machinery.PathFinder.find_spec("pip") is not None


def _describe(packages: Path) -> list[Path]:
    """Copy the metadata of the packages in the present environment, without listing code."""
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
    """Return an installer's description of its failure: its errors, or its last lines."""
    lines = [line for line in done.err.splitlines() if line.strip()]
    errors = [n for n, line in enumerate(lines) if line.lstrip().lower().startswith("error")]
    return lines[errors[0] :][:WORDS] if errors else done.last(WORDS)


def _conflicts(done: CommandResult) -> Iterator[str]:
    """Yield the conflicts that an installer reports.

    For example: ``torchvision 0.28 requires torch==2.13, but you have torch 2.15``
    """
    for line in done.err.splitlines():
        if " requires " in line and "which is " in line:
            yield line.strip()


def _installed(directory: Path) -> Iterator[tuple[str, str]]:
    for one in importlib.metadata.distributions(path=[str(_packages(directory))]):
        with contextlib.suppress(Exception):  # damaged metadata has no version
            yield one.metadata["Name"], one.version


# One run of pytest elsewhere, with a report of it.

_ERROR: Final = re.compile(r"E {3,}\S|ERROR:? +\S|usage: ")
"""Matches lines in which pytest says why it ran nothing."""
_RAISED: Final = re.compile(r"E {3,}[A-Za-z_][\w.]{0,100}(?:Error|Exception|Interrupt)\b")
"""Matches those of these lines that name the exception."""


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """The result of a test run. ``report`` is None if there is none, and ``why`` then says why.

    ``words`` are the last lines that were printed. ``outside`` are the modules that the tests
    imported from the user's checkout although they were to run on another commit: top-level name
    and file.
    """

    report: RunReport | None = None
    path: Path = Path()
    why: str = ""
    words: Sequence[str] = ()
    outside: Mapping[str, str] = field(default_factory=dict)


class Tests:
    """Runs pytest with the user's arguments, and reports below the runner's directory."""

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
        command = [environment.python, "-m", "pytest", *first, *self._arguments]
        command += [f"--graph-budget-report={report}", "-p", inside.__name__]
        command += ["-p", "no:graphbreak-github"]
        command += ["-o", f"cache_dir={self._runner.directory / 'cache'}"]
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
        """Return the progress of the run: ``12 of 120 tests``."""
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
    """Return why nothing ran, as one line of pytest's output."""
    said = [line.strip() for line in (*ended.out.splitlines(), *ended.err.splitlines())]
    errors = [line for line in said if _ERROR.match(line)]
    raised = [line for line in errors if _RAISED.match(line)]
    line = (raised[-1:] or errors[:1] or ended.last(1) or ["nothing was printed"])[0]
    return f"{line.removeprefix('E ').strip()} (exit {ended.code})"
