"""Releases of a package, which ``bisect`` searches: the test runs in an environment with each."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_graphbreak.cli.versions import environment
from pytest_graphbreak.cli.versions.environment import Environment, InstallError
from pytest_graphbreak.cli.versions.running import SuiteRun, Tests
from pytest_graphbreak.layers.children.runner import CommandResult, Runner

if TYPE_CHECKING:
    from packaging.version import Version

LARGEST: Final = 2 * 2**20
"""Bytes of a file that is compared."""


class Releases:
    """See ``bisecting.Bisectable``. A release is asked for by its version.

    The environments of the last good and of the first bad one are kept, for the difference
    between them.
    """

    def __init__(
        self,
        runner: Runner,
        package: str,
        versions: Sequence[Version],
        nodeid: str,
        arguments: Sequence[str],
    ) -> None:
        self._runner = runner
        self._package = package
        self.names = [str(version) for version in versions]
        self.good, self.bad = self.names[0], self.names[-1]
        self._tests = Tests(runner, [nodeid, *arguments])
        self._installing = False
        self.environments: dict[str, Environment] = {}

    def between(self, good: Sequence[str], bad: str, skipped: Collection[str]) -> list[str]:
        """See ``Bisectable``. Environments that are needed no more are removed."""
        low, high = max(map(self.names.index, good)), self.names.index(bad)
        for name in {*self.environments} - {self.names[low], bad}:
            environment.remove(self.environments.pop(name))
        inside = self.names[low + 1 : high]
        middle = (low + high) / 2
        return sorted(inside, key=lambda name: abs(self.names.index(name) - middle))

    def before(self, name: str) -> str:
        return self.names[self.names.index(name) - 1]

    def title(self, name: str) -> str:
        return f"{self._package} {name}"

    def label(self, name: str) -> str:
        return name

    def difference(self, before: str, after: str, file: str) -> str:
        old, new = (_text(self.environments.get(name), file) for name in (before, after))
        return "\n".join(difflib.unified_diff(old, new, file, file, before, after, lineterm=""))

    def changed(self, before: str, after: str) -> list[str]:
        """The packages that pip installed with it in other versions."""
        was, now = (
            self.environments[name].installed if name in self.environments else {}
            for name in (before, after)
        )
        return [
            f"{name} {was.get(name, 'as it is here')} -> {now.get(name, 'as it is here')}"
            for name in sorted({*was, *now})
            if was.get(name) != now.get(name)
        ]

    def status(self) -> str:
        return self._runner.status() if self._installing else self._tests.status()

    def measure(self, name: str) -> SuiteRun:
        self._installing = True
        try:
            made = environment.make(self._runner, f"with-{name}", [f"{self._package}=={name}"])
        except InstallError as error:
            environment.remove(Environment("", self._runner.directory / f"with-{name}"))
            said = CommandResult(1, err="\n".join(error.words))
            return SuiteRun(said, None, f"it does not install: {(error.words or [str(error)])[0]}")
        finally:
            self._installing = False
        self.environments[name] = made
        return self._tests.run(made, f"run-{name}", cwd=Path.cwd())


def _text(where: Environment | None, file: str) -> list[str]:
    """The lines of a file that records name; none where there is no such file."""
    path = where.file(file) if where is not None else None
    if path is None or path.stat().st_size > LARGEST:
        return []
    return path.read_text(encoding="utf-8", errors="replace").splitlines()
