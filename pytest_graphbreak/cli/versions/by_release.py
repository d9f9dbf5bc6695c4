"""The releases of a package that ``bisect`` searches; the test runs in an environment of each."""

from __future__ import annotations

import difflib
import re
import shutil
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from pytest_graphbreak.cli.elsewhere import WORDS, ElsewhereError
from pytest_graphbreak.cli.versions import environment
from pytest_graphbreak.cli.versions.environment import Environment, SuiteRun, Tests, has_pip
from pytest_graphbreak.layers.children.runner import Runner

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,100}[A-Za-z0-9])?")
"""The name of a distribution (PyPA's specification "Names and normalization")."""
_LISTED: Final = "Available versions:"
LARGEST: Final = 2 * 2**20
"""The largest file that is compared, in bytes."""


class Releases:
    """Releases as ``bisecting.Bisectable``, with their versions as names.

    The environments of the last good and the first bad one are kept, for the difference between
    them.
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
        """See ``Bisectable``. Environments that are no longer needed are removed."""
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
        """Return the packages that pip installed with it in other versions."""
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
        except ElsewhereError as error:
            environment.remove(Environment("", self._runner.directory / f"with-{name}"))
            why = f"it does not install: {(error.words or [str(error)])[0]}"
            return SuiteRun(why=why, words=error.words)
        finally:
            self._installing = False
        self.environments[name] = made
        return self._tests.run(made, f"run-{name}", cwd=Path.cwd())


def _text(where: Environment | None, file: str) -> list[str]:
    """Return the lines of a file that records name; empty if there is no such file."""
    path = where.file(file) if where is not None else None
    if path is None or path.stat().st_size > LARGEST:
        return []
    return path.read_text(encoding="utf-8", errors="replace").splitlines()


# the releases that the index offers, as pip is configured to see it


def between(runner: Runner, package: str, good: str, bad: str) -> list[Version]:
    """Return the releases from ``good`` to ``bad``, oldest first.

    Pre-releases are included if one of the two is one. Raises ``ElsewhereError``.
    """
    if not _NAME.fullmatch(package):
        raise ElsewhereError(f"--package {package}: not the name of a package")
    first, last = _version("--good", good), _version("--bad", bad)
    if first == last:
        raise ElsewhereError(f"--good and --bad are the same release, {good}")
    if first > last:
        raise ElsewhereError(
            f"--good {good} is newer than --bad {bad}: turn them round; what is looked for is "
            "the first release that is no longer like --good"
        )
    pre = first.is_prerelease or last.is_prerelease
    offered = _offered(runner, package, pre=pre)
    for option, version in (("--good", first), ("--bad", last)):
        if version not in offered:
            near = ", ".join(str(one) for one in _near(version, offered))
            raise ElsewhereError(
                f"{option} {version}: the index offers no such release of "
                f"{canonicalize_name(package)} for this Python; near it: {near or 'none'}"
            )
    return [version for version in offered if first <= version <= last]


def _version(option: str, text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        raise ElsewhereError(f"{option} {text}: not a version") from None


def _near(version: Version, offered: list[Version]) -> list[Version]:
    """Return the five releases around a version that is not among them."""
    at = sum(one < version for one in offered)
    return offered[max(0, at - 3) : at + 2]


def _offered(runner: Runner, package: str, *, pre: bool) -> list[Version]:
    """Return the versions that ``pip index versions`` lists, oldest first."""
    if has_pip():
        command = [sys.executable, "-I", "-m", "pip"]
    elif found := shutil.which("pip"):
        command = [found]  # uv lists no versions; any pip reads the same configuration
    else:
        raise ElsewhereError(
            f"{sys.executable} has no pip, which lists the releases: python -m ensurepip"
        )
    done = runner.run([*command, "index", "versions", *(["--pre"] if pre else []), package])
    if done.code != 0:
        raise ElsewhereError(f"--package {package}: pip lists no releases", done.last(WORDS))
    listed = [line for line in done.out.splitlines() if line.startswith(_LISTED)]
    words = listed[0].removeprefix(_LISTED).split(",") if listed else []
    found_versions: set[Version] = set()
    for word in words:
        try:
            found_versions.add(Version(word.strip()))
        except InvalidVersion:
            continue
    return sorted(found_versions)
