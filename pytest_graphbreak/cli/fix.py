"""``graphbreak fix``: writes a patched copy of a script or a test file, proven by runs."""

from __future__ import annotations

import argparse
import importlib.util
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TextIO

from pytest_graphbreak.cli.messages import Progress, complain, say, say_all
from pytest_graphbreak.cli.program import add_program, does_not_run, exit_code, find, on_bench
from pytest_graphbreak.config.typed import this_command
from pytest_graphbreak.repair import prove
from pytest_graphbreak.repair.build import Diff
from pytest_graphbreak.repair.original import Original
from pytest_graphbreak.repair.outcome import SearchResult
from pytest_graphbreak.repair.prove import PROVED, Proof
from pytest_graphbreak.repair.report import nothing, report
from pytest_graphbreak.repair.search import Search
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench
from pytest_graphbreak.text import files
from pytest_graphbreak.text.files import display_path
from pytest_graphbreak.text.output import TextLine, UserError, reason

FIXED, NOTHING = 0, 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_program(parser)
    parser.add_argument(
        "--keep-side-effects",
        action="store_true",
        help="try no remedy that drops a side effect, such as a line of a log",
    )
    parser.add_argument(
        "--runs", type=int, default=60, metavar="N", help="run the program at most N times (60)"
    )
    parser.add_argument(
        "--diff",
        action="store_true",
        help="print the changes of files, also of libraries, as a diff; all else goes to stderr",
    )


def run(args: argparse.Namespace) -> int:
    """Fix the program. Returns 0 if nothing is left to fix or a file was written, else 1."""
    _check_libcst()
    target = find(args)
    _check_writable(target)
    with on_bench(args.timeout) as trials, _diff_stream(args.diff) as out:
        return _fix(args, target, trials, out)


def _check_libcst() -> None:
    """Raise ``UserError`` if libcst is missing, as after ``pip install --no-deps``."""
    if importlib.util.find_spec("libcst") is None:
        python = shlex.quote(sys.executable)
        command = f"{python} -m pip install libcst"
        raise UserError(f"libcst, which rewrites source, is not installed: {command}")


@contextmanager
def _diff_stream(diff: bool) -> Iterator[TextIO]:
    """Yield standard output for a diff, and redirect all other output to standard error."""
    out = sys.stdout
    with redirect_stdout(sys.stderr if diff else out):
        yield out


def _check_writable(target: Target) -> None:
    """Raise ``UserError`` if the result cannot be written, before the program takes its time."""
    fixed = target.beside("_fixed")
    for path in (fixed.path, target.trial(99_999, "a1b2c3").path):
        _write(path, lambda path: files.probe(path), ours=path == fixed.path)


def _write(path: Path, write: Callable[[Path], None], *, ours: bool = True) -> None:
    """Raise ``UserError`` if a file is not ours, or cannot be written."""
    if ours:
        files.refuse_foreign(path, files.SCRIPT)
    try:
        write(path)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {reason(error)}") from None


def _header(target: Target) -> str:
    what = "test" if target.test else "program"
    words = f"{files.HEADER}fix {target.shown}`: the same {what}, with patches.\n"
    if target.test:
        words += "Run it as a program: pytest finds no test in it. "
    return f"{words}Imported it patches nothing."


def _fix(args: argparse.Namespace, target: Target, bench: Bench, out: TextIO) -> int:
    with Progress() as progress:
        search = _search(args, target, bench, progress)
        outcome = search.run()
        proof = _write_fixed(target, search, bench, progress)
    code = _result(target, outcome, proof)
    if args.diff and code == FIXED:
        _show(search.diff(), out)
    elif code == FIXED and outcome.source is not None:
        command = this_command().graphbreak("fix", "--diff", target.shown)
        say(TextLine("the change as a diff, also of libraries: ", command=command))
    if outcome.interrupt is not None:
        complain("graphbreak fix: interrupted")
        return exit_code(outcome.interrupt)
    return code


def _search(args: argparse.Namespace, target: Target, bench: Bench, progress: Progress) -> Search:
    """Return the search. Raises ``UserError`` if the program does not run."""
    progress.step(0, 1, f"{target.name} as it is")
    search = Search(
        target,
        bench,
        most=args.runs,
        keep_side_effects=args.keep_side_effects,
        header=_header(target),
        progress=progress.step,
    )
    first = search.outcome.first
    if first.error is not None:
        raise does_not_run(target, first.error, first.stack, first.out)
    return search


def _write_fixed(target: Target, search: Search, bench: Bench, progress: Progress) -> Proof | None:
    """Write the patched file and prove it, as it is and in a new Python, with inductor.

    One that does not hold is removed. After an interrupt it is not run: its text was a trial.
    """
    outcome, fixed = search.outcome, target.beside("_fixed")
    if outcome.source is None:
        return None
    source = outcome.source
    _write(fixed.path, lambda path: files.put(path, source))
    if outcome.interrupt is not None:
        return None
    try:
        progress.step(1, 1, f"{display_path(fixed.path, Path.cwd())} as written")
        proof = _proof(target, fixed, search, bench)
    except KeyboardInterrupt as stop:
        outcome.stopped, outcome.interrupt = "interrupted", stop
        return None
    if proof.verdict != PROVED:
        fixed.path.unlink(missing_ok=True)
    return proof


def _proof(target: Target, fixed: Target, search: Search, bench: Bench) -> Proof:
    """Prove a written file; without a break it is run with the program's own fullgraph=True."""
    outcome, original = search.outcome, search.original
    if outcome.first.inductor:
        original = Original(bench, target, values_only=True)
    unbroken = outcome.first.fullgraph and not outcome.last.record.breaks
    return prove.proof_of(original, fixed, alone=True, allow_breaks=not unbroken)


def _result(target: Target, outcome: SearchResult, proof: Proof | None) -> int:
    """Report what was tried, and what was written; return the exit code."""
    if not outcome.first.record.active:
        say("Nothing was compiled, so there is nothing to fix.")
        return FIXED
    if not outcome.problems and not outcome.stopped:
        say_all(nothing(outcome))
        return FIXED
    say_all(report(outcome, proof))
    if proof is not None and proof.verdict != PROVED:
        complain(f"graphbreak fix: the patched file is not written: {proof.verdict}: {proof.why}")
        return NOTHING
    if outcome.source is None:
        say("No remedy worked: nothing is written.")
        return NOTHING
    name = display_path(target.beside("_fixed").path, Path.cwd())
    say(f"Wrote {name}.")
    if target.test:
        say(
            TextLine(
                "pytest passes it over; this runs the test: ", command=this_command().python(name)
            )
        )
    return FIXED


def _show(diff: Diff, out: TextIO) -> None:
    """Print the diff as it is, for ``patch``; on a terminal, made harmless."""
    for title in diff.left_out:
        say(f"no file of a library holds all of it: {title}")
    if not diff.text:
        say("No source file is changed: there is no diff.")
    elif out.isatty():
        say_all((TextLine(line, whole=True) for line in diff.text.rstrip("\n").split("\n")), out)
    else:
        encoding = out.encoding or "utf-8"
        out.write(diff.text.encode(encoding, "backslashreplace").decode(encoding))
