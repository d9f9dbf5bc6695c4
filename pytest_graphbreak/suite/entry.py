"""The entry of a test: its results, as one plain dict that travels on its report.

It is made in the process that runs the test, of exact builtin types, so that it survives xdist and
``--forked``; the controller (``session``) collects it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from pytest_graphbreak.model.forms import Plain
    from pytest_graphbreak.model.record import Record
    from pytest_graphbreak.model.report import StepCounts

ENTRY: Final[pytest.StashKey[Plain]] = pytest.StashKey()
"""The dict of an item; an item that is not measured has none."""
RUNNING: Final = pytest.StashKey[bool]()
"""Whether the call of an item is running."""
FAILED_SUBTEST: Final = pytest.StashKey[bool]()
"""Whether a subtest of the call has failed."""


def begin_entry(item: pytest.Item, nodeid: str) -> Plain:
    """Return the dict of this attempt; only the set-up part of an earlier one is kept."""
    before = item.stash.get(ENTRY, None) or {}
    setup = {key: before[key] for key in ("setup",) if key in before}
    entry = item.stash[ENTRY] = {"nodeid": nodeid} | setup
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
