"""Which settings of torch a test was measured with, as far as they bear on its graphs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pytest_graphbreak.model.layers import DESCRIPTIONS
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.text.safe import printable

DYNAMO: Final = "torch._dynamo.config."
INDUCTOR: Final = "torch._inductor.config."
"""How graphs are compiled further, not which."""


def measured_with(record: Record) -> Iterator[str]:
    """``  settings  measured with capture_scalar_outputs = True``, one line for each.

    Not those that the library of a layer sets when it is imported: nobody chose them.
    """
    usual = {item for layer in record.layers for item in DESCRIPTIONS[layer].sets}
    head = "settings  measured with"
    for name, value in record.settings.items():
        if not name.startswith(INDUCTOR) and (name, value) not in usual:
            yield f"  {head} {shown(name, value)}"
            head = "          and"


def left_behind(test: TestReport) -> str:
    """The settings that the call of a test left; empty where it left none."""
    return ", ".join(shown(name, value) for name, value in test.leaks.items())


def shown(name: str, value: Any) -> str:
    """``capture_scalar_outputs = True``."""
    return printable(f"{name.removeprefix(DYNAMO)} = {value}")
