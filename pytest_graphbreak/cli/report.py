"""``graphbreak report``: turns JSON reports into pages for people."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pytest_graphbreak.artifacts.incoming import ReportError, load_all
from pytest_graphbreak.cli.messages import add_output, note, say, say_all, say_list, write
from pytest_graphbreak.config.checkout import CheckoutError, find
from pytest_graphbreak.config.typed import GitHubRun, Typed
from pytest_graphbreak.model.report import RunReport
from pytest_graphbreak.report import html, markdown
from pytest_graphbreak.report.root_causes import by_nodeid, root_cause_lines, root_causes
from pytest_graphbreak.report.standing import (
    NAMED,
    NOTHING,
    CheckNotes,
    ProfileRun,
    row,
    runs,
    standing,
    standing_words,
    weight,
)
from pytest_graphbreak.report.unjudged import unjudged_lines
from pytest_graphbreak.text.errors import reason
from pytest_graphbreak.text.files import PAGE, without_collector
from pytest_graphbreak.text.numbers import plural

REPORTS: Final = "JSON reports, directories of them, or zip archives as GitHub keeps them"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("reports", nargs="+", metavar="REPORT", help=REPORTS)
    add_outputs(parser)


def add_outputs(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a page to write."""
    for name, (words, _) in PAGES.items():
        add_output(parser, f"--{name}", PAGE, words)
    parser.add_argument(
        "--of-run",
        metavar="ID",
        help="the run of GitHub Actions that made the reports: its number or its address, for "
        "the command that accepts them",
    )


def run_of(args: argparse.Namespace) -> GitHubRun | None:
    """Return the CI run of ``--of-run``, in this workflow's repository. Raises ``ReportError``."""
    return (
        None
        if args.of_run is None
        else github_run(args.of_run, os.environ.get("GITHUB_REPOSITORY"))
    )


def accept_line(made_by: GitHubRun | None, typed: Typed | None = None) -> str:
    """Return the command that accepts the counts of a CI run, or "" if no run is known."""
    return "" if made_by is None else (typed or Typed()).accept(run=made_by)


def run(args: argparse.Namespace) -> int:
    """Write the requested pages, or print a summary. Returns 0, or 2 for bad reports."""
    with without_collector():
        made_by = run_of(args)
        reports = load_all(args.reports, note=note)
        if any(getattr(args, name) for name in PAGES):
            notes = CheckNotes(accept=accept_line(made_by))
            return 0 if write_pages(reports, args, notes) else 2
        show(runs(reports))
        return 0


def write_pages(
    reports: Sequence[RunReport], args: argparse.Namespace, notes: CheckNotes = NOTHING
) -> bool:
    """Write every page that ``args`` names; return False if one could not be written."""
    profile_runs = runs(reports)
    written = [
        write(path, page(profile_runs, notes))
        for name, (_, page) in PAGES.items()
        if (path := getattr(args, name))
    ]
    return all(written)


PAGES: Final[dict[str, tuple[str, Callable[[Sequence[ProfileRun], CheckNotes], str]]]] = {
    "markdown": (
        "write a comment for a pull request",
        lambda runs, notes: markdown.render(runs, notes=notes),
    ),
    "html": (
        "write one self-contained page",
        lambda runs, notes: html.render(runs, sources_root(), notes),
    ),
}
"""The output formats of reports by their options: the help text, and the renderer."""


def sources_root() -> Path | None:
    """Return the root for source excerpts, or None if the checkout cannot be read."""
    try:
        return find(Path.cwd()).root
    except CheckoutError:
        return None


def show(profile_runs: Sequence[ProfileRun]) -> None:
    """Print a summary on the terminal."""
    for run in profile_runs:
        tests = sorted(run.tests, key=weight)
        say_all(root_cause_lines(root_causes(by_nodeid(tests))))
        for verdict in NAMED:
            say_list(verdict, (row(test) for test in tests if standing(test) == verdict))
        say_list("unmeasured", run.unmeasured)
        say_list("ungated", run.ungated)
        say_list("stale", run.stale)
        say_all(unjudged_lines(tests))
        say(f"{plural(len(tests), 'test')} on {run.label}: {standing_words(tests)}")


# The reports of a GitHub Actions run, downloaded with ``gh``, GitHub's command line.

ARTIFACTS: Final = "graphs*"
"""The names of artifacts with reports in our documentation and workflows."""

_RUN: Final = re.compile(r"[0-9]+", re.ASCII)
_URL: Final = re.compile(
    r"https?://([\w.-]+/)?([\w.-]+/[\w.-]+)/actions/runs/([0-9]+)\b.*", re.ASCII
)
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
    if address is not None:
        host, name, number = address.groups()
        address_name = name if host in (None, "github.com/") else f"{host}{name}"
        return GitHubRun(number, repository or address_name)
    if not _RUN.fullmatch(run):
        raise ReportError(f"--run: {run!r} is not the number of a run, nor the address of its page")
    if repository is not None and (not _NAME.fullmatch(repository) or repository.startswith("-")):
        raise ReportError(f"--repo: {repository!r} is not OWNER/NAME")
    return GitHubRun(run, repository or "")


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
