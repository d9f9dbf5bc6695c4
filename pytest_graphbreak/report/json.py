"""Makes and writes the JSON report of docs/reference/report.md, with every key present."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.model.report import SessionReport, TestReport
from pytest_graphbreak.text.files import in_one_step


def entry(
    nodeid: str, outcome: str, data: Mapping[str, Any], failed_by: str | None, attempts: int
) -> TestReport:
    """Return one item of ``tests``. ``data`` is what the test's report carried, or empty."""
    facts = {"outcome": outcome, "failed_by": failed_by, "attempts": attempts}
    test = TestReport.from_dict({**data, **facts, "nodeid": "-", "setup": _setup(data)})
    return replace(test, nodeid=nodeid)  # a node id of this run may be longer than readers accept


def _setup(data: Mapping[str, Any]) -> Plain:
    """Return counts of what was compiled around the test, by phase and of its own fixtures."""
    phases = {name: data[name]["graphs"] for name in ("setup", "teardown") if name in data}
    graphs: dict[str, int] = {}
    for counts in phases.values():
        for layer, count in counts.items():
            graphs[layer] = graphs.get(layer, 0) + count
    return {"graphs": graphs, "phases": phases, "own": data.get("fixtures") or {}}


def session(exit_code: int, runs: int) -> SessionReport:
    """Return the ``session`` of a run without pytest, of ``runs`` scripts or logs."""
    return SessionReport(exit=exit_code, collected=runs)


def write(path: Path, data: Plain) -> None:
    """Write the report in one step, so that a reader sees either the old or the new file.

    Raises ``OSError`` if it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # ASCII only, since a lone surrogate in a test id cannot be written as UTF-8.
    text = json.dumps(data)
    try:
        text = msgspec.json.format(text, indent=1)
    except msgspec.DecodeError:  # a lone surrogate
        text = json.dumps(data, indent=1)
    with in_one_step(path) as handle, open(handle, "w", encoding="ascii", closefd=False) as file:
        file.write(text)
        file.write("\n")
