"""``graphbreak fix``: writes patched copies of a program's files, proven by runs.

A ``Search`` (``repair.search``) runs the program, tries remedies for each break, and keeps patches
that help: what it was searching for is a ``Problem``, with the patches that were kept and what else
was tried. Here the patched files are written beside the original ones (``_write``), compared as
they are with the original (``_prove``), removed again if they do not do the same, and what came of
each problem is told (``report``).
"""

from __future__ import annotations

import argparse
import importlib.util
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.cli.messages import Progress, complain, say, say_all
from pytest_graphbreak.cli.page import ExamplesOnce
from pytest_graphbreak.cli.program import add_program, does_not_run, named_target, on_bench
from pytest_graphbreak.config.typed import this_command
from pytest_graphbreak.judging.finding import Finding
from pytest_graphbreak.judging.findings import findings_of_record
from pytest_graphbreak.model.items import Break, Graph
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.repair import prove
from pytest_graphbreak.repair.comparison import Original
from pytest_graphbreak.repair.gain import fixable, recompile_count
from pytest_graphbreak.repair.prove import PROVED, Proof
from pytest_graphbreak.repair.search import Problem, Search, SearchResult
from pytest_graphbreak.repair.sources import headed
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench
from pytest_graphbreak.report.lines import DEPTH, lines
from pytest_graphbreak.text import files
from pytest_graphbreak.text.errors import UserError, reason
from pytest_graphbreak.text.files import display_path
from pytest_graphbreak.text.numbers import plural
from pytest_graphbreak.text.output import BLANK, TextLine, indent_lines

