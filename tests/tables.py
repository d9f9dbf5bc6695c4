"""The table of edits of docs/explanation/counting.md, "Verdicts", read from the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

PAGE: Final = Path(__file__).parents[1] / "docs" / "explanation" / "counting.md"
ELSEWHERE: Final = ", elsewhere"
"""Follows a number of breaks that are at other places than before."""


class Counts(NamedTuple):
    """What a test had on the layer ``dynamo``."""

    graphs: int
    recompiles: int
    breaks: int
    ops: int
    executions: int
    entry: str


class Edit(NamedTuple):
    """A row of the table: what was edited, and the counts before and after."""

    words: str
    before: Counts
    after: Counts
    elsewhere: bool
    verdict: str


def counts_of(test: dict[str, Any]) -> Counts:
    """The counts of a test in a report; of several entries the first."""
    entries = [graph["where"] for graph in test["graph_list"] if graph["cause"] == "entry"]
    names = sorted(where["function"] for where in entries)
    return Counts(
        test["graphs"].get("dynamo", 0),
        test["recompiles"].get("dynamo", 0),
        len(test["breaks"]),
        test["ops"].get("dynamo", 0),
        test["executions"].get("dynamo", 0),
        names[0] if names else "",
    )


def _edit(row: str) -> Edit:
    words, *cells, verdict = (cell.strip() for cell in row.strip("| ").split("|"))
    elsewhere = any(ELSEWHERE in cell for cell in cells)
    sides = [cell.removesuffix(ELSEWHERE).split(" -> ") for cell in cells]
    before, after = ([side[at].strip("`-") for side in sides] for at in (0, -1))
    made = (Counts(*map(int, side[:-1]), side[-1]) for side in (before, after))
    return Edit(words, *made, elsewhere, verdict.strip("`"))


def _edits() -> list[Edit]:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("| edit |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append(_edit(line))
    return rows


EDITS: Final = _edits()
