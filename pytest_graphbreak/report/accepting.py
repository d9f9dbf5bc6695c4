"""What to type to accept the counts of a run, where the run is over and its machine is gone.

On GitHub that is one line that names the run, and works in any checkout with
``gh``; elsewhere it names the report. Variables: GitHub's "Default environment
variables".
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
    """A run of GitHub Actions. ``repository`` is ``OWNER/NAME``, behind its host if that is own."""

    number: str
    repository: str


def this_run(environ: Mapping[str, str] = os.environ) -> GitHubRun | None:
    """The run of GitHub Actions that this process is part of; None elsewhere."""
    number, name = environ.get("GITHUB_RUN_ID", ""), environ.get("GITHUB_REPOSITORY", "")
    if environ.get("GITHUB_ACTIONS") != "true" or not number.isascii() or not number.isdigit():
        return None
    if not _REPOSITORY.fullmatch(name):
        return None
    server = _SERVER.fullmatch(environ.get("GITHUB_SERVER_URL", ""))
    host = server[1] if server else _PUBLIC
    return GitHubRun(number, name if host == _PUBLIC else f"{host}/{name}")


def command(
    reports: str,
    nodeid: str | None = None,
    run: GitHubRun | None = None,
    tool: str = "graphbreak",
) -> str:
    """The line that accepts the counts of a run, of one test or of all.

    ``tool`` starts ``graphbreak`` here; a run of GitHub Actions is accepted on another machine.

    ``reports`` are those that hold them, as a shell takes them, for where there
    is no ``run`` of GitHub Actions to name.
    """
    what = reports
    if run is not None:
        tool = "graphbreak"
        what = f"--run {run.number}" + (f" --repo {run.repository}" if run.repository else "")
    only = "" if nodeid is None else f" --tests {shlex.quote(nodeid)}"
    return f"{tool} accept {what}{only}"
