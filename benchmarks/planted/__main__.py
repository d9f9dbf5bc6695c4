"""Which planted edits the gate catches, which others it fails, and whether it names their lines.

    python -m benchmarks.planted [--drawn SEED | --held-out SEED | --third] [--kind KIND]
        [--program NAME] [--committed] [--show] [--json FILE]

Each program is recorded, edited, and run again under the gate, each time in a forked process. What
the edit did is found without the plugin (``truth``). An edit is *caught* where it made the program
worse and the test is red, a *false alarm* where it did not and the test is red, and *named* where
the first entry of the red text has a line of the edit. Prints a table by kind of edit, and a line
for each edit that is missed, unnamed or a false alarm; ``--show`` prints their texts, too.
Programs that need transformers are left out where it is not installed. ``--drawn`` takes other
programs, and edits whose places a seed chooses, beside written ones; ``--held-out`` does so with a
second set of those, and ``--third`` takes a third set, all written.
With ``--committed`` the programs and their baselines are committed to git before they are edited.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.planted import (
    drawn,
    held_out,
    held_out_programs,
    models,
    third,
    third_programs,
    truth,
    written,
)
from benchmarks.planted.edits import TEST, Edit, Outcome, commit, edited, table, tell
from cases.forked import in_child

PROGRAMS = (
    written.PROGRAMS
    | models.PROGRAMS
    | drawn.PROGRAMS
    | held_out_programs.PROGRAMS
    | third_programs.PROGRAMS
)
BESIDE = held_out_programs.BESIDE | third_programs.BESIDE


def under_the_gate(argument: str) -> dict[str, Any]:
    """Run pytest in this process, in a folder, and give back what the report says of the test."""
    folder, option = argument.split("|")
    os.chdir(folder)
    import pytest

    arguments = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main([*arguments, option, "--graph-budget-report=report.json", TEST])
    (test,) = json.loads(Path("report.json").read_text())["tests"]
    return {key: test[key] for key in ("verdict", "message", "outcome", "failed_by")}


def _quietly(measure: Callable[[str], Any], argument: str) -> dict[str, Any]:
    """What a forked process found; what the program prints is dropped."""

    def silent(argument: str) -> Any:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(nowhere, stream)
        return measure(argument)

    return in_child(silent, argument)


def _true(file: Path) -> dict[str, Any]:
    found = _quietly(truth.counted, str(file))
    if "error" in found:
        raise ValueError(f"the program does not run: {found['error']}")
    return found | _quietly(truth.operators, str(file))


def _files(program: str) -> dict[str, str]:
    files = {TEST: PROGRAMS[program], "pytest.ini": "[pytest]\n"}
    return files | BESIDE.get(program, {}) | models.copied(PROGRAMS[program])


class Bench:
    """A folder where programs are recorded once, ``committed`` to git if asked for, and edited."""

    def __init__(self, folder: Path, *, committed: bool = False) -> None:
        self.folder = folder
        self.committed = committed
        self.known: dict[str, dict[str, Any]] = {}

    def outcome(self, edit: Edit) -> Outcome:
        """What became of an edit. Raises ``ValueError`` where the program does not run."""
        place = self.folder / edit.program
        if edit.program not in self.known:
            self.known[edit.program] = self._recorded(edit.program, place)
        file = place / edit.file
        text = file.read_text()
        after = edit.applied(text)
        file.write_text(after)
        try:
            true = _true(place / TEST)
            seen = _quietly(under_the_gate, f"{place}|--graph-budget")
        finally:
            file.write_text(text)
        return Outcome(
            edit.program,
            edit.kind,
            edit.new.strip(),
            {edit.file: edited(text, after)},
            truth.worse(self.known[edit.program], true),
            seen.get("verdict", "error"),
            seen.get("message") or seen.get("error", ""),
            true,
        )

    def _recorded(self, program: str, place: Path) -> dict[str, Any]:
        place.mkdir()
        for name, text in _files(program).items():
            (place / name).write_text(text)
        true = _true(place / TEST)
        under = _quietly(under_the_gate, f"{place}|--graph-budget-record")
        if under.get("outcome") != "passed":
            raise SystemExit(f"{program}: {under}")
        if self.committed:
            commit(place)
        return true


def outcomes(edits: list[Edit], *, committed: bool = False) -> Iterator[Outcome]:
    import pytest  # noqa: F401  # once, and not in each child
    import torch._dynamo  # noqa: F401

    with contextlib.suppress(ImportError):
        import transformers.modeling_utils  # noqa: F401

    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), committed=committed)
        for edit in edits:
            try:
                yield bench.outcome(edit)
            except ValueError as fault:
                print(f"{'NOT RUN':12}{edit.program}: {edit.new.strip()!r}: {fault}", flush=True)


def _edits(asked: argparse.Namespace) -> list[Edit]:
    with tempfile.TemporaryDirectory() as folder:
        if asked.drawn is not None:
            files = {program: _files(program) for program in drawn.PROGRAMS}
            return [*drawn.CALLS, *drawn.edits(asked.drawn, files, Path(folder))]
        if asked.held_out is not None:
            files = {program: _files(program) for program in held_out_programs.PROGRAMS}
            chosen = held_out.templates
            return [*held_out.EDITS, *drawn.edits(asked.held_out, files, Path(folder), chosen)]
    if asked.third:
        return [*third.EDITS]
    has_models = importlib.util.find_spec("transformers") is not None
    return [*written.EDITS, *(models.EDITS if has_models else ())]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planted")
    parser.add_argument("--kind", default="")
    parser.add_argument("--program", default="")
    sets = parser.add_mutually_exclusive_group()
    sets.add_argument("--drawn", type=int, metavar="SEED")
    sets.add_argument("--held-out", type=int, metavar="SEED")
    sets.add_argument("--third", action="store_true")
    parser.add_argument("--committed", action="store_true")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    edits = _edits(asked)
    edits = [one for one in edits if asked.kind in one.kind and asked.program in ("", one.program)]
    found = []
    for one in outcomes(edits, committed=asked.committed):
        found.append(one)
        tell(one, show=asked.show)
        if asked.json:
            asked.json.write_text(json.dumps([asdict(one) for one in found], indent=1))
    print(table(found, Counter(one.kind for one in edits)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
