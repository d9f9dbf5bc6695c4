"""``graphbreak import-csv``: writes baselines from the expectations of PyTorch's benchmarks.

Only what such a CSV contains is written: a model without a break is one graph. Entries are added
and never changed.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from pytest_graphbreak.baseline import (
    BaselineError,
    Baselines,
    Measured,
    Values,
    preview,
    split_nodeid,
    update,
)
from pytest_graphbreak.cli.accept import CONTROL
from pytest_graphbreak.cli.check import add_directory
from pytest_graphbreak.cli.messages import MOST, listing, say
from pytest_graphbreak.config.checkout import Checkout, find
from pytest_graphbreak.config.typed import own
from pytest_graphbreak.model.layers import BACKENDS
from pytest_graphbreak.runs.incoming import read
from pytest_graphbreak.text.files import shown
from pytest_graphbreak.text.output import UserError, labelled, plural, reason

# The CSVs with the expected results of PyTorch's dynamo benchmarks for each model.
#
# The columns are defined in benchmarks/dynamo/common.py of PyTorch, ``get_dynamo_stats``; which of
# them exist differs between its releases (check_graph_breaks.py beside it).

NEEDED: Final = ("name", "accuracy", "graph_breaks")
"""The columns that a CSV must have."""
ONE_GRAPH: Final[Mapping[str, int]] = MappingProxyType(
    {"graph_breaks": 0, "recompiles": 0, "fallbacks_to_eager": 0, "unique_graphs": 1}
)
"""The value of each column for a model that is one graph; all but the first may be absent."""
CALLS: Final = "calls_captured"
"""The column of captured operations: FX nodes that call something, in all graphs of the model.

It is the sum of ``count_calls`` over the graphs (torch/_dynamo/output_graph.py); baselines call it
``ops``.
"""
PASSED: Final = "pass"
"""The accuracy of a model that was compiled; for others a 0 may mean that nothing was counted."""
MOST_ROWS: Final = 250_000
"""The number of rows in one file."""

_COUNT: Final = re.compile(r"([0-9]{1,9})(?:\.0)?")  # pandas writes 3.0 if another is empty


class ExpectationsError(UserError):
    """Raised if a CSV cannot be used. The message names file and line of each fault."""


@dataclass(frozen=True, slots=True)
class ExpectedRow:
    """The expected results of one model.

    ``counts`` are by column, None if a cell is empty; ``ops`` is the number of captured operations,
    None if the CSV does not have it.
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
        """Whether there was one graph: no break, or one graph by its own column.

        A break makes no graph, one, or several (docs/explanation/counting.md), so a number of
        breaks other than 0 says nothing about graphs. An empty cell counts like a missing column.
        """
        return self.passed and not self.more

    @property
    def values(self) -> Values:
        """The baseline values of a model that is one graph."""
        return Values(graphs={"dynamo": 1}, ops={} if self.ops is None else {"dynamo": self.ops})

    @property
    def more(self) -> dict[str, int | None]:
        """The known counts that differ from those of one graph; if none is known, all."""
        known = {name: count for name, count in self.counts.items() if count is not None}
        is_known = {"graph_breaks", "unique_graphs"} & set(known)
        more: dict[str, int | None] = {} if is_known else {"graph_breaks": None}
        return more | {name: count for name, count in known.items() if count != ONE_GRAPH[name]}


def load_rows(path: str) -> list[ExpectedRow]:
    """Return the rows of a CSV. Raises ``ExpectationsError`` that names every bad one."""
    try:
        text = read(path).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise ExpectationsError(f"{path}: cannot be read: {reason(error)}") from None
    rows: dict[str, ExpectedRow] = {}
    faults: list[str] = []
    header: list[str] = []
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for cells in ([cell.strip() for cell in line] for line in reader):
            place = f"{path}:{reader.line_num}"
            if not any(cells):
                continue
            if not header:
                header = cells
                _check_header(place, header)
                continue
            row = _row(path, reader.line_num, header, cells)
            if isinstance(row, str):
                faults.append(f"{place}: {row}")
            elif (first := rows.setdefault(row.name, row)) is not row:
                faults.append(f"{place}: {row.name} is on line {first.line}, too; keep one")
            if len(rows) > MOST_ROWS:
                faults.append(f"{place}: more than {MOST_ROWS:,} rows; split the file")
                break
    except csv.Error as error:
        faults.append(f"{path}:{max(1, reader.line_num)}: not CSV: {error}")
    if not header and not faults:
        faults.append(f"{path}: is empty; the columns {', '.join(NEEDED)} are needed")
    if faults:
        raise ExpectationsError("\n".join(faults))
    return list(rows.values())


