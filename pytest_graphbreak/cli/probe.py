"""Tries one layer's observer on a small function, in a process of its own, and says what it saw.

Its answer (``Runner.call``): what was ``expected``, what it ``saw``,
``with`` what, the ``reasons`` of what was compiled again, by which ``probes``, and
``errors`` and ``notes`` of the observers.
"""

from __future__ import annotations

from pathlib import Path

from pytest_graphbreak.layers.base import Probe
from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.model.layer import Layer, load
from pytest_graphbreak.model.layers import DESCRIPTIONS
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.report.findings import causes_text, decomposition
from pytest_graphbreak.text.numbers import plural
from pytest_graphbreak.watching.measure import Measurement


def tried(asked: Plain) -> Plain:
    """What the observer of the ``layer`` that is named sees of its probe: see above."""
    layer = DESCRIPTIONS[asked["layer"]]
    assert layer.probe is not None
    probe: Probe = load(layer.probe)()
    small = probe.prepare()
    with Measurement(Path.cwd()) as seen:
        small()
    record = seen.close()
    return {
        "expected": probe.expected,
        "saw": _seen(layer, record),
        "with": probe.about(),
        "reasons": [item.reason for item in record.recompile_list],
        "probes": probe.internals(),
        "errors": list(record.errors),
        "notes": [record.note] if record.note else [],
    }


def _seen(layer: Layer, record: Record) -> str:
    """``4 graphs = 1 entry + 1 after a break + 2 recompiles, 2 recompiles, 1 break``."""
    parts = causes_text(decomposition(record, layer.name)) or "none"
    words = f"{plural(record.graphs.get(layer.name, 0), 'graph')} = {parts}"
    if layer.breaks:
        recompiles = record.recompiles.get(layer.name, 0)
        words += f", {plural(recompiles, 'recompile')}, {plural(len(record.breaks), 'break')}"
    return words
