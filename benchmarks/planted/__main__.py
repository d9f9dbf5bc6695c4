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
import difflib
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.planted import truth
from benchmarks.planted.written import EDITS, PROGRAMS, Edit
from cases.forked import in_child

FAILING = ("over", "lost", "error", "new")


@dataclass
class Outcome:
    """What became of one edit."""

    program: str
    kind: str
    lines: dict[str, list[int]]
    worse: list[str]
    verdict: str
    message: str
    new: str
    named: bool = False
    after: dict[str, Any] = field(default_factory=dict)

    @property
    def red(self) -> bool:
        return self.verdict in FAILING


def edited(before: str, after: str) -> list[int]:
    """The lines of a text that are others than before; of what was deleted, those around it."""
    found: list[int] = []
    matcher = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    for what, _, _, start, end in matcher.get_opcodes():
        if what == "delete":
            found += [start, start + 1]
        elif what != "equal":
            found += range(start + 1, end + 1)
    return found


def first_entry(message: str) -> str:
    """The first entry of a red text: of what is new, else of what is gone."""
    for sign in "+-*~":
        kept: list[str] = []
        for line in message.splitlines():
            if kept and not line.startswith("     "):
                return "\n".join(kept)
            if kept or line.startswith(f"  {sign} "):
                kept.append(line)
        if kept:
            return "\n".join(kept)
    return ""


def is_named(message: str, lines: dict[str, list[int]]) -> bool:
    entry = first_entry(message)
    return any(
        re.search(rf"\b{re.escape(file)}:{line}\b", entry)
        for file, numbers in lines.items()
        for line in numbers
    )


def under_the_gate(argument: str) -> dict[str, Any]:
    """Run pytest in this process, in a folder, and give back what the report says of the test."""
    folder, option = argument.split("|")
    os.chdir(folder)
    import pytest

    arguments = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main([*arguments, option, "--graph-budget-report=report.json", "test_planted.py"])
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


def _true(file: str) -> dict[str, Any]:
    found = _quietly(truth.counted, file)
    if "error" in found:
        raise ValueError(f"the program does not run: {found['error']}")
    return found | _quietly(truth.operators, file)


class Bench:
    """A folder where programs are recorded once, and edited."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.known: dict[str, dict[str, Any]] = {}

    def outcome(self, edit: Edit, text: str) -> Outcome:
        place = self.folder / edit.program
        file = place / "test_planted.py"
        if edit.program not in self.known:
            place.mkdir()
            (place / "pytest.ini").write_text("[pytest]\n")
            file.write_text(text)
            self.known[edit.program] = _true(str(file))
            under = _quietly(under_the_gate, f"{place}|--graph-budget-record")
            if under.get("outcome") != "passed":
                raise SystemExit(f"{edit.program}: {under}")
        assert text.count(edit.old) == 1, f"{edit.program} does not have this once: {edit.old!r}"
        after = text.replace(edit.old, edit.new)
        file.write_text(after)
        true = _true(str(file))
        seen = _quietly(under_the_gate, f"{place}|--graph-budget")
        lines = {"test_planted.py": edited(text, after)}
        message = seen.get("message") or seen.get("error", "")
        return Outcome(
            edit.program,
            edit.kind,
            lines,
            truth.worse(self.known[edit.program], true),
            seen.get("verdict", "error"),
            message,
            edit.new.strip(),
            is_named(message, lines),
            true,
        )


def outcomes(asked: argparse.Namespace) -> Iterator[Outcome]:
    import pytest  # noqa: F401  # once, and not in each child
    import torch._dynamo  # noqa: F401

    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        for edit in EDITS:
            if asked.kind in edit.kind and asked.program in ("", edit.program):
                try:
                    yield bench.outcome(edit, PROGRAMS[edit.program])
                except ValueError as fault:
                    print(f"{'NOT RUN':12}{edit.program}: {edit.new.strip()!r}: {fault}")


def table(found: list[Outcome]) -> str:
    lines = [
        "| kind | made it worse | caught | named first | others | false alarms |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for kind in [*dict.fromkeys(one.kind for one in found), "all"]:
        same = [one for one in found if kind in (one.kind, "all")]
        bad = [one for one in same if one.worse]
        caught = [one for one in bad if one.red]
        good = [one for one in same if not one.worse]
        cells = (kind, len(bad), len(caught), sum(one.named for one in caught), len(good))
        alarms = sum(one.red for one in good)
        lines.append(f"| {' | '.join(map(str, (*cells, alarms)))} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planted")
    parser.add_argument("--kind", default="")
    parser.add_argument("--program", default="")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    found = []
    for one in outcomes(asked):
        found.append(one)
        what = "caught" if one.red else "MISSED"
        if not one.worse:
            what = "FALSE ALARM" if one.red else "green"
        elif one.red and not one.named:
            what = "UNNAMED"
        if what.isupper() or asked.show:
            print(f"{what:12}{one.program}: {one.new!r} {one.worse} {one.verdict}", flush=True)
        if asked.show:
            print(one.message, flush=True)
    print(table(found))
    if asked.json:
        asked.json.write_text(json.dumps([asdict(one) for one in found], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
