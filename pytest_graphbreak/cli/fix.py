"""``graphbreak fix``: writes patched copies of a program's files, proven by runs."""

from __future__ import annotations

import argparse
import importlib.util
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from pytest_graphbreak.cli.explain import ExamplesOnce
from pytest_graphbreak.cli.messages import Progress, complain, say, say_all
from pytest_graphbreak.cli.program import add_program, does_not_run, find, on_bench
from pytest_graphbreak.config.typed import this_command
from pytest_graphbreak.repair import prove
from pytest_graphbreak.repair.original import Original
from pytest_graphbreak.repair.prove import PROVED, Proof
from pytest_graphbreak.repair.report import cuts, nothing, report
from pytest_graphbreak.repair.search import Search
from pytest_graphbreak.repair.sources import headed
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench
from pytest_graphbreak.text import files
from pytest_graphbreak.text.errors import UserError, reason
from pytest_graphbreak.text.files import display_path
from pytest_graphbreak.text.output import TextLine

FIXED, LEFT = 0, 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_program(parser)


def run(args: argparse.Namespace) -> int:
    """Fix the program. Returns 0 if nothing is left to fix, else 1."""
    _check_libcst()
    target = find(args)
    _check_free(target.beside("_fixed").path)
    with on_bench(args.timeout) as bench:
        with Progress() as progress:
            progress.step(0, 1, f"{target.name} as it is")
            search = Search(target, bench, progress.step)
            first = search.outcome.first
            if first.error is not None:
                raise does_not_run(target, first.error, first.stack, first.out)
            search.run()
            written = _Written(target, search)
            written.write(bench, progress)
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


class _Written(Struct):
    """The patched files: each beside the file that it is a copy of."""

    target: Target
    search: Search
    paths: dict[Path, Path] = {}
    """By the files of the user."""
    proof: Proof | None = None

    def write(self, bench: Bench, progress: Progress) -> None:
        """Write the files and prove them, as they are and in a new Python, with inductor.

        What does not hold, or was not proved since the command was interrupted, is removed.
        """
        sources = self.search.sources
        header = f"{files.HEADER}fix {self.target.name}`: the same file, with patches."
        texts = sources.patched(self.search.outcome.patches)
        contents = sources.encoded({name: headed(text, header) for name, text in texts.items()})
        try:
            for path, data in contents.items():
                fixed = Target(path, self.target.test).beside("_fixed").path
                _check_free(fixed)
                files.put(fixed, data)
                self.paths[path] = fixed
            if self.paths:
                progress.step(1, 1, "the patched files as written")
                self.proof = self._prove(bench)
        finally:
            if self.proof is None or self.proof.verdict != PROVED:
                for fixed in self.paths.values():
                    fixed.unlink(missing_ok=True)
                self.paths.clear()

    def _prove(self, bench: Bench) -> Proof:
        """Prove what was written; without a break it runs with the program's own fullgraph=True."""
        outcome, original = self.search.outcome, self.search.original
        if outcome.first.inductor:
            original = Original(bench, self.target, values_only=True)
        unbroken = outcome.first.fullgraph and not outcome.last.record.breaks
        is_own = self.target.path in self.paths
        modules = {path: fixed for path, fixed in self.paths.items() if path != self.target.path}
        return prove.proof_of(
            original,
            self.target.beside("_fixed") if is_own else self.target,
            alone=True,
            allow_breaks=not unbroken,
            replaced={str(path.resolve()): str(fixed) for path, fixed in modules.items()},
        )


def _result(target: Target, search: Search, written: _Written) -> int:
    """Report what was tried, and what was written; return the exit code."""
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
        say_all(_judging(target, search, written))
    return LEFT if is_left or (proof is not None and not written.paths) else FIXED


def _judging(target: Target, search: Search, written: _Written) -> Iterator[TextLine]:
    """Yield the command that judges a patch of what is left."""
    if not written.paths:
        yield TextLine("No remedy worked: nothing is written.")
    items = (problem.item for problem in search.outcome.problems if not problem.fixed)
    places = [search.sources.path(item.where.file) for item in items if item is not None]
    path = next(iter(places), target.path)
    patched = written.paths.get(path) or Target(path).beside("_patched").path
    names = [display_path(x, Path.cwd()) for x in (path, patched)]
    of_test = [f"{names[0]}::{target.test}", names[1]] if target.test else names
    run = [] if path == target.path else ["--run", target.name]
    words = "edit it" if path in written.paths else f"copy {names[0]} to {names[1]}, edit that"
    yield TextLine(f"What is left is yours: {words}; this judges it:")
    command = this_command().graphbreak("prove", *(names if run else of_test), *run)
    yield TextLine("", indent=2, command=command)