def _check_header(place: str, header: list[str]) -> None:
    missing = [name for name in NEEDED if name not in header]
    if missing:
        words = f"no column {' and no '.join(missing)}; its columns are {', '.join(header)}"
        raise ExpectationsError(f"{place}: {words[:500]}")
    for name in (*NEEDED, *ONE_GRAPH, CALLS):
        if header.count(name) > 1:
            raise ExpectationsError(f"{place}: column {name} is there twice")


def _row(path: str, line: int, header: list[str], cells: list[str]) -> ExpectedRow | str:
    """Return a row, or what is wrong with it."""
    if len(cells) != len(header):
        return f"{len(cells)} cells, and the header has {len(header)}"
    values = dict(zip(header, cells, strict=True))
    name = values["name"]
    if not name or CONTROL.search(name):
        return f"{name!r} is no name of a model"
    counts: dict[str, int | None] = {}
    for column in (*ONE_GRAPH, CALLS):
        if (cell := values.get(column)) is None:
            continue
        found = _COUNT.fullmatch(cell)
        if cell and not found:
            return f"{name}: {column} is {cell[:40]!r}, no count"
        counts[column] = int(found[1]) if found else None
    calls = counts.pop(CALLS, None)
    return ExpectedRow(name, values["accuracy"], counts, path, line, calls)


