"""One run of pytest elsewhere, with a report of it."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pytest_graphbreak.cli.elsewhere import WORDS
from pytest_graphbreak.cli.versions import inside
from pytest_graphbreak.cli.versions.environment import Environment
from pytest_graphbreak.layers.children.runner import CommandResult, Runner, tail
from pytest_graphbreak.model.report import RunReport
from pytest_graphbreak.runs import incoming
from pytest_graphbreak.runs.incoming import ReportError

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
