"""The CSVs in which PyTorch's dynamo benchmarks keep what they expect of each model. Bounded.

What a column counts: benchmarks/dynamo/common.py of PyTorch, ``get_dynamo_stats``; which of them
there are differs between its releases (check_graph_breaks.py beside it).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from pytest_graphbreak.runs.containers import read
from pytest_graphbreak.text.errors import UserError

NEEDED: Final = ("name", "accuracy", "graph_breaks")
"""The columns that a CSV has to have."""
ONE_GRAPH: Final[Mapping[str, int]] = MappingProxyType(
    {"graph_breaks": 0, "recompiles": 0, "fallbacks_to_eager": 0, "unique_graphs": 1}
)
"""What each column says of a model that is one graph; all but the first may be absent."""
CALLS: Final = "calls_captured"
"""The column of captured operations: FX nodes that call something, of all graphs of the model.

It is ``count_calls`` of each graph, summed (torch/_dynamo/output_graph.py); baselines call it
``ops``.
"""
PASSED: Final = "pass"
"""The accuracy of a model that was compiled; of the others 0 may mean that nobody counted."""
MOST_ROWS: Final = 250_000
"""Rows of one file."""

_COUNT: Final = re.compile(r"([0-9]{1,9})(?:\.0)?")  # pandas writes 3.0 where another cell is empty
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class ExpectationsError(UserError):
    """A CSV that cannot be used. The message names file and line of each fault."""


@dataclass(frozen=True, slots=True)
class ExpectedRow:
    """What was expected of one model.

    ``counts`` are by column, None where a cell is empty; ``ops`` are the captured operations, None
    where the CSV does not say.
    """

    name: str
    accuracy: str
    counts: Mapping[str, int | None]
    file: str
    line: int
    ops: int | None = None

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def passed(self) -> bool:
        return self.accuracy == PASSED

    @property
    def is_one_graph(self) -> bool:
        """Whether it says that there was one graph: no break, or one graph by its own column.

        A break gives no graph, one, or several (docs/explanation/counting.md), so a number of
        breaks other than 0 says nothing of graphs. An empty cell is no more than a missing column.
        """
        return self.passed and not self.more

    @property
    def more(self) -> dict[str, int | None]:
        """Return the counts that are known and not those of one graph; if none is known, all."""
        known = {name: count for name, count in self.counts.items() if count is not None}
        more: dict[str, int | None] = {}
        if not {"graph_breaks", "unique_graphs"} & set(known):
            more["graph_breaks"] = None
        return more | {name: count for name, count in known.items() if count != ONE_GRAPH[name]}


def load_rows(path: str) -> list[ExpectedRow]:
    """The rows of a CSV. Raises ``ExpectationsError`` that names every bad one."""
    try:
        text = read(path).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        words = getattr(error, "strerror", None) or error
        raise ExpectationsError(f"{path}: cannot be read: {words}") from None
    rows: list[ExpectedRow] = []
    faults: list[str] = []
    for item in _parsed(path, text):
        if isinstance(item, ExpectedRow):
            rows.append(item)
        else:
            faults.append(item)
    if faults:
        raise ExpectationsError("\n".join(faults))
    return rows


def _parsed(path: str, text: str) -> Iterator[ExpectedRow | str]:
    """Each row, or what is wrong with it. Lines without anything in them are passed over."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] = []
    seen: dict[str, int] = {}
    line = 1
    try:
        for cells in reader:
            line = reader.line_num
            if not any(cell.strip() for cell in cells):
                continue
            cells = [cell.strip() for cell in cells]
            if not header:
                header = cells
                if fault := _header_fault(header):
                    yield f"{path}:{line}: {fault}"
                    return
                continue
            row = _row(path, line, header, cells)
            if isinstance(row, ExpectedRow):
                first = seen.setdefault(row.name, line)
                if first != line:
                    row = f"{path}:{line}: {row.name} is on line {first}, too; keep one"
            yield row
            if len(seen) > MOST_ROWS:
                yield f"{path}:{line}: more than {MOST_ROWS:,} rows; split the file"
                return
    except csv.Error as error:
        yield f"{path}:{max(line, reader.line_num)}: not CSV: {error}"
        return
    if not header:
        yield f"{path}: is empty; the columns {', '.join(NEEDED)} are needed"


def _header_fault(header: list[str]) -> str:
    missing = [name for name in NEEDED if name not in header]
    if missing:
        return f"no column {' and no '.join(missing)}; its columns are {', '.join(header)}"[:500]
    twice = [name for name in (*NEEDED, *ONE_GRAPH, CALLS) if header.count(name) > 1]
    return f"column {twice[0]} is there twice" if twice else ""


def _row(path: str, line: int, header: list[str], cells: list[str]) -> ExpectedRow | str:
    if len(cells) != len(header):
        return f"{path}:{line}: {len(cells)} cells, and the header has {len(header)}"
    values = dict(zip(header, cells, strict=True))
    name = values["name"]
    if not name or _CONTROL.search(name):
        return f"{path}:{line}: {name!r} is no name of a model"
    counts: dict[str, int | None] = {}
    for column in (*ONE_GRAPH, CALLS):
        cell = values.get(column)
        if cell is None:
            continue
        found = _COUNT.fullmatch(cell)
        if cell and not found:
            return f"{path}:{line}: {name}: {column} is {cell[:40]!r}, no count"
        counts[column] = int(found[1]) if found else None
    calls = counts.pop(CALLS, None)
    return ExpectedRow(name, values["accuracy"], counts, path, line, calls)
