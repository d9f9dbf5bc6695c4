"""What a run says to GitHub Actions: error annotations and the step summary.

Pure text; ``publish`` is the one function that looks at the runner's variables.
See GitHub's "Workflow commands for GitHub Actions" for the syntax.
"""

# No import from __future__ here: `annotations` is the name of a function of ours.

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from pytest_graphbreak.judging.verdict import FAILING, place_of
from pytest_graphbreak.model.record import Frame, Plain
from pytest_graphbreak.report import markdown
from pytest_graphbreak.report.view import REPORTED, Aside, Run, standing, weight
from pytest_graphbreak.runs import accepting
from pytest_graphbreak.runs.incoming import Report
from pytest_graphbreak.text.safe import workflow_message, workflow_property

MOST: Final = 10
"""GitHub shows ten errors of a step and drops the others."""
_LONGEST: Final = 4_000
"""Characters of one message; an annotation of GitHub holds 64 KB (its REST API, "Checks")."""


def annotations(tests: Iterable[Plain], root: Path, workspace: Path | None = None) -> list[str]:
    """Workflow commands for the worst tests, each at the user's line of its first new break.

    ``tests`` are entries of the JSON report that the gate judged, ``root`` the
    directory that their files are named from. ``workspace`` is the checkout
    that GitHub names files from, by default ``root``.
    """
    failing = [test for test in tests if test["verdict"] in FAILING and test["failed_by"] == "gate"]
    base = _below(root, workspace or root)
    return [_command(test, root, base) for test in sorted(failing, key=weight)[:MOST]]


def step_summary(runs: Iterable[Run], accept: str = "") -> str:
    """The markdown of a step summary, below the size at which GitHub drops it."""
    return markdown.render(list(runs), markdown.SUMMARY, Aside(accept=accept))


def notice(tests: Iterable[Plain], accept: str) -> Iterator[str]:
    """One workflow command for all tests that pass without a baseline."""
    names = [test["nodeid"] for test in tests if standing(test) == REPORTED]
    if names:
        title = f"graph budget: {len(names)} {'test has' if len(names) == 1 else 'tests have'} no "
        shown = "\n".join(
            (*names[:MOST], *([f"and {len(names) - MOST} more"] * (len(names) > MOST)))
        )
        text = f"{accept}\n{shown}"
        yield f"::notice title={workflow_property(title + 'baseline')}::{workflow_message(text)}"


def publish(
    document: Plain,
    root: Path,
    environ: Mapping[str, str],
    write: Callable[[str], object],
    report: str | None = None,
) -> None:
    """Say it all: annotations by ``write``, line by line; the summary into the runner's file.

    ``document`` is the report of the run that just ended here, ``report`` the
    name of its file, without which nothing of it can be accepted. Does nothing
    where ``GITHUB_ACTIONS`` is not ``true``. Raises ``OSError`` if the summary's
    file cannot be written.
    """
    if environ.get("GITHUB_ACTIONS") != "true":
        return
    workspace = environ.get("GITHUB_WORKSPACE")
    run = accepting.this_run(environ)
    accept = accepting.command(shlex.quote(report), run=run) if report is not None else None
    commands = annotations(document["tests"], root, Path(workspace) if workspace else None)
    commands += notice(document["tests"], accept or "")
    # What pytest wrote last may be an unfinished line, and a command has to begin one.
    for line in ("", *commands) if commands else ():
        write(line)
    summary = environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        environment, session = document["environment"], document["session"]
        told = Report("this run", environment, session, document["tests"])
        page = step_summary(
            [Run(told.profile, (told,))], accept if run is not None and accept else ""
        )
        with open(summary, "a", encoding="utf-8") as file:
            file.write(page + "\n")


def _below(root: Path, workspace: Path) -> str:
    """``root`` as GitHub names it, ending in ``/`` where it is not the workspace itself."""
    try:
        below = root.resolve().relative_to(workspace.resolve()).as_posix()
    except ValueError:
        return ""
    return "" if below == "." else below + "/"


def _command(test: Plain, root: Path, base: str) -> str:
    message = (test["message"] or "graph budget").strip()
    first, _, rest = message.partition("\n")
    # The first line of the message is the headline of the annotation already.
    body = rest.strip("\n")
    text = f"{test['nodeid']}\n{body}" if body else test["nodeid"]
    file, line = _place(test, root)
    properties = {"file": base + file, "line": str(line), "title": first}
    shown = ",".join(
        f"{name}={workflow_property(value)}" for name, value in properties.items() if value != "0"
    )
    return f"::error {shown}::{workflow_message(text[:_LONGEST])}"


def _place(test: Plain, root: Path) -> tuple[str, int]:
    """The line to show: of the first new break, or graph, that is in the repository.

    A break deep in a library is shown at the innermost frame of the user's own
    code; a test without any place, at its file.
    """
    for frames in _candidates(test):
        for frame in reversed(frames):
            if frame and frame["line"] and _is_own(frame["file"], root):
                return frame["file"], frame["line"]
    return test["nodeid"].partition("::")[0], 0


def _candidates(test: Plain) -> Iterator[list[Plain]]:
    """Frames, outermost first, of what is new and then of everything else."""
    known = {(item["where"], item["code"]) for item in (test["baseline"] or {}).get("breaks", ())}
    breaks = sorted(test["breaks"], key=lambda item: _key(item["where"]) in known)
    for item in breaks:
        yield [*item["stack"], item["where"]]
    for items in (test["recompile_list"], test["eager"], test["graph_list"][1:]):
        for item in items:
            yield [*item.get("stack", ()), item["where"]]


def _key(where: Plain) -> tuple[str, str]:
    return place_of(Frame.from_dict(where))


def _is_own(file: str, root: Path) -> bool:
    """Whether a stable name is a file of the repository, and not of an installed package."""
    if not file or file.startswith(("/", "<")) or ".." in Path(file).parts:
        return False
    return os.path.isfile(root / file)  # False also for a name that no file system takes
