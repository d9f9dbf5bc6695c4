"""The JSON report of docs/reference/report.md: every key always there, builtin types only."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pytest_graphbreak.model.record import Plain, Record
from pytest_graphbreak.text.files import in_one_step

VERSION = 1


def entry(
    nodeid: str, outcome: str, data: Mapping[str, Any], failed_by: str | None, attempts: int
) -> Plain:
    """One item of ``tests``. ``data`` is what travelled on the test's report, or is empty."""
    record = Record.from_dict(data)
    return {
        "nodeid": nodeid,
        "outcome": outcome,
        "failed_by": failed_by,
        "verdict": data.get("verdict", "none"),
        "attempts": attempts,
        **record.to_dict(),
        "leaks": dict(data.get("leaks") or {}),
        "setup": _setup(data),
        "baseline": data.get("baseline"),
        "budget": data.get("budget"),
        "cap": data.get("cap"),
        "ungated": data.get("ungated"),
        "message": data.get("message"),
        "unseen": list(data.get("unseen") or ()),
        "foreign": data.get("foreign"),
        "written": bool(data.get("written")),
    }


def _setup(data: Mapping[str, Any]) -> Plain:
    """What was compiled around the test, by phase in ``phases``; ``own``: its fixtures' share."""
    phases = {name: data[name]["graphs"] for name in ("setup", "teardown") if name in data}
    graphs: dict[str, int] = {}
    for counts in phases.values():
        for layer, count in counts.items():
            graphs[layer] = graphs.get(layer, 0) + count
    return {"graphs": graphs, "phases": phases, "own": dict(data.get("fixtures") or {})}


def session(exit_code: int, runs: int) -> Plain:
    """The ``session`` of what no pytest ran: ``runs`` scripts or logs."""
    return {
        "exit": exit_code,
        "collected": runs,
        "deselected": 0,
        "complete_files": [],
        "unmeasured": [],
        "stale": [],
    }


def document(environment: Plain, session: Plain, tests: Iterable[Plain]) -> Plain:
    """The whole report."""
    return {
        "version": VERSION,
        "environment": environment,
        "session": session,
        "tests": list(tests),
    }


def write(path: Path, data: Plain) -> None:
    """Write the report in one step: a reader sees the old file or the new one.

    Raises ``OSError`` if it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with in_one_step(path) as handle, open(handle, "w", encoding="ascii", closefd=False) as file:
        # ASCII only: a lone surrogate in a test id cannot be written as UTF-8.
        json.dump(data, file, ensure_ascii=True, indent=1)
        file.write("\n")
