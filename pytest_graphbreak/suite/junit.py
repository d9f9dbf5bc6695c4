"""The junit properties of a test: how many graphs, recompiles and breaks it made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_graphbreak.model.record import Record

if TYPE_CHECKING:
    import pytest

NAMES: Final = ("graphs", "recompiles", "breaks")


def set_properties(item: pytest.Item, record: Record) -> None:
    """Write them on the test; those of an earlier attempt are replaced."""
    kept = [(name, value) for name, value in item.user_properties if name not in NAMES]
    if record.active:
        layer = record.headline
        counts = (
            record.graphs.get(layer, 0),
            record.recompiles.get(layer, 0),
            len(record.breaks),
        )
        kept += zip(NAMES, counts, strict=True)
    item.user_properties[:] = kept
