"""``graphbreak run``: runs a script with the observers on, and reports its graphs.

::

    the command                          its child
    run -> _run_in_child -> fork ------> _run_here: log, observers, the script
                            watch <----- its last status: record, name, how it ended
    run: the judgement, the report       run: returns the exit code of the script

Where a child cannot be watched, and if a program called the command, ``_run_here`` runs the script
in this process.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TextIO

from msgspec.structs import replace

from pytest_graphbreak.cli.messages import UNUSABLE, add_output, say, say_all, write, write_report
from pytest_graphbreak.config.device import Device, choose, environment, runs_tt
from pytest_graphbreak.config.packages import files_of, owners
from pytest_graphbreak.config.settings import DEVICES
from pytest_graphbreak.config.typed import this_command
from pytest_graphbreak.judging import cap as caps
from pytest_graphbreak.judging.judgement import Case, Judgement, judgement
from pytest_graphbreak.logs.writing import send_log_to
from pytest_graphbreak.measuring import watched
from pytest_graphbreak.measuring.measure import Measurement
from pytest_graphbreak.measuring.script import UserProgram, settle_streams
from pytest_graphbreak.model.json import document, entry_json
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.report import SessionReport, TestReport
from pytest_graphbreak.report.failure import block_failure
from pytest_graphbreak.report.unjudged import as_markdown, script_lines
from pytest_graphbreak.text.errors import UserError, failure_words
from pytest_graphbreak.text.files import LOG, PAGE, REPORT, display_path, take_away
from pytest_graphbreak.text.output import TextLine


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device",
        choices=DEVICES,
        default="auto",
        help="the device to compile for; tt also makes it torch_xla's device (default: auto)",
    )
    add_output(parser, "--json", REPORT, "write the JSON report")
    add_output(parser, "--markdown", PAGE, "write a report, most important first")
    words = "keep the log of torch and the device libraries, for `graphbreak analyze`"
    add_output(parser, "--log", LOG, words)
    parser.add_argument(
        "--max-graphs",
        metavar="N",
        type=_count,
        help="exit with 1 if the script makes more graphs on any layer",
    )
    parser.add_argument(
        "--max-compiled",
        metavar="N",
        type=_count,
        help="exit with 1 if more graphs of any layer are compiled and not loaded from a cache",
    )
    parser.add_argument("-m", action="store_true", dest="module", help="run a module, as python -m")
    parser.add_argument("--model", action="store_true", help="run a model: transformers:bert-base")
    parser.add_argument(
        "script", help="a script; with -m the name of a module, with --model that of a model"
    )
    parser.add_argument("args", nargs=argparse.REMAINDER, help="the script's own arguments")


def run(args: argparse.Namespace) -> int:
    """Return the script's exit code, 1 if only the gate failed, 2 if something was impossible."""
    program = _model(args.script) if args.model else _program(args)
    # The script may change the directory.
    files = {name: os.path.abspath(getattr(args, name)) for name in _FILES if getattr(args, name)}
    if "json" in files:
        take_away(Path(files["json"]))
    root = Path.cwd()
    device = choose(args.device)
    program.check()
    log = files.get("log")
    process = os.getpid()
    with _tt_log(args.device, "headers" if log is None else "full"):
        if getattr(args, "typed", False) and watched.can_watch():
            code, status = _run_in_child(program, root, log)
        else:
            code, status = _run_here(program, root, log, channel=None)
    if os.getpid() != process:
        return code  # the process of the script, or a fork of it: only the command goes on
    if status is not None and status.refused:
        raise UserError(status.refused)
    record = watched.complete_record(status, code)
    judged = None if code else _judge(record, args.max_graphs, args.max_compiled)
    name = (status.name if status is not None else "") or program.title or program.name
    failed = judged is not None and judged.fails
    settle_streams()
    # The program of --model is ours, so standard output is free for the report.
    out = sys.stdout if args.model else sys.stderr
    with suppress(OSError):  # even if nobody reads the output, the files are written
        _show(name, code, record, judged.lines if judged is not None else (), out)
    entry = _entry(name, code, record, judged)
    page = as_markdown("Graphs of a script", [script_lines(name, f"exit {code}", record)])
    if not _write(files, page, entry, device, code, out):
        return code or UNUSABLE
    return 1 if failed else code


def _run_in_child(
    program: UserProgram, root: Path, log: str | None
) -> tuple[int, watched.Status | None]:
    """Run the script in a child; return its exit code and its last status, in both processes.

    The child returns from here, too, and ends with the command's own end (``run``).
    """
    channel = watched.Channel()
    pid, mask = watched.fork()
    if pid == 0:
        return _run_here(program, root, log, channel)
    try:
        return watched.watch(pid, mask), channel.last()
    finally:
        channel.close()


