"""An edit, the lines of it, what became of it, and the table of outcomes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

FAILING = ("over", "lost", "error", "new")
TEST = "test_planted.py"


class Edit(NamedTuple):
    """``old`` occurs once in a file of its program. ``kind`` is what the table counts it under."""

    program: str
    kind: str
    old: str
    new: str
    file: str = TEST

    def applied(self, text: str) -> str:
        """The text after the edit. Raises ``ValueError`` where it does not fit."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.program} does not have this once: {self.old!r}")
        return text.replace(self.old, self.new)


@dataclass
class Outcome:
    """What became of one edit; ``worse`` are the ways in which it made its program worse."""

    program: str
    kind: str
    new: str
    lines: dict[str, list[int]]
    worse: list[str]
    verdict: str
    message: str
    after: dict[str, Any] = field(default_factory=dict)

    @property
    def red(self) -> bool:
        return self.verdict in FAILING

    @property
    def named(self) -> bool:
        """Whether the first entry of the red text has a line of the edit."""
        return self._is_in(first_entry(self.message))

    def _is_in(self, entry: str) -> bool:
        return any(
            re.search(rf"\b{re.escape(file)}:{line}\b", entry)
            for file, numbers in self.lines.items()
            for line in numbers
        )

    @property
    def words(self) -> str:
        """In capitals where the gate did not do as it should."""
        if not self.worse:
            return "FALSE ALARM" if self.red else "green"
        if not self.red:
            return "MISSED"
        return "caught" if self.named else "UNNAMED"


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


def tell(one: Outcome, *, show: bool) -> None:
    """Print a line for an edit that is missed, unnamed or a false alarm; its text if asked for."""
    if one.words.isupper() or show:
        print(f"{one.words:12}{one.program}: {one.new!r} {one.worse} {one.verdict}")
    if show:
        print(one.message, flush=True)


def table(found: Sequence[Outcome], planted: Mapping[str, int]) -> str:
    """A row for each kind of edit, of which ``planted`` has the numbers, and one for all."""
    lines = [
        "| kind | edits | run | made it worse | caught | named first | others | false alarms |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for kind, number in [*planted.items(), ("all", sum(planted.values()))]:
        same = [one for one in found if kind in (one.kind, "all")]
        bad = [one for one in same if one.worse]
        caught = [one for one in bad if one.red]
        good = [one for one in same if not one.worse]
        cells = (kind, number, len(same), len(bad), len(caught))
        rest = (sum(one.named for one in caught), len(good), sum(one.red for one in good))
        lines.append(f"| {' | '.join(map(str, (*cells, *rest)))} |")
    return "\n".join(lines)
