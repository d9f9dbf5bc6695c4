"""``graphbreak import-csv``: what PyTorch's benchmarks expect of models becomes baselines.

Only what such a CSV knows is written: a model without a break is one graph. It adds entries and
changes none.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
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
from pytest_graphbreak.cli.check import add_directory
from pytest_graphbreak.cli.messages import MOST, listing, say
from pytest_graphbreak.config.checkout import Checkout, find
from pytest_graphbreak.config.typed import own
from pytest_graphbreak.model.layers import BACKENDS
from pytest_graphbreak.runs.expectations import ExpectationsError, ExpectedRow, load_rows
from pytest_graphbreak.text.errors import UserError
from pytest_graphbreak.text.files import shown
from pytest_graphbreak.text.numbers import plural
from pytest_graphbreak.text.output import labelled

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
    """Import. 0 written or nothing to write, 2 where a file or an option cannot be used."""
    _refuse_device(args.profile)
    checkout = find(Path.cwd(), args.graph_budget_dir)
    tests = _by_test(args.test, [row for file in args.files for row in load_rows(file)])
    versions = _versions(args.torch)
    measured = [
        Measured(nodeid, args.profile, versions, _values(row), ("dynamo",))
        for nodeid, row in tests.items()
        if row.is_one_graph
    ]
    changes = preview(checkout.directory, measured)
    _refuse_change(checkout, tests, (item.nodeid for item in changes.of("changed", "pruned")))
    _show_left_out(tests.values())
    listing("ungated", (item.nodeid for item in changes.of("ungated")))
    added = changes.of("added")
    where = shown(checkout.directory, Path.cwd())
    files = plural(len(changes.files), "file")
    what = f"baselines of {plural(len(added), 'test')} in {files} below {where}"
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
    """Return the version to record. Raises ``ExpectationsError`` for what is no version."""
    if torch is None:
        return {}
    if not _VERSION.fullmatch(torch):
        raise ExpectationsError(f"--torch {torch}: no version; write one such as 2.13")
    return {"torch": torch}


def _values(row: ExpectedRow) -> Values:
    """Return what a baseline says of a model that is one graph."""
    return Values(graphs={"dynamo": 1}, ops={} if row.ops is None else {"dynamo": row.ops})


def _refuse_device(profile: str) -> None:
    """Raise where the profile would be judged on a layer of which a CSV says nothing."""
    layer = profile.partition("-")[0]
    if layer in BACKENDS:
        raise ExpectationsError(
            f"--profile {profile}: its tests make {layer} graphs, and a CSV says nothing about "
            "those, so all tests would be over budget. Name the profile of the CSV (cpu, cuda): "
            "other profiles are then compared with it on the dynamo layer"
        )


def _by_test(template: str, rows: Iterable[ExpectedRow]) -> dict[str, ExpectedRow]:
    """Each row by the id of its test. Raises where there is no such id, or one for two rows."""
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
    """Raise where a test has an entry that says something else."""
    baselines = Baselines(checkout.directory)
    faults = []
    for nodeid in changed:
        entry = baselines.entry(nodeid)
        place = entry.place if entry else shown(checkout.directory)
        because = f" ({tests[nodeid].place})" if nodeid in tests else ""
        faults.append(f"{place}: {nodeid} has another entry already{because}")
    if faults:
        faults = _most(faults)
        raise ExpectationsError(
            "\n".join([*faults, "nothing is written: remove these entries, or the rows"])
        )


def _most(faults: list[str]) -> list[str]:
    more = len(faults) - MOST
    return faults if more <= 0 else [*faults[:MOST], f"... and {more:,} more"]


def _show_left_out(rows: Iterable[ExpectedRow]) -> None:
    """The rows that are no baseline, with their reason, and what to do about them."""
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
    """A template that is no id of a test, or lacks ``{name}``. The message says what to write."""


def check_template(template: str, fields: Collection[str], also: str = "") -> None:
    """Raise ``TemplateError`` for an unknown field or none named ``name``.

    ``also`` gives the values of other fields. Raises ``BaselineError`` for what is no id of a test.
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
    """Return the id of the test. Raises ``BaselineError`` where it is none."""
    nodeid = _FIELD.sub(lambda found: values[found[1]], template)
    split_nodeid(nodeid)
    return nodeid
