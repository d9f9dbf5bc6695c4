"""What a test was judged by, as the JSON report has it.

The gate says it of a run as it goes, ``rejudge`` of a run that is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import asdict, replace

from pytest_graphbreak.model.budget import Cap, Recorded
from pytest_graphbreak.model.layers import COMPILERS
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.report import Budget

if TYPE_CHECKING:
    from pytest_graphbreak.baseline import Expected


def baseline(expected: Expected | None) -> Recorded | None:
    """What the baseline says for the profile; the report's ``baseline``."""
    if expected is None:
        return None
    known = Recorded(**asdict(expected.values), profile=expected.profile)
    return replace(known, **{name: expected.versions.get(name) for name in COMPILERS})


def budget(record: Record, expected: Expected | None, cap: Cap | None) -> Budget | None:
    """The smaller of baseline and marker, layer by layer; the report's ``budget``."""
    if expected is None and cap is None:
        return None
    graphs: dict[str, int] = {}
    for layer in record.layers:
        limits = [cap.graphs(layer) if cap is not None else None]
        if expected is not None and layer in expected.judged(record.layers):
            limits.append(expected.values.graphs.get(layer, 0))
        known = [limit for limit in limits if limit is not None]
        if known:
            graphs[layer] = min(known)
    return Budget(graphs)
