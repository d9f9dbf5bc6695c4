"""``graphbreak prove``: whether a patched program does what the original does, in fewer graphs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from msgspec.structs import replace

from pytest_graphbreak.cli.messages import Progress, add_output, say_all, write_result
from pytest_graphbreak.cli.program import add_arguments_of, check_torch, on_bench
from pytest_graphbreak.repair.prove import PROVED, Proof, ProofError, prove
from pytest_graphbreak.repair.target import Target, parse
from pytest_graphbreak.text.errors import UserError
from pytest_graphbreak.text.files import RESULT
from pytest_graphbreak.text.output import TextLine
from pytest_graphbreak.text.terminal import columns
from pytest_graphbreak.text.wrapping import table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("original", metavar="ORIGINAL", help="script.py, or tests/test_a.py::test")
    parser.add_argument("patched", metavar="PATCHED", help="the same with a patch")
    parser.add_argument(
        "--run",
        metavar="PROGRAM",
        help="the script or test to run, where ORIGINAL and PATCHED are a module that it imports",
    )
    add_arguments_of(parser)
    add_output(parser, "--json", RESULT, "write the proof as JSON")


def run(args: argparse.Namespace) -> int:
    """Prove the patch. Returns 0 if it is proved, else 1; 2 if nothing can be compared."""
    check_torch()
    original, patched = _targets(args)
    replaced = {}
    if args.run:
        replaced = {str(original.path.resolve()): str(patched.path.resolve())}
        original = patched = parse(args.run, args.args)
    try:
        with on_bench(args.timeout) as bench, Progress() as progress:
            proof = prove(bench, original, patched, replaced=replaced, step=progress.step)
    except ProofError as error:
        hint = "a module that a program imports is proved with --run PROGRAM"
        raise UserError(str(error), () if args.run else [hint]) from None
    say_all(_lines(proof))
    write_result(args, {"original": args.original, "patched": args.patched, **proof.to_dict()})
    return 0 if proof.verdict == PROVED else 1


def _targets(args: argparse.Namespace) -> tuple[Target, Target]:
    """Return both programs; a patched file without a test's name is run for the same test."""
    arguments = [] if args.run else args.args
    original, patched = (parse(text, arguments) for text in (args.original, args.patched))
    if original.test and not patched.test:
        patched = replace(patched, test=original.test)
    if original.path.resolve() == patched.path.resolve():
        raise UserError(f"{original.path} is both: name the patched file second")
    return original, patched


def _lines(proof: Proof) -> Iterator[TextLine]:
    """Yield the counts before and after, and the verdict with its reason and what it rests on."""
    rows = [("", "before", "after"), *proof.rows()]
    yield from (TextLine(row, whole=True) for row in table(rows, columns(sys.stdout)))
    if proof.comparison.drawn:
        yield TextLine(f"drawn: {', '.join(proof.comparison.drawn)}")
    if proof.verdict == PROVED:
        yield TextLine(f"{PROVED}: {proof.compared()}")
    else:
        yield TextLine(f"compared: {proof.compared()}")
        yield TextLine(f"{proof.verdict}: {proof.why}")
