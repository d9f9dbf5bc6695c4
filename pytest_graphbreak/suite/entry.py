"""What a test did, as one plain dict that travels on its report.

It is made in the process that runs the test, of exact builtin types, so that it
survives xdist and ``--forked``; the controller (``session``) collects it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import pytest

from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.model.record import Record

if TYPE_CHECKING:
    from pytest_graphbreak.suite.trace import Trace

ENTRY: Final = pytest.StashKey[Plain]()
"""The dict of an item; one that is not measured has none."""
RUNNING: Final = pytest.StashKey[bool]()
"""Whether the call of an item is under way."""
FAILED_SUBTEST: Final = pytest.StashKey[bool]()
"""Whether a subtest of the call has failed."""
TRACE: Final[pytest.StashKey[Trace]] = pytest.StashKey()
"""The trace of an item, where traces are asked for."""


def begin(item: pytest.Item, nodeid: str) -> Plain:
    """The dict of this attempt; of an earlier one, only what setup compiled is kept."""
    before = item.stash.get(ENTRY, None) or {}
    kept = {key: before[key] for key in ("setup",) if key in before}
    entry = item.stash[ENTRY] = {"nodeid": nodeid} | kept
    return entry


def add_around(entry: Plain, phase: str, graphs: Mapping[str, int]) -> None:
    """Tell in ``entry`` what was compiled in a phase and is not the test's."""
    counted = Counter(entry.get(phase, {}).get("graphs", {}))
    counted.update(graphs)
    if any(counted.values()):
        entry[phase] = {"graphs": counts(counted)}


def counts(graphs: Mapping[str, int]) -> dict[str, int]:
    """Counts by layer as a dict tells them: none that is zero."""
    return {layer: count for layer, count in graphs.items() if count}


def add_left(entry: Plain, settings: Plain, notes: Iterable[str]) -> None:
    """Tell which settings of torch the call of a test left, after its tear-down."""
    entry["leaks"] = settings
    entry["note"] = "; ".join(filter(None, [entry.get("note"), *notes]))


def not_judged(entry: Plain, record: Record) -> None:
    """Tell what a test did that failed, or was skipped, by itself."""
    entry.update(record.to_dict(), verdict="none", message=None)
