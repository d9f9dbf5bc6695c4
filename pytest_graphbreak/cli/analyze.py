"""``graphbreak analyze``: counts and explains the graphs in logs.

Of each log, ``logs.reading`` makes a ``Reading``, which has its record and what only a log has,
such as the stages that the TT compiler printed. ``logs.completeness`` says which numbers the log
leaves unknown, and ``logs.report`` makes the lines. Here the arguments become these calls, and a
log becomes an item of the JSON report (``entry``).
"""

from __future__ import annotations

import argparse
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import Final

from pytest_graphbreak.cli.messages import Progress, add_output, say, say_all, write, write_report
from pytest_graphbreak.layers.tt.programs import Program
from pytest_graphbreak.logs import report as log_report
from pytest_graphbreak.logs.completeness import Completeness, assess
from pytest_graphbreak.logs.reading import Reading, read
from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.model.json import document, entry_json
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.report import RunEnvironment, SessionReport, TestReport
from pytest_graphbreak.report.unjudged import as_markdown
from pytest_graphbreak.text import files
from pytest_graphbreak.text.errors import UserError, reason


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "logs",
        nargs="+",
        metavar="LOG",
        help="a log, plain or gzip; - is standard input",
    )
    add_output(parser, "--json", files.REPORT, "write the JSON report")
    add_output(parser, "--markdown", files.PAGE, "write a report, most important first")
    parser.add_argument(
        "--root",
        metavar="DIR",
        help="the checkout that the log comes from: source lines are quoted only from there, from "
        "the working directory and from installed packages",
    )


def run(args: argparse.Namespace) -> int:
    """Analyse all logs. Returns 0 if all could be read, else 2."""
    if args.root and not Path(args.root).is_dir():
        raise UserError(f"--root {args.root}: is no directory")
    for path in args.logs:
        with _user_errors(path):
            _check(path)
    here = Path.cwd()
    places = Places(Path(args.root) if args.root else here)
    analyses: list[tuple[Reading, Completeness]] = []
    for path in args.logs:
        with _user_errors(path), Progress() as progress:
            reading = read(path, places, partial(progress.move, path), [here])
        completeness = assess(reading)
        analyses.append((reading, completeness))
        say_all(log_report.lines(reading, completeness))
        say()
    written = _write(args, analyses)
    return 0 if written and not any(reading.is_unreadable for reading, _ in analyses) else 2


def _check(path: str) -> None:
    """Raise ``OSError`` if a log does not exist, is a directory, or may not be read.

    So it is reported before the others are read, which may take hours. Nothing is opened: data that
    was read from a pipe is gone from it.
    """
    if path == "-":
        return
    if stat.S_ISDIR(os.stat(path).st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not os.access(path, os.R_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)


@contextmanager
def _user_errors(path: str) -> Iterator[None]:
    """Raise ``UserError`` if ``path`` cannot be read."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read: {reason(error)}") from None


def _write(args: argparse.Namespace, analyses: list[tuple[Reading, Completeness]]) -> bool:
    """Write the requested files; return False if one could not be written."""
    readings = [reading for reading, _ in analyses]
    written = True
    if args.json:
        tests = [entry(reading, completeness) for reading, completeness in analyses]
        session = SessionReport(exit=0, collected=len(readings))
        report = document(environment(readings), session, tests)
        written = write_report(args.json, report)
    if args.markdown:
        page = as_markdown("Graphs in logs", starmap(log_report.lines, analyses))
        written = write(args.markdown, page) and written  # also if the report was not
    return written


# One log as an item of ``tests`` in the JSON report.

_GUESS: Final = ("graphs", "completed", "stages", "sure", "least", "most", "why")
"""The fields of a ``logs.markers.Guess`` that are in the report.

It is how many graphs a process of the TT compiler made, by the ends of its stages: its log has none
of the headers that number them.
"""


def entry(reading: Reading, completeness: Completeness) -> Plain:
    """Return the record of a log, with ``gaps`` (what it lacks), ``run`` (commands) and ``log``."""
    return {
        **entry_json(TestReport(reading.path, "passed", record=reading.record)),
        "gaps": list(completeness.gaps),
        "run": list(completeness.commands),
        "log": _log(reading),
    }


def environment(readings: list[Reading]) -> RunEnvironment:
    """Return an environment with the profile ``log``, since the origin of logs is not known."""
    device = "tt" if any("tt" in reading.record.layers for reading in readings) else None
    return RunEnvironment(profile="log", device=device)


def _log(reading: Reading) -> Plain:
    """Return what only a log has: stages, failures, certainty of the counts, origins."""
    programs = reading.tt.programs
    return {
        "bytes": reading.size,
        "sure": log_report.sure(reading),
        "attempted": reading.graphs,
        "completed": reading.completed,
        "failed": programs.failed.total(),
        "unfinished": programs.unfinished.total(),
        "resharding": programs.resharding,
        "headers": reading.tt.headers,
        "ends": reading.tt.ends,
        "processes": reading.processes,
        "stages": [
            {"stages": list(stages), "graphs": count}
            for stages, count in programs.shapes.most_common()
        ],
        "failures": [_failure(program) for program in programs.list if program.ended == "failed"],
        "sources": [_source(program) for program in programs.list if program.places],
        "guesses": {
            rank: {name: getattr(guess, name) for name in _GUESS}
            for rank, guess in reading.guesses.items()
        },
        "origins": [
            {"origin": origin, "cause": cause, "graphs": count}
            for (origin, cause), count in reading.origins.most_common()
        ],
    }


def _source(program: Program) -> Plain:
    """Return the lines that most of a graph comes from, each with its number of kinds of ops."""
    return {
        "graph": program.number,
        "name": program.name,
        "module": program.module,
        "lines": [{**frame.to_dict(), "ops": ops} for frame, ops in program.places],
    }


def _failure(program: Program) -> Plain:
    return {
        "graph": program.number,
        "name": program.name,
        "after": program.last,
        "stages": list(program.stages),
        "error": program.error,
        "offset": program.offset,
        "rank": program.rank or None,
        "thread": program.thread or None,
    }