def _run_here(
    program: UserProgram, root: Path, log: str | None, channel: watched.Channel | None
) -> tuple[int, watched.Status]:
    """Run the script in this process; return its exit code and status, also sent to ``channel``.

    A fork of the script that reaches the end here as well sends nothing.
    """
    process = os.getpid()
    try:
        with ExitStack() as stack:
            if log is not None:
                stack.enter_context(send_log_to(log))
            seen = stack.enter_context(Measurement(root))
            reporter = None
            if channel is not None:
                name = partial(_name_while_running, program, root)
                reporter = stack.enter_context(watched.Reporter(channel, seen.peek, name))
            code = program.run()
            if os.getpid() == process:
                status = watched.Status(seen.close(), _name(program, root), watched.ENDED)
                if reporter is not None:
                    reporter.end(status)
                return code, status
            return code, watched.Status()
    except (OSError, UserError) as error:  # ``program`` shows errors of the script itself
        status = watched.Status(state=watched.ENDED, refused=failure_words(error))
        if channel is not None:
            channel.send(status)
        return UNUSABLE, status


_FILES = ("json", "markdown", "log")
"""The options that name a file to write."""
_MODELS = "pytest_graphbreak.cli.models"
"""The module that ``--model`` runs as a script."""
_LIBRARY = "transformers"


def _program(args: argparse.Namespace) -> UserProgram:
    """Return the script or module; a script is called as it was typed."""
    if args.script.startswith(f"{_LIBRARY}:") and not os.path.exists(args.script):
        command = this_command().graphbreak("run", "--model", args.script)
        raise UserError(f"{args.script} is no script; a model is run by: {command}")
    title = "" if args.module else args.script
    return UserProgram(args.script, tuple(args.args), args.module, title)


def _model(text: str) -> UserProgram:
    """Return the program that runs a model; raise ``UserError`` if there can be none."""
    library, _, name = text.partition(":")
    if library != _LIBRARY or not name:
        raise UserError(f"--model takes {_LIBRARY}:NAME, as {_LIBRARY}:bert-base, not {text!r}")
    for package in ("torch", _LIBRARY):
        if importlib.util.find_spec(package) is None:
            raise UserError(f"--model needs {package}: pip install {package}")
    return UserProgram(_MODELS, (name,), is_module=True, title=text)


def _count(text: str) -> int:
    with suppress(ValueError):
        if (number := int(text)) >= 0:
            return number
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of graphs, 0 or more")


@contextmanager
def _tt_log(asked: str, log: str) -> Iterator[None]:
    """Turn on the TT plugin's log if the script may use TT; all of it if the log is kept."""
    if not runs_tt(asked):
        yield
        return
    from pytest_graphbreak.layers.tt.variables import turn_on

    if asked == "tt":
        os.environ.setdefault("PJRT_DEVICE", "TT")
    turn_off = turn_on(log)
    try:
        yield
    finally:
        turn_off()


def _name(program: UserProgram, root: Path) -> str:
    """Return what reports call the program; for a module that is the path of its file."""
    if program.title:
        return program.title
    try:
        spec = importlib.util.find_spec(program.name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{program.name}.__main__")
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.origin:
        return program.name
    return display_path(Path(spec.origin), root)


def _name_while_running(program: UserProgram, root: Path) -> str:
    """Return the same as ``_name``, without importing anything."""
    if program.title:
        return program.title
    origin = getattr(getattr(sys.modules["__main__"], "__spec__", None), "origin", None)
    return display_path(Path(origin), root) if origin else program.name


def _judge(record: Record, most: int | None, compiled: int | None) -> Judgement | None:
    """Return the judgement on a script by the options for it, or None without any."""
    if most is None and compiled is None:
        return None
    limits = {} if compiled is None else {"compiled": compiled}
    cap = caps.parse(() if most is None else (most,), limits, "--max-graphs", by="option")
    judged = judgement(Case(record, cap=cap))
    if not judged.fails:
        return judged
    return replace(judged, lines=block_failure(judged, this_command()))


def _show(name: str, code: int, record: Record, lines: Sequence[TextLine], out: TextIO) -> None:
    """Print the report to ``out``, after all output of the script."""
    say("", out)
    say_all(script_lines(name, f"exit {code}", record), out)
    if lines:
        say("", out)
        say_all(lines, out)


def _entry(name: str, code: int, record: Record, judged: Judgement | None) -> TestReport:
    """Return the script as an item of ``tests``."""
    failed_by = "test" if code else "gate" if judged is not None and judged.fails else None
    outcome = "failed" if failed_by else "passed"
    judgement = {} if judged is None else judged.to_dict()
    return TestReport.from_dict(
        {"nodeid": name, "outcome": outcome, "failed_by": failed_by, "record": record.to_dict()}
        | judgement
    )


def _write(
    files: dict[str, str], page: str, entry: TestReport, device: Device, code: int, out: TextIO
) -> bool:
    """Write the requested files; return False if one could not be written."""
    written = True
    if "json" in files:
        session = SessionReport(exit=code or int(entry.failed_by == "gate"), collected=1)
        packages = owners(files_of(entry.record), Path.cwd())
        here = replace(environment(device, device.profile), packages=packages)
        report = document(here, session, [entry_json(entry)])
        written = write_report(files["json"], report, out)
    if "markdown" in files:
        written = write(files["markdown"], page, out) and written
    return written
