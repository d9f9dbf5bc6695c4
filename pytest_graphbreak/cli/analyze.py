"""``graphbreak analyze``: count and explain the graphs in logs."""

from __future__ import annotations

import argparse
import errno
import os
import stat
from pathlib import Path

from pytest_graphbreak.cli.messages import complain, say, write, write_report
from pytest_graphbreak.cli.progress import Bar
from pytest_graphbreak.logs.bearing import Bearing, build_type, judge
from pytest_graphbreak.logs.reading import Reading, read
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.report import json
from pytest_graphbreak.report.log import page, text
from pytest_graphbreak.report.log.entry import entry, environment


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "logs", nargs="+", metavar="LOG", help="a log, plain, .gz, .bz2 or .xz; - is standard input"
    )
    parser.add_argument("--json", metavar="F", help="write the JSON report")
    parser.add_argument("--markdown", metavar="F", help="write a report sorted by frequency")
    parser.add_argument(
        "--root",
        metavar="DIR",
        help="the checkout that the log is of: source lines are quoted from there, from the "
        "working directory and from installed packages, and from nowhere else",
    )
    parser.add_argument(
        "--build",
        metavar="DIR",
        help="the build directory of tt-xla, which tells a debug build from a release build "
        "(default: build, where it has a CMakeCache.txt of tt-xla)",
    )


def run(args: argparse.Namespace) -> int:
    """Analyse all logs. 0 when they could be read, 2 when one could not."""
    if args.root and not Path(args.root).is_dir():
        complain(f"graphbreak analyze: --root {args.root}: is no directory")
        return 2
    try:
        build = _build(args.build)
    except OSError as error:
        return _refuse(args.build, error)
    for path in args.logs:
        try:
            _check(path)
        except (OSError, ValueError) as error:
            return _refuse(path, error)
    here = Path.cwd()
    places = Places(Path(args.root) if args.root else here)
    found: list[tuple[Reading, Bearing]] = []
    for path in args.logs:
        try:
            with Bar(path) as bar:
                reading = read(path, places, bar.move, [here])
        except (OSError, ValueError) as error:
            return _refuse(path, error)
        bearing = judge(reading, build)
        found.append((reading, bearing))
        say(text.render(reading, bearing))
        say()
    written = _write(args, found)
    return 0 if written and not any(reading.is_unreadable for reading, _ in found) else 2


def _check(path: str) -> None:
    """Whether a log is there: hours later is too late to hear that the next one is not.

    Nothing is opened: what a pipe has been asked for once is gone from it.
    """
    if path == "-":
        return
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not os.access(path, os.R_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)


def _build(directory: str | None) -> str | None:
    """The build type of the plugin, where it can be known."""
    if directory is not None:
        found = build_type(Path(directory))
        if found is None:
            raise FileNotFoundError(2, "has no CMakeCache.txt", directory)
        return found
    cache = Path("build/CMakeCache.txt")
    if cache.is_file() and "TTMLIR" in cache.read_text(encoding="utf-8", errors="replace"):
        return build_type(cache)
    return None


def _refuse(path: str, error: OSError | ValueError) -> int:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    complain(f"graphbreak analyze: {path}: cannot be read: {reason}")
    return 2


def _write(args: argparse.Namespace, found: list[tuple[Reading, Bearing]]) -> bool:
    """Write the files that were asked for."""
    readings = [reading for reading, _ in found]
    written = True
    if args.json:
        tests = [entry(reading, bearing) for reading, bearing in found]
        document = json.document(environment(readings), json.session(0, len(readings)), tests)
        written = write_report(args.json, document)
    if args.markdown:
        written = write(args.markdown, page.render(found)) and written
    return written
