"""``graphbreak analyze``: counts and explains the graphs in logs."""

from __future__ import annotations

import argparse
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from pytest_graphbreak.baseline import split_nodeid
from pytest_graphbreak.cli.messages import Bar, say, say_all, write, write_report
from pytest_graphbreak.layers.tt.programs import Program
from pytest_graphbreak.logs.completeness import Completeness, assess
from pytest_graphbreak.logs.dump import models
from pytest_graphbreak.logs.reading import Reading, read
from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.model.json import document, entry_json
from pytest_graphbreak.model.layers import BACKENDS
from pytest_graphbreak.model.merging import record_of
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.report import RunEnvironment, TestReport
from pytest_graphbreak.report import document as pages
from pytest_graphbreak.report import json
from pytest_graphbreak.report import logs as log_report
from pytest_graphbreak.text.output import UserError, reason


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "logs",
        nargs="+",
        metavar="LOG",
        help="a log, plain or gzip; - is standard input; a directory is a dump of MLIR "
        "modules (--dump-irs), one entry for each model in it",
    )
    parser.add_argument("--json", metavar="F", help="write the JSON report")
    parser.add_argument("--markdown", metavar="F", help="write a report, most important first")
    parser.add_argument(
        "--test",
        metavar="TEMPLATE",
        help="the id of the test of a model, such as 'tests/test_models.py::test_model[{name}]', "
        "with {name} for the directory of its dump: --json then writes counts that "
        "graphbreak accept accepts",
    )
    parser.add_argument(
        "--profile",
        metavar="NAME",
        default="dump",
        help="with --test: the profile of these counts (default: dump)",
    )
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
    logs: list[str] = []
    for path in args.logs:
        with _user_errors(path):
            logs += _logs_in(path)
    names = _names(args, logs)
    here = Path.cwd()
    places = Places(Path(args.root) if args.root else here)
    analyses: list[tuple[Reading, Completeness]] = []
    for path in logs:
        with _user_errors(path), Bar(path) as bar:
            reading = read(path, places, bar.move, [here])
        completeness = assess(reading)
        analyses.append((reading, completeness))
        say_all(log_report.lines(reading, completeness))
        say()
    written = _write(args, analyses, names)
    return 0 if written and not any(reading.is_unreadable for reading, _ in analyses) else 2


def _logs_in(path: str) -> list[str]:
    """Return the logs that a path names: itself, or the models in a directory of dumps.

    Raises ``OSError`` if it does not exist, so that a missing log is reported before the others are
    read, which may take hours. Nothing is opened: data that was read from a pipe is gone from it.
    """
    if path == "-":
        return [path]
    mode = os.stat(path).st_mode
    if not os.access(path, os.R_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    if not stat.S_ISDIR(mode):
        return [path]
    return [str(model) for model in models(Path(path))]


@contextmanager
def _user_errors(path: str) -> Iterator[None]:
    """Raise ``UserError`` if ``path`` cannot be read."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read: {reason(error)}") from None


def _names(args: argparse.Namespace, logs: list[str]) -> dict[str, str]:
    """Return the id of the test of each dump.

    Raises if ``--test`` gives none, or the same twice.
    """
    if args.test is None:
        return {}
    if "{name}" not in args.test:
        raise UserError(f"--test {args.test}: has no {{name}}, which stands for the model")
    layer = args.profile.partition("-")[0]
    if layer in BACKENDS:
        raise UserError(
            f"--profile {args.profile}: its tests make graphs on other layers, too, and a dump "
            "says nothing about those, so all tests would be over budget. Use another name: a "
            "profile that was never recorded is compared with these counts on the tt layer"
        )
    names = {path: args.test.replace("{name}", Path(path).name) for path in logs}
    for nodeid in names.values():
        split_nodeid(nodeid)  # raises BaselineError
    if len(set(names.values())) < len(logs):
        raise UserError(f"--test {args.test}: two dumps are of one model; analyze one at a time")
    return names


def _write(
    args: argparse.Namespace, analyses: list[tuple[Reading, Completeness]], names: dict[str, str]
) -> bool:
    """Write the requested files; return False if one could not be written."""
    readings = [reading for reading, _ in analyses]
    written = True
    if args.json:
        where = environment(readings)
        if names:
            tests = [count_of(names[reading.path], reading) for reading in readings]
            where = replace(where, profile=args.profile)
        else:
            tests = [entry(reading, completeness) for reading, completeness in analyses]
        report = document(where, json.session(0, len(readings)), tests)
        written = write_report(args.json, report)
    if args.markdown:
        written = write(args.markdown, pages.of_logs(analyses)) and written
    return written


# One log as an item of ``tests`` in the JSON report.

_GUESS: Final = ("graphs", "completed", "stages", "sure", "least", "most", "why")


def entry(reading: Reading, completeness: Completeness) -> Plain:
    """Return the record of a log, with ``gaps`` (what it lacks), ``run`` (commands) and ``log``."""
    return {
        **entry_json(TestReport(reading.path, "passed", record=reading.record)),
        "gaps": list(completeness.gaps),
        "run": list(completeness.commands),
        "log": _log(reading),
    }


def count_of(nodeid: str, reading: Reading) -> Plain:
    """Return the number of graphs as that of a test; a dump does not say why they exist."""
    record = record_of("tt", graphs=reading.record.graphs.get("tt", 0))
    return entry_json(TestReport(nodeid, "passed", record=record))


def environment(readings: list[Reading]) -> RunEnvironment:
    """Return an environment with the profile ``log``, since the origin of logs is not known."""
    device = "tt" if any("tt" in reading.record.layers for reading in readings) else None
    return RunEnvironment(profile="log", device=device)


def _log(reading: Reading) -> Plain:
    """Return what only a log has: stages, failures, certainty of the counts, origins."""
    programs = reading.programs
    return {
        "bytes": reading.size,
        "sure": log_report.sure(reading),
        "attempted": reading.graphs,
        "completed": reading.completed,
        "failed": programs.failed.total(),
        "unfinished": programs.unfinished.total(),
        "resharding": programs.resharding,
        "headers": reading.headers,
        "ends": reading.ends,
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
