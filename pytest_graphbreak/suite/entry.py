"""The results of a test: the entry that its process makes, and the tally of the controller.

An entry is one plain dict that travels on pytest's report of the test. It is made in the process
that runs the test, of exact builtin types, so that it survives xdist and ``--forked``. The
controller (``session``) takes entry and outcome from the reports of a test into its ``Tally``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import pytest
from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from pytest_graphbreak.model.forms import Plain
    from pytest_graphbreak.model.record import Record
    from pytest_graphbreak.model.report import StepCounts, TestReport

ENTRY: Final[pytest.StashKey[Plain]] = pytest.StashKey()
"""The dict of an item; an item that is not measured has none."""
RUNNING: Final = pytest.StashKey[bool]()
"""Whether the call of an item is running."""
FAILED_SUBTEST: Final = pytest.StashKey[bool]()
"""Whether a subtest of the call has failed."""


def begin_entry(item: pytest.Item, nodeid: str) -> Plain:
    """Return the dict of this attempt; only the set-up part of an earlier one is kept."""
    entry: Plain = {"nodeid": nodeid}
    before = item.stash.get(ENTRY, None) or {}
    if "setup" in before:
        entry["setup"] = before["setup"]
    item.stash[ENTRY] = entry
    return entry


def note_step(item: pytest.Item, counts: StepCounts) -> None:
    """Add the counts of a step of a running test; nothing if the test is not measured."""
    if ENTRY in item.stash:
        item.stash[ENTRY].setdefault("steps", []).append(counts.to_dict())


def add_around(entry: Plain, phase: str, graphs: Mapping[str, int]) -> None:
    """Add to ``entry`` what was compiled in a phase and does not belong to the test."""
    counted = Counter(entry.get(phase, {}).get("graphs", {}))
    counted.update(graphs)
    if any(counted.values()):
        entry[phase] = {"graphs": counts(counted)}


def counts(graphs: Mapping[str, int]) -> dict[str, int]:
    """Return the counts by layer that are not zero."""
    return {layer: count for layer, count in graphs.items() if count}


def add_leaks(entry: Plain, settings: Plain, notes: Iterable[str]) -> None:
    """Add the settings of torch that the call of a test left, after its tear-down."""
    entry["leaks"] = settings
    record = entry.setdefault("record", {})
    record["notes"] = (*record.get("notes", ()), *notes)


def not_judged(entry: Plain, record: Record) -> None:
    """Add the record of a test that failed, or was skipped, by itself."""
    entry.update(record=record.to_dict(), verdict="none", message=None)


# The junit properties of a test: its numbers of graphs, recompiles and breaks.

PROPERTIES: Final = ("graphs", "recompiles", "breaks")


def set_properties(item: pytest.Item, record: Record) -> None:
    """Set the properties of the test, replacing those of an earlier attempt."""
    properties = [(name, value) for name, value in item.user_properties if name not in PROPERTIES]
    if record.active:
        layer = record.headline
        values = record.graphs.get(layer, 0), record.recompiles.get(layer, 0), len(record.breaks)
        properties += zip(PROPERTIES, values, strict=True)
    item.user_properties[:] = properties


# The results of a test in the controller.


def entry_on(report: pytest.TestReport) -> Plain:
    """Return the entry that a report carries (``reports.attach``); empty if there is none."""
    return getattr(report, "graphbreak", None) or {}


class Tally(Struct):
    """The results of one test, of its last attempt only.

    ``outcome`` is None until a report says one: then its process died. ``data`` is its entry.
    """

    attempts: int = 0
    outcome: str | None = None
    failed_by: str | None = None
    data: dict[str, Any] = {}

    def result(self, nodeid: str) -> TestReport:
        """Return the test as it is in the report of the run."""
        from pytest_graphbreak.model.report import TestReport

        test = TestReport.from_dict(
            {
                **self.data,
                "nodeid": "-",
                "outcome": self.outcome or "crashed",
                "failed_by": self.failed_by,
                "attempts": self.attempts,
                "setup": _around(self.data),
            }
        )
        return replace(test, nodeid=nodeid)  # it may be longer than readers of reports accept

    @property
    def has_crashed(self) -> bool:
        return self.outcome in (None, "crashed")

    @property
    def is_blind(self) -> bool:
        """Whether it passed and was not measured."""
        return self.outcome in ("passed", "xpassed") and "verdict" not in self.data

    def take(self, report: pytest.TestReport) -> None:
        """Take the report of one phase of the test."""
        if report.when == "setup":
            self.attempts += 1
            self.outcome, self.failed_by, self.data = None, None, {}
        self.data = {**self.data, **entry_on(report)}
        if _is_crash(self, report):
            self.outcome, self.failed_by = "crashed", "test"
        elif report.failed or str(report.outcome) == "rerun":
            # rerunfailures calls a failed attempt ``rerun``; a new set-up report follows.
            self.outcome = "failed"
            # The gate fails a test in its call, or by a block wherever that is.
            may_be_ours = report.when == "call" or hasattr(report, "graphbreak_block")
            self.failed_by = self.data.get("failed_by", "test") if may_be_ours else "test"
        elif report.skipped and report.when != "teardown":
            self.outcome = "xfailed" if hasattr(report, "wasxfail") else "skipped"
        elif report.when == "call":
            self.outcome = "xpassed" if hasattr(report, "wasxfail") else "passed"
            if self.data.get("failed_by"):  # a subtest failed; pytest says so only when it prints
                self.outcome, self.failed_by = "failed", "test"


def _around(entry: Plain) -> Plain:
    """Return what was compiled around the test (``model.report.Around``), from its entry."""
    phases = {name: entry[name]["graphs"] for name in ("setup", "teardown") if name in entry}
    graphs = Counter[str]()
    for counted in phases.values():
        graphs.update(counted)
    return {"graphs": dict(graphs), "phases": phases, "own": entry.get("fixtures") or {}}


def _is_crash(tally: Tally, report: pytest.TestReport) -> bool:
    """Return whether a report was made up for a process that died.

    pytest-forked and xdist use ``???`` as the phase, and other hooks may change that (those of
    tt-xla make it a teardown, for junit). What still shows it: the test's call has no report, and
    this report was not made in the test's process.
    """
    if report.when not in ("setup", "call", "teardown"):
        return True
    unseen = tally.outcome is None and not hasattr(report, "graphbreak")
    return bool(report.failed) and report.when != "setup" and unseen