FIXED, LEFT = 0, 1
"""The exit codes: nothing is left to fix, or something is."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_program(parser)


def run(args: argparse.Namespace) -> int:
    """Fix the program. Returns 0 if nothing is left to fix, else 1."""
    _check_libcst()
    target = named_target(args)
    _check_free(target.beside("_fixed").path)
    with on_bench(args.timeout) as bench:
        with Progress() as progress:
            progress.step(0, 1, f"{target.name} as it is")
            search = Search(target, bench, progress.step)  # runs the original
            first = search.original.first
            if first.error is not None:
                raise does_not_run(target, first.error, first.stack, first.out)
            search.run()
            written = _write(search, target, bench, progress)
        return _result(target, search, written)


def _check_libcst() -> None:
    """Raise ``UserError`` if libcst is missing, as after ``pip install --no-deps``."""
    if importlib.util.find_spec("libcst") is None:
        python = shlex.quote(sys.executable)
        command = f"{python} -m pip install libcst"
        raise UserError(f"libcst, which rewrites source, is not installed: {command}")


def _check_free(path: Path) -> None:
    """Raise ``UserError`` if a file is not ours, or cannot be written."""
    files.refuse_foreign(path, files.SCRIPT)
    try:
        files.probe(path)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {reason(error)}") from None


class _Written(Struct, frozen=True):
    """The patched files by the files of the user, each beside it; none if not ``PROVED``.

    ``proof`` is None if the search left nothing to write.
    """

    paths: dict[Path, Path]
    proof: Proof | None


def _write(search: Search, target: Target, bench: Bench, progress: Progress) -> _Written:
    """Write the files and prove them as they are.

    What does not hold, or was not proved since the command was interrupted, is removed.
    """
    header = f"{files.HEADER}fix {target.name}`: the same file, with patches."
    texts = search.files.apply(search.outcome.patches) or {}
    contents = search.files.encode({name: headed(text, header) for name, text in texts.items()})
    paths: dict[Path, Path] = {}
    proof = None
    try:
        for path, data in contents.items():
            fixed = Target(path, target.test).beside("_fixed").path
            _check_free(fixed)
            files.put(fixed, data)
            paths[path] = fixed
        if paths:
            progress.step(1, 1, "the patched files as written")
            proof = _prove(search, target, paths, bench)
    finally:
        if proof is None or proof.verdict != PROVED:
            for fixed in paths.values():
                fixed.unlink(missing_ok=True)
            paths.clear()
    return _Written(paths, proof)


def _prove(search: Search, target: Target, paths: Mapping[Path, Path], bench: Bench) -> Proof:
    """Compare the files as written with the original, in a new Python and with inductor.

    A copy of the named file is run in its place; a copy of a module is what the program gets when
    it imports the module (``replaced``).
    """
    original = search.original
    if original.first.inductor:
        # The search has run without the code that inductor generates, so the original runs again
        # with it. That takes most of the time, so only drawn inputs of the same sizes are compared:
        # other sizes were compared in the search.
        original = Original(bench, target, values_only=True)
    modules = {path: fixed for path, fixed in paths.items() if path != target.path}
    return prove.proof_of(
        original,
        target.beside("_fixed") if target.path in paths else target,
        new_python=True,
        replaced={str(path.resolve()): str(fixed) for path, fixed in modules.items()},
    )


def _result(target: Target, search: Search, written: _Written) -> int:
    """Print what was tried, and what was written; return the exit code."""
    outcome, proof = search.outcome, written.proof
    if not outcome.first.record.active:
        say("Nothing was compiled, so there is nothing to fix.")
        return FIXED
    examples = ExamplesOnce()
    if not outcome.problems:
        say_all(nothing(outcome, examples.of))
        is_left = bool(cuts(outcome.first.record))
    else:
        say_all(report(outcome, examples.of))
        is_left = any(not problem.fixed for problem in outcome.problems)
    if proof is not None and proof.verdict != PROVED:
        complain(f"graphbreak fix: the patched file is not written: {proof.verdict}: {proof.why}")
    elif proof is not None:
        say(f"{proof.verdict}: {proof.compared()}")
    for path, fixed in written.paths.items():
        before, after = (display_path(x, Path.cwd()) for x in (path, fixed))
        say(f"Wrote {after}: {before} with patches.")
    if is_left:
        say_all(_what_is_left(target, search, written))
    return LEFT if is_left or (proof is not None and not written.paths) else FIXED


def _what_is_left(target: Target, search: Search, written: _Written) -> Iterator[TextLine]:
    """Yield the command that judges a patch of the file of the first break that is left.

    ``graphbreak prove model.py model_fixed.py``, or for a module that the program imports
    ``graphbreak prove net.py net_fixed.py --run model.py``. If only recompiles are left, which are
    of no file, the named one is to be edited.
    """
    if not written.paths:
        yield TextLine("No remedy worked: nothing is written.")
    items = (problem.item for problem in search.outcome.problems if not problem.fixed)
    places = (search.files.path(item.where.file) for item in items if item is not None)
    path = next(places, target.path)
    patched = written.paths.get(path) or Target(path).beside("_patched").path
    before, after = (display_path(x, Path.cwd()) for x in (path, patched))
    words = "edit it" if path in written.paths else f"copy {before} to {after}, edit that"
    yield TextLine(f"What is left is yours: {words}; this judges it:")
    if path != target.path:
        programs = [before, after, "--run", target.name]
    else:
        programs = [f"{before}::{target.test}" if target.test else before, after]
    command = this_command().graphbreak("prove", *programs)
    yield TextLine("", indent=2, command=command)


Advise = Callable[[Finding], Iterator[TextLine]]
"""Returns what is advised for a finding that is left: code before and after."""

_READS: Final = ("access", "pending", "recompile")
"""The causes of graphs of a lazy program: values are read there, or it compiles again."""


def cuts(record: Record) -> list[Finding]:
    """Return where a program is cut whose graphs have no break of Dynamo: no remedy is for that."""
    cut = [x for x in record.graph_list if x.layer == "xla" and x.cause in _READS]
    return findings_of_record(Record(("xla",), {"xla": len(cut)}, graph_list=tuple(cut)))


def nothing(outcome: SearchResult, advice: Advise) -> Iterator[TextLine]:
    """Yield what is said of a program without breaks and recompiles of Dynamo."""
    record, count = outcome.first.record, plural(outcome.before, "graph")
    findings = cuts(record)
    if not findings:
        yield TextLine(f"Nothing to fix: {count}, no break, no recompile.")
        return
    lazy = not record.graphs.get("dynamo")
    what = "where torch.compile makes none" if lazy else "without breaks and recompiles of Dynamo"
    yield TextLine(f"No remedy for a program of {count}, {what}:")
    for finding in findings:
        yield from lines(replace(finding, stack=(), circumstances=""))
        yield from indent_lines(advice(finding), DEPTH)


def report(outcome: SearchResult, advice: Advise) -> Iterator[TextLine]:
    """Yield the whole report."""
    before = outcome.before
    for problem in outcome.problems:
        yield from _problem(problem, before, outcome.last.record, advice)
        yield BLANK
        before = next(reversed(problem.patches.values()), before)
    notes = [patch.note for patch in outcome.patches]
    yield from (TextLine(f"note: {text}") for text in dict.fromkeys(filter(None, notes)))
    first, last = outcome.first.record, outcome.last.record
    words = f"graphs {outcome.before} -> {outcome.after}"
    if outcome.before == outcome.after:  # then the gain is in one of these, if there is any
        for name, old, new in (
            ("breaks", len(fixable(first)), len(fixable(last))),
            ("recompiles", recompile_count(first), recompile_count(last)),
        ):
            words += f", {name} {old} -> {new}" if new < old else ""
    yield TextLine(words)


def _problem(problem: Problem, before: int, record: Record, advice: Advise) -> Iterator[TextLine]:
    """Yield a problem as a finding, with its advice as long as it is open, and what was tried.

    ``before`` is the number of graphs without its patches.
    """
    if problem.item is None:  # the recompiles of the run (``Problem``)
        yield TextLine("recompiles", indent=4)
        findings = findings_of_record(Record(("dynamo",), recompile_list=record.recompile_list))
    else:
        findings = _findings_of_break(problem.item)
    for finding in findings:
        fix = () if problem.fixed or problem.tried else finding.fix
        yield from lines(replace(finding, stack=(), circumstances="", fix=fix))
    for patch, after in problem.patches.items():
        yield _state("kept", f"{patch.title} ({before} -> {after})")
        before = after
    if problem.fixed and not problem.patches:
        yield _state("gone", "with the patches for other places")
    elif not problem.fixed:
        why = "no remedy worked" if problem.tried else "no remedy here applies to it"
        yield _state("open", "it is still there" if problem.patches else why)
    for title, why in problem.tried:
        yield TextLine(f"tried, not kept: {title}: {why}", indent=DEPTH + 2)
    for finding in () if problem.fixed else findings:
        yield from indent_lines(advice(finding), DEPTH)


def _findings_of_break(broken: Break) -> list[Finding]:
    """Return a break of Dynamo, or the graphs of torch_xla that it stands for.

    A search takes the xla graphs of cause ``split`` at one line for one break, whose ``count`` is
    their number (``gain.fixable``).
    """
    if broken.layer != "xla":
        return findings_of_record(Record((broken.layer,), breaks=(broken,)))
    graph = Graph("xla", cause="split", where=broken.where, reason=broken.reason)
    count = broken.count
    return findings_of_record(Record(("xla",), {"xla": count}, graph_list=(graph,) * count))


def _state(word: str, text: str) -> TextLine:
    """Return a line that says what happened to a break, and why."""
    return TextLine(text, indent=DEPTH, head=f"{word}  ")
