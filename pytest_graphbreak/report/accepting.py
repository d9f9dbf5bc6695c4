"""The command that accepts the counts of a run that is over and whose machine is gone.

On GitHub, it is one line that names the run and works in any checkout with ``gh``; elsewhere it
names the report. Variables: GitHub's "Default environment variables".
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_REPOSITORY: Final = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
_SERVER: Final = re.compile(r"https?://([\w.-]+(?::\d+)?)/?", re.ASCII)
_PUBLIC: Final = "github.com"


@dataclass(frozen=True, slots=True)
class GitHubRun:
    """A run of GitHub Actions. ``repository`` is ``OWNER/NAME``, or ``HOST/OWNER/NAME``."""

    number: str
    repository: str


def this_run(environ: Mapping[str, str] = os.environ) -> GitHubRun | None:
    """Return the run of GitHub Actions that this process is part of, or None elsewhere."""
    number, name = environ.get("GITHUB_RUN_ID", ""), environ.get("GITHUB_REPOSITORY", "")
    if environ.get("GITHUB_ACTIONS") != "true" or not number.isascii() or not number.isdigit():
        return None
    if not _REPOSITORY.fullmatch(name):
        return None
    server = _SERVER.fullmatch(environ.get("GITHUB_SERVER_URL", ""))
    host = server[1] if server else _PUBLIC
    return GitHubRun(number, name if host == _PUBLIC else f"{host}/{name}")


def command(
    reports: str, nodeid: str | None = None, run: GitHubRun | None = None, tool: str = "graphbreak"
) -> str:
    """Return the command that accepts the counts of a run, of one test or of all.

    ``tool`` is the command that starts ``graphbreak`` here; with ``run``, it is always
    ``graphbreak``, since the command is used on another machine.

    ``reports`` are the reports with the counts, quoted for a shell; they are used if there is no
    ``run`` of GitHub Actions to name.
    """
    what = reports
    if run is not None:
        tool = "graphbreak"
        what = f"--run {run.number}" + (f" --repo {run.repository}" if run.repository else "")
    only = "" if nodeid is None else f" --tests {shlex.quote(nodeid)}"
    return f"{tool} accept {what}{only}"