OK = 0
FIELDS: Final = ("name", "file")
_VERSION: Final = re.compile(r"\d{1,4}\.\d{1,4}[\w.+]{0,40}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        nargs="+",
        metavar="CSV",
        help="a CSV with the columns name, accuracy and graph_breaks, as in benchmarks/dynamo/"
        "ci_expected_accuracy of PyTorch",
    )
    parser.add_argument(
        "--test",
        required=True,
        metavar="TEMPLATE",
        help="the id of the test of a model, such as 'tests/test_models.py::test_model[{name}]'; "
        "{file} stands for the name of the CSV without .csv",
    )
    parser.add_argument(
        "--profile",
        required=True,
        metavar="NAME",
        help="where the CSV was measured: cpu, cuda, ...",
    )
    parser.add_argument(
        "--torch",
        metavar="VERSION",
        help="the release of torch that the CSV was measured with, such as 2.13; captured "
        "operations (the column calls_captured) are compared only on the same minor version",
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would be written")
    add_directory(parser)


def run(args: argparse.Namespace) -> int:
    """Import CSVs. Returns 0 if written or nothing to write, 2 if a file or option is unusable."""
    _refuse_device(args.profile)
    checkout = find(Path.cwd(), args.graph_budget_dir)
    tests = _by_test(args.test, [row for file in args.files for row in load_rows(file)])
    versions = _versions(args.torch)
    measured = [
        Measured(nodeid, args.profile, versions, row.values, ("dynamo",))
        for nodeid, row in tests.items()
        if row.is_one_graph
    ]
    changes = preview(checkout.directory, measured)
    _refuse_change(checkout, tests, (item.nodeid for item in changes.of("changed", "pruned")))
    _show_left_out(tests.values())
    listing("ungated", (item.nodeid for item in changes.of("ungated")))
    added = changes.of("added")
    where = shown(checkout.directory, Path.cwd())
    files = f"{plural(len(changes.files), 'file')} below {where}"
    what = f"baselines of {plural(len(added), 'test')} in {files}"
    if not added:
        say(f"Nothing to write{': the baselines say this already' if measured else ''}.")
    elif args.dry_run:
        listing("would add", (item.nodeid for item in added))
        say(f"Would write {what}.")
    else:
        update(checkout.directory, measured, mode="record")
        say(f"Wrote {what}.")
    return OK


def _versions(torch: str | None) -> dict[str, str]:
    """Return the version to record. Raises ``ExpectationsError`` if it is not a version."""
    if torch is None:
        return {}
    if not _VERSION.fullmatch(torch):
        raise ExpectationsError(f"--torch {torch}: no version; write one such as 2.13")
    return {"torch": torch}


def _refuse_device(profile: str) -> None:
    """Raise if the profile would be judged on a layer that a CSV does not cover."""
    layer = profile.partition("-")[0]
    if layer in BACKENDS:
        raise ExpectationsError(
            f"--profile {profile}: its tests make {layer} graphs, and a CSV says nothing about "
            "those, so all tests would be over budget. Name the profile of the CSV (cpu, cuda): "
            "other profiles are then compared with it on the dynamo layer"
        )


def _by_test(template: str, rows: Iterable[ExpectedRow]) -> dict[str, ExpectedRow]:
    """Return each row by the id of its test. Raises if an id is invalid, or used by two rows."""
    check_template(template, FIELDS, " and {file} for the CSV")
    tests: dict[str, ExpectedRow] = {}
    faults: list[str] = []
    twice: list[str] = []
    for row in rows:
        values = {"name": row.name, "file": Path(row.file).stem}
        try:
            nodeid = fill_template(template, values)
        except BaselineError as error:
            faults.append(f"{row.place}: {error}")
            continue
        first = tests.setdefault(nodeid, row)
        if first is not row:
            twice.append(f"{row.place}: {nodeid} is the test of {first.place}, too")
    if twice:
        twice = [*_most(twice), "give one CSV at a time, or put {file} into --test"]
    if faults or twice:
        raise ExpectationsError("\n".join([*_most(faults), *twice]))
    return tests


def _refuse_change(
    checkout: Checkout, tests: dict[str, ExpectedRow], changed: Iterable[str]
) -> None:
    """Raise if a test has a different entry already."""
    baselines = Baselines(checkout.directory)
    faults = []
    for nodeid in changed:
        entry = baselines.entry(nodeid)
        place = entry.place if entry else shown(checkout.directory)
        because = f" ({tests[nodeid].place})" if nodeid in tests else ""
        faults.append(f"{place}: {nodeid} has another entry already{because}")
    if faults:
        faults = [*_most(faults), "nothing is written: remove these entries, or the rows"]
        raise ExpectationsError("\n".join(faults))


def _most(faults: list[str]) -> list[str]:
    more = len(faults) - MOST
    return faults if more <= 0 else [*faults[:MOST], f"... and {more:,} more"]


def _show_left_out(rows: Iterable[ExpectedRow]) -> None:
    """Show the rows that do not become baselines, with their reason and the next step."""
    rows = list(rows)
    left = [row for row in rows if not row.is_one_graph]
    whole = len(rows) - len(left)
    listing("left out", (f"{row.name}   {_reason(row)}   {row.place}" for row in left))
    say(f"{plural(len(rows), 'row')}: {whole:,} of one graph, {len(left):,} left out")
    if left:
        say(labelled("next", "record those: ", own().rerun("--graph-budget-record")))


def _reason(row: ExpectedRow) -> str:
    if not row.passed:
        return f"accuracy {row.accuracy or 'unknown'}"
    return ", ".join(
        f"{name} {'unknown' if count is None else count}" for name, count in row.more.items()
    )


_FIELD: Final = re.compile(r"\{([^{}]{0,40})\}")


class TemplateError(UserError):
    """Raised if a template is not a test id, or lacks ``{name}``.

    The message says what to write.
    """


def check_template(template: str, fields: Collection[str], also: str = "") -> None:
    """Raise ``TemplateError`` for an unknown field or if there is none named ``name``.

    ``also`` describes the other fields. Raises ``BaselineError`` if it is not the id of a test.
    """
    named = _FIELD.findall(template)
    unknown = [field for field in named if field not in fields]
    if unknown or "name" not in named:
        fault = f"{{{unknown[0]}}} is not known" if unknown else "has no {name}"
        raise TemplateError(
            f"--test {template}: {fault}; write the id of a test, with {{name}} for the model{also}"
        )
    split_nodeid(template)


def fill_template(template: str, values: Mapping[str, str]) -> str:
    """Return the id of the test. Raises ``BaselineError`` if it is not valid."""
    nodeid = _FIELD.sub(lambda found: values[found[1]], template)
    split_nodeid(nodeid)
    return nodeid
