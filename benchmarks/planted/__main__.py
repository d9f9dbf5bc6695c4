"""Which planted edits the gate catches, which others it fails, and whether it names their lines.

    python -m benchmarks.planted [--kind KIND] [--program NAME] [--show] [--json FILE]

Each program is recorded, edited, and run again under the gate, each time in a forked process. What
the edit did is found without the plugin (``truth``). An edit is *caught* where it made the program
worse and the test is red, a *false alarm* where it did not and the test is red, and *named* where
the first entry of the red text has a line of the edit. Prints a table by kind of edit, and a line
for each edit that is missed, unnamed or a false alarm; ``--show`` prints their texts, too.
"""

from __future__ import annotations

import argparse
import contextlib
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

from benchmarks.planted import truth, written
from benchmarks.planted.edits import TEST, Edit, Outcome, edited, table, tell
from cases.forked import in_child


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


class Bench:
    """A folder where programs are recorded once, and edited."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
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
        (place / TEST).write_text(written.PROGRAMS[program])
        (place / "pytest.ini").write_text("[pytest]\n")
        true = _true(place / TEST)
        under = _quietly(under_the_gate, f"{place}|--graph-budget-record")
        if under.get("outcome") != "passed":
            raise SystemExit(f"{program}: {under}")
        return true


def outcomes(edits: list[Edit]) -> Iterator[Outcome]:
    import pytest  # noqa: F401  # once, and not in each child
    import torch._dynamo  # noqa: F401

    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        for edit in edits:
            try:
                yield bench.outcome(edit)
            except ValueError as fault:
                print(f"{'NOT RUN':12}{edit.program}: {edit.new.strip()!r}: {fault}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planted")
    parser.add_argument("--kind", default="")
    parser.add_argument("--program", default="")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    edits = written.EDITS
    edits = [one for one in edits if asked.kind in one.kind and asked.program in ("", one.program)]
    found = []
    for one in outcomes(edits):
        found.append(one)
        tell(one, show=asked.show)
        if asked.json:
            asked.json.write_text(json.dumps([asdict(one) for one in found], indent=1))
    print(table(found, Counter(one.kind for one in edits)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
