"""The output of a run for GitHub Actions: error annotations and the step summary.

``suite.session`` calls ``publish`` at the end of a run; the rest makes text, and only ``publish``
reads the runner's variables. See GitHub's "Workflow commands for GitHub Actions" for the syntax.
"""

# No import from __future__ here, since `annotations` is a function of this module.

import os
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from pytest_graphbreak.config.typed import this_run
from pytest_graphbreak.judging.finding import Finding
from pytest_graphbreak.model.report import RunReport, TestReport
from pytest_graphbreak.report import markdown
from pytest_graphbreak.report.lines import detail, general_lines
from pytest_graphbreak.report.root_causes import by_nodeid, extent, passing_changes, root_causes
from pytest_graphbreak.report.runs import CheckNotes, ProfileRun
from pytest_graphbreak.report.standing import REPORTED, standing
from pytest_graphbreak.text.numbers import plural
from pytest_graphbreak.text.output import TextLine, plain_text
from pytest_graphbreak.text.safe import workflow_message, workflow_property

MOST: Final = 10
"""GitHub shows ten errors of a step and drops the others."""
_LONGEST: Final = 4_000
"""Maximum number of characters of a message; GitHub allows 64 KB (its REST API, "Checks")."""


def annotations(
    tests: Iterable[TestReport], root: Path, workspace: Path | None = None
) -> list[str]:
    """Return workflow commands for the causes of the most failures, each at the user's line.

    ``tests`` are entries of the JSON report that the gate judged, ``root`` the directory that their
    files are named from. ``workspace`` is the checkout that GitHub names files from, by default
    ``root``.
    """
    red = dict(by_nodeid(tests))
    causes = root_causes(red.items()).findings
    base = _below(root, workspace or root)
    causes_of = Counter(name for cause in causes for name in cause.tests)
    commands = []
    for cause in causes[:MOST]:
        first = cause.tests[0]
        words = (
            _test_words(cause, red[first], causes=causes_of[first])
            if len(cause.tests) == 1
            else _shared_words(cause)
        )
        commands.append(_command(base, _place(cause, red[first], root), *words))
    return commands


def warnings(
    tests: Iterable[TestReport], root: Path, workspace: Path | None = None
) -> Iterator[str]:
    """Yield workflow commands for new places in passing tests."""
    by_name = dict(by_nodeid(tests))
    base = _below(root, workspace or root)
    new = [finding for finding in passing_changes(by_name.items()) if finding.is_new]
    for finding in new[:MOST]:
        place = _place(finding, by_name[finding.tests[0]], root)
        yield _command(base, place, *_shared_words(finding), level="warning")


def notice(tests: Iterable[TestReport], accept: str) -> Iterator[str]:
    """Yield one workflow command for all tests that pass without a baseline."""
    names = [test.nodeid for test in tests if standing(test) == REPORTED]
    if not names:
        return
    have = "1 test has" if len(names) == 1 else f"{len(names)} tests have"
    title = workflow_property(f"graph budget: {have} no baseline")
    text = workflow_message("\n".join((accept, *_first_names(names))))
    yield f"::notice title={title}::{text}"


def _first_names(names: Sequence[str]) -> Iterator[str]:
    yield from names[:MOST]
    if len(names) > MOST:
        yield f"and {len(names) - MOST:,} more"


def publish(
    report: RunReport,
    root: Path,
    environ: Mapping[str, str],
    write: Callable[[str], object],
    accept: str | None = None,
) -> None:
    """Publish everything: annotations with ``write``, the summary to the runner's file.

    ``report`` is that of the run that just ended here, ``accept`` the command that accepts its
    counts, if its file is written. Raises ``OSError`` if the summary's file cannot be written.
    """
    path = environ.get("GITHUB_WORKSPACE")
    workspace = Path(path) if path else None
    commands = annotations(report.tests, root, workspace)
    commands += warnings(report.tests, root, workspace)
    commands += notice(report.tests, accept or "")
    # The last output of pytest may be an unfinished line, and a command has to begin a line.
    for line in ("", *commands) if commands else ():
        write(line)
    summary = environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        runs = [ProfileRun(report.profile, (report,))]
        # Without a run to download reports from, the command is for this machine only.
        is_downloadable = this_run(environ) is not None
        notes = CheckNotes(accept=(accept or "") if is_downloadable else "")
        page = markdown.render(runs, markdown.SUMMARY, notes)
        with open(summary, "a", encoding="utf-8") as file:
            file.write(page + "\n")


def _below(root: Path, workspace: Path) -> str:
    """Return ``root`` relative to the workspace, ending in ``/``, or empty for the workspace."""
    try:
        below = root.resolve().relative_to(workspace.resolve()).as_posix()
    except ValueError:
        return ""
    return "" if below == "." else below + "/"


def _test_words(cause: Finding, test: TestReport, causes: int) -> tuple[str, str]:
    """Return title and text for one failed test: its failure, or one of its several causes."""
    message = (test.message or "graph budget").strip()
    first, _, body_text = message.partition("\n")
    body = body_text.strip("\n") if causes == 1 else _text(general_lines(cause))
    return first, f"{test.nodeid}\n{body}" if body else test.nodeid


def _shared_words(cause: Finding) -> tuple[str, str]:
    """Return title and text for many failed tests: what, where, what to do, the first tests."""
    names = (detail(name, 4) for name in _first_names(cause.tests))
    lines = (*general_lines(cause), detail(f"{extent(cause)}:"), *names)
    tests = plural(len(cause.tests), "test")
    return f"graph budget: {tests}, {cause.generalize().title}", _text(lines)


def _text(lines: Iterable[TextLine]) -> str:
    return textwrap.dedent(plain_text(lines))


def _command(base: str, place: tuple[str, int], title: str, text: str, level: str = "error") -> str:
    file, line = place
    properties = {"file": base + file, "line": str(line), "title": title}
    shown = ",".join(
        f"{name}={workflow_property(value)}" for name, value in properties.items() if value != "0"
    )
    return f"::{level} {shown}::{workflow_message(text[:_LONGEST])}"


def _place(cause: Finding, test: TestReport, root: Path) -> tuple[str, int]:
    """Return the line to show: that of the place, or the innermost user's call that led there.

    A cause without a line in the repository is shown at the file of its first test, and a test
    without a baseline at its first break, since everything in it is new.
    """
    stack = cause.stack
    if not cause.where.file and test.verdict == "new" and test.record.breaks:
        stack = test.record.breaks[0].stack
    for frame in reversed(stack):
        if frame.line and _is_own(frame.file, root):
            return frame.file, frame.line
    return cause.tests[0].partition("::")[0], 0


def _is_own(file: str, root: Path) -> bool:
    """Return whether a stable name is a file of the repository, and not of an installed package."""
    if not file or file.startswith(("/", "<")) or ".." in Path(file).parts:
        return False
    return os.path.isfile(root / file)  # also False for a name that no file system accepts
