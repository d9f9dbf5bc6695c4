"""Downloads the reports of a GitHub Actions run with ``gh``, GitHub's command line."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pytest_graphbreak.artifacts.incoming import ReportError
from pytest_graphbreak.config.typed import GitHubRun
from pytest_graphbreak.text.errors import reason

ARTIFACTS: Final = "graphs*"
"""The names of artifacts with reports in our documentation and workflows."""

# 9876543210
_RUN: Final = re.compile(r"[0-9]+", re.ASCII)
# https://github.com/OWNER/NAME/actions/runs/9876543210/job/1
_URL: Final = re.compile(
    r"https?://([\w.-]+(?::[0-9]+)?/)?([\w.-]+/[\w.-]+)/actions/runs/([0-9]+)\b.*", re.ASCII
)
# OWNER/NAME, HOST/OWNER/NAME
_NAME: Final = re.compile(r"(?:[\w.:-]+/)?[\w.-]+/[\w.-]+", re.ASCII)
_BY_HAND: Final = (
    "or download the artifacts of the run in a browser, and run `graphbreak accept FILE.zip...`"
)


def github_run(run: str, repository: str | None) -> GitHubRun:
    """Return the run of ``--run`` and ``--repo``: a number, or the address of its page.

    Without ``--repo`` the repository is the one that gh finds (``""``). Raises ``ReportError`` for
    anything else.
    """
    address = _URL.fullmatch(run)
    if address is None and not _RUN.fullmatch(run):
        raise ReportError(f"--run: {run!r} is not the number of a run, nor the address of its page")
    if repository is not None and (not _NAME.fullmatch(repository) or repository.startswith("-")):
        raise ReportError(f"--repo: {repository!r} is not OWNER/NAME")
    if address is None:
        return GitHubRun(run, repository or "")
    host, name, number = address.groups()
    address_name = name if host in (None, "github.com/") else f"{host}{name}"
    return GitHubRun(number, repository or address_name)


@contextmanager
def download(run: GitHubRun, pattern: str) -> Iterator[str]:
    """Yield a temporary directory with the artifacts of a run whose names match the pattern.

    Raises ``ReportError`` if gh is missing, is not logged in, or finds nothing.
    """
    with tempfile.TemporaryDirectory(prefix="graphbreak-run-") as directory:
        command = ["gh", "run", "download", run.number, "--dir", directory, "--pattern", pattern]
        if run.repository:
            command += ["--repo", run.repository]
        try:
            download = subprocess.run(
                command,
                env={**os.environ, "GH_PROMPT_DISABLED": "1", "GH_NO_UPDATE_NOTIFIER": "1"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                check=False,
            )
        except OSError as error:
            raise ReportError(
                "--run needs GitHub's command line `gh`, which cannot be run here "
                f"({reason(error)}). Install it from cli.github.com, {_BY_HAND}"
            ) from None
        if download.returncode:
            # gh itself says what is missing: a login, or an artifact of this name.
            words = download.stdout.strip() or f"exit code {download.returncode}"
            where = f"run {run.number}" + (f" of {run.repository}" if run.repository else "")
            raise ReportError(
                f"gh could not download artifacts of {where} whose name fits {pattern!r} "
                f"(--artifact PATTERN):\n{words}\n{_BY_HAND}"
            )
        yield directory
