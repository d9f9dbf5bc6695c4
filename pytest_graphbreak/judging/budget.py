"""What a test was judged by, in the shape of the JSON report.

The gate says it of a run as it goes, ``rejudge`` of a run that is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_graphbreak.baseline.model import PLACES_LAYER
from pytest_graphbreak.judging.cap import Cap
from pytest_graphbreak.model.layers import COMPILERS
from pytest_graphbreak.model.record import Plain, Record

if TYPE_CHECKING:
    from pytest_graphbreak.baseline import BaselinePlace, Expected
    from pytest_graphbreak.baseline.model import Cause


def baseline(expected: Expected | None) -> Plain | None:
    """What the baseline says for the profile; the report's ``baseline``."""
    if expected is None:
        return None
    values = expected.values
    return {
        "profile": expected.profile,
        **{name: expected.versions.get(name) for name in COMPILERS},
        "graphs": dict(values.graphs),
        "recompiles": dict(values.recompiles),
        "ops": dict(values.ops),
        "breaks": [_place(item) for item in values.breaks],
        "eager": [_place(item) for item in values.eager],
        "causes": [_cause(item) for item in values.causes],
        "functions": dict(values.functions),
    }


def budget(record: Record, expected: Expected | None, cap: Cap | None) -> Plain | None:
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
    return {"graphs": graphs}


def _cause(item: Cause) -> Plain:
    return {
        "layer": item.layer,
        "cause": item.cause,
        "where": item.where,
        "code": item.code,
        "count": item.count,
    }


def _place(item: BaselinePlace) -> Plain:
    layer = {} if item.layer == PLACES_LAYER else {"layer": item.layer}
    return {
        **layer,
        "reason": item.reason,
        "id": item.id,
        "where": item.where,
        "code": item.code,
        "count": item.count,
    }
