"""Which settings of torch a test was measured with, as far as they change its graphs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from pytest_graphbreak.model.layers import DESCRIPTIONS
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.text.output import TextLine

DYNAMO: Final = "torch._dynamo.config."
INDUCTOR: Final = "torch._inductor.config."
"""How graphs are compiled further, not which."""
MOST_VALUES: Final = 3
"""Of a setting that several tests left with values of their own, so many are named."""


def measured_with(record: Record) -> Iterator[TextLine]:
    """``  settings  measured with capture_scalar_outputs = True``, one line for each.

    Not those that the library of a layer sets when it is imported: nobody chose them.
    """
    usual = {item for layer in record.layers for item in DESCRIPTIONS[layer].sets}
    head = "settings  "
    for name, value in record.settings.items():
        if not name.startswith(INDUCTOR) and (name, value) not in usual:
            words = "and" if head.isspace() else "measured with"
            yield TextLine(f"{words} {shown(name, value)}", indent=2, head=head)
            head = " " * len(head)


def left_behind(tests: Iterable[TestReport]) -> list[str]:
    """The settings that calls of tests left: one line for each setting and class, or file.

    Settings that the same tests left are on one line.
    """
    left: dict[tuple[str, str], dict[str, Any]] = {}
    for test in tests:
        for name, value in test.leaks.items():
            left.setdefault((_around(test.nodeid), name), {})[test.nodeid] = value
    settings: dict[tuple[str, ...], list[str]] = {}
    for (around, name), values in left.items():
        settings.setdefault((around, *values), []).append(shown(name, _distinct(values.values())))
    return [
        f"{ids[0] if len(ids) == 1 else f'{around} ({len(ids)} tests)'}   left {', '.join(words)}"
        for (around, *ids), words in settings.items()
    ]


def _around(nodeid: str) -> str:
    """The class of a test, or its file."""
    return nodeid.partition("[")[0].rpartition("::")[0]


def _distinct(values: Iterable[Any]) -> str:
    found = list(dict.fromkeys(map(str, values)))
    return ", ".join([*found[:MOST_VALUES], *(["..."] if len(found) > MOST_VALUES else [])])


def shown(name: str, value: Any) -> str:
    """``capture_scalar_outputs = True``."""
    return f"{name.removeprefix(DYNAMO)} = {value}"
