"""The releases of a package that the index offers, as pip is configured to see it."""

from __future__ import annotations

import re
import shutil
import sys
from typing import Final

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from pytest_graphbreak.cli.versions.environment import WORDS, has_pip
from pytest_graphbreak.layers.children.runner import Runner

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,100}[A-Za-z0-9])?")
"""A name of a distribution (PyPA's specification "Names and normalization")."""
_LISTED: Final = "Available versions:"


class ReleaseError(ValueError):
    """There are no such releases. ``words`` are pip's own."""

    def __init__(self, message: str, words: list[str] | None = None) -> None:
        super().__init__(message)
        self.words = words or []


def between(runner: Runner, package: str, good: str, bad: str) -> list[Version]:
    """The releases from ``good`` to ``bad``, from old to new.

    Pre-releases are among them if one of both is one. Raises ``ReleaseError``.
    """
    if not _NAME.fullmatch(package):
        raise ReleaseError(f"--package {package}: not the name of a package")
    first, last = _version("--good", good), _version("--bad", bad)
    if first == last:
        raise ReleaseError(f"--good and --bad are the same release, {good}")
    if first > last:
        raise ReleaseError(
            f"--good {good} is newer than --bad {bad}: turn them round; what is looked for is "
            "the first release that is no longer like --good"
        )
    pre = first.is_prerelease or last.is_prerelease
    offered = _offered(runner, package, pre=pre)
    for option, version in (("--good", first), ("--bad", last)):
        if version not in offered:
            near = ", ".join(str(one) for one in _near(version, offered))
            raise ReleaseError(
                f"{option} {version}: the index offers no such release of "
                f"{canonicalize_name(package)} for this Python; near it: {near or 'none'}"
            )
    return [version for version in offered if first <= version <= last]


def _version(option: str, text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        raise ReleaseError(f"{option} {text}: not a version") from None


def _near(version: Version, offered: list[Version]) -> list[Version]:
    """The five releases around a version that is not among them."""
    at = sum(one < version for one in offered)
    return offered[max(0, at - 3) : at + 2]


def _offered(runner: Runner, package: str, *, pre: bool) -> list[Version]:
    """What ``pip index versions`` tells, oldest first."""
    if has_pip():
        command = [sys.executable, "-I", "-m", "pip"]
    elif found := shutil.which("pip"):
        command = [found]  # uv tells no versions; any pip reads the same configuration
    else:
        raise ReleaseError(
            f"{sys.executable} has no pip, which lists the releases: python -m ensurepip"
        )
    done = runner.run([*command, "index", "versions", *(["--pre"] if pre else []), package])
    if done.code != 0:
        raise ReleaseError(f"--package {package}: pip lists no releases", done.last(WORDS))
    listed = [line for line in done.out.splitlines() if line.startswith(_LISTED)]
    words = listed[0].removeprefix(_LISTED).split(",") if listed else []
    found_versions: set[Version] = set()
    for word in words:
        try:
            found_versions.add(Version(word.strip()))
        except InvalidVersion:
            continue
    return sorted(found_versions)
