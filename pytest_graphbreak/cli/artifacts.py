"""The reports of a run of GitHub Actions, through ``gh``, GitHub's own command line."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pytest_graphbreak.report.accepting import GitHubRun
from pytest_graphbreak.runs.incoming import ReportError

ARTIFACTS: Final = "graphs*"
"""What artifacts that hold reports are called in our pages and workflows."""

_RUN: Final = re.compile(r"[0-9]+", re.ASCII)
_URL: Final = re.compile(
    r"https?://([\w.-]+/)?([\w.-]+/[\w.-]+)/actions/runs/([0-9]+)\b.*", re.ASCII
)
_NAME: Final = re.compile(r"(?:[\w.:-]+/)?[\w.-]+/[\w.-]+", re.ASCII)
_UNKNOWN: Final = 4
"""gh's exit code where nobody is logged in (`gh help exit-codes`)."""
_BY_HAND: Final = (
    "or download the artifacts of the run in a browser, and run `graphbreak accept FILE.zip...`"
)


def named(run: str, repository: str | None) -> GitHubRun:
    """The run that ``--run`` and ``--repo`` name: a number, or the address of its page.

    Without ``--repo`` it is of the repository that gh finds (``""``). Raises
    ``ReportError`` for what is neither.
    """
    address = _URL.fullmatch(run)
    if address is not None:
        host, name, number = address.groups()
        own = name if host in (None, "github.com/") else f"{host}{name}"
        return GitHubRun(number, repository or own)
    if not _RUN.fullmatch(run):
        raise ReportError(f"--run: {run!r} is not the number of a run, nor the address of its page")
    if repository is not None and (not _NAME.fullmatch(repository) or repository.startswith("-")):
        raise ReportError(f"--repo: {repository!r} is not OWNER/NAME")
    return GitHubRun(run, repository or "")


@contextmanager
def downloaded(run: GitHubRun, pattern: str) -> Iterator[str]:
    """A directory with the artifacts of a run whose name fits the pattern, while it is open.

    Raises ``ReportError`` where gh is not there, is not logged in, or finds nothing.
    """
    with tempfile.TemporaryDirectory(prefix="graphbreak-run-") as directory:
        command = ["gh", "run", "download", run.number, "--dir", directory, "--pattern", pattern]
        if run.repository:
            command += ["--repo", run.repository]
        try:
            said = subprocess.run(
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
                f"({error.strerror or error}). Install it from cli.github.com, {_BY_HAND}"
            ) from None
        if said.returncode:
            raise ReportError(_failure(run, pattern, said.returncode, said.stdout))
        yield directory


def _failure(run: GitHubRun, pattern: str, code: int, said: str) -> str:
    where = f"run {run.number}" + (f" of {run.repository}" if run.repository else "")
    words = said.strip() or f"exit code {code}"
    if code == _UNKNOWN or "gh auth login" in said:
        return f"gh is not logged in: run `gh auth login`, or set GH_TOKEN; {_BY_HAND}\n{words}"
    if "no artifact matches" in said or "no valid artifacts" in said:
        return (
            f"{where} has no artifact whose name fits {pattern!r} (or it has expired). Name it "
            f"with --artifact PATTERN; a job keeps its report with actions/upload-artifact\n{words}"
        )
    return f"gh could not download the artifacts of {where}:\n{words}"
