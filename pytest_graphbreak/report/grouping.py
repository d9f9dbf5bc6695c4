"""Groups what happened at one place for one kind of reason: one entry, with its values.

Every list of reasons is made of these groups: of a script, a log, a run that judged nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from pytest_graphbreak.judging.repeats import plainly, varied, without_numbers
from pytest_graphbreak.model.record import Eager, Graph, Recompile

MOST_VALUES: Final = 6
"""The number of values that an entry names; the rest are counted."""

_OF_FUNCTION: Final = re.compile(r" \([^()]{1,200} of [^()]{1,400}:\d{1,9}\)$")
"""The function that a reason of JAX ends with."""
_NOW: Final = (
    re.compile(r" (?:is|has shape|has strides|is of) ([^()]{1,200}) now\)?$"),
    re.compile(r" before, (.{1,200}) now$"),
    re.compile(r" went from .{1,200}? to (\[[^\]]{0,200}\]|[^\s,]{1,100})"),
)

Repeated = TypeVar("Repeated", bound=Recompile | Graph | Eager)


def grouped(items: Iterable[Repeated]) -> list[list[Repeated]]:
    """Return the items by layer, place and kind of reason, in the order of the first of each."""
    groups: dict[tuple[str, ...], list[Repeated]] = {}
    for item in items:
        groups.setdefault((item.layer, *item.where.key, _kind(item.reason)), []).append(item)
    return list(groups.values())


def reason(items: Sequence[Recompile | Graph | Eager]) -> str:
    """Return the reason of a group: that of a single item, else what varies, and its values."""
    texts = list(dict.fromkeys(plainly(item.reason) for item in items))
    if len(texts) == 1:
        return texts[0]
    values = list(dict.fromkeys(filter(None, map(_value, texts))))
    what = varied(_stem(texts[0]))
    if not what or len(values) < 2:
        return f"{texts[0]}, ... {texts[-1]}"
    more = f" and {len(values) - MOST_VALUES} more" if len(values) > MOST_VALUES else ""
    return f"another {what} in each call: {', '.join(values[:MOST_VALUES])}{more}"


def without_recompiles(graphs: Iterable[Graph], recompiles: Iterable[Recompile]) -> list[Graph]:
    """Return the graphs that no recompile tells of already."""
    told = {(item.layer, item.graph) for item in recompiles}
    return [graph for graph in graphs if (graph.layer, graph.name) not in told]


def _kind(text: str) -> str:
    return varied(_stem(text)) or without_numbers(_stem(text))


def _stem(text: str) -> str:
    return _OF_FUNCTION.sub("", text)


def _value(text: str) -> str:
    """Return the value that came now; empty if the reason does not say it."""
    found = (pattern.search(_stem(text)) for pattern in _NOW)
    return next((one[1] for one in found if one), "")
