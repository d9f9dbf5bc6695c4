"""The meaning of a reason and how to fix it: one line in a failure, a page on demand.

A family is a group of reasons with one meaning and one remedy, such as ``item``: it has a name, a
page, and lines after ``fix:`` (``reasons``, ``families.yaml``). Here an item of a record comes in.
Its ``family`` is looked up by its reason, and with that its ``name``, the ``topic`` for
``graphbreak explain``, and ``shorts``, the lines after ``fix:``. ``explain`` and ``suggest`` are
given a text that a user has typed (``explanation``). Nothing here imports torch or pytest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from msgspec.structs import replace

from pytest_graphbreak.advice.explanation import Explanation, explain, suggest
from pytest_graphbreak.advice.reasons import (
    PLAIN,
    Family,
    FixLine,
    families,
    first,
    fix_line,
    guard_text,
)
from pytest_graphbreak.model.items import (
    Break,
    BreakReason,
    Eager,
    Frame,
    Graph,
    LineRuns,
    Recompile,
)

__all__ = ["Explanation", "explain", "family", "name", "shorts", "suggest", "topic"]

BELOW: Final = ("inductor", "cudagraph", "triton")
"""The layers below Dynamo that have words of their own."""
DEVICES: Final = ("xla", "tt")
"""The layers that compile Dynamo's graphs for a device."""

Item = Break | Eager | Recompile | Graph | LineRuns
"""The items for which there can be advice."""


def family(item: Item) -> Family | None:
    """Return the family that an item belongs to, or None if this package has no words for it.

    It is looked up by layer and kind of item in one of the lists of ``Families``::

                              break, eager    recompile     graph, runs of a line
        dynamo                breaks          recompiles    topics, by the cause
        xla, tt               breaks          device        device, by the cause
        inductor and others   below           below         none; runs: below
        jax                   stopped         retraces      programs; runs: stopped
    """
    if item.layer == "jax":
        return _jax_family(item)
    if item.layer in BELOW:
        is_graph = isinstance(item, Graph)
        return None if is_graph else first(families().below, f"{item.layer} {item.reason}")
    if isinstance(item, Break):
        return first(families().breaks, *_texts(item))
    if isinstance(item, Recompile):
        if item.layer != "dynamo":
            return first(families().device, "recompile", item.reason)
        return first(families().recompiles, guard_text(item.reason))
    if isinstance(item, Eager):
        return first(families().breaks, item.reason, "", item.where.code)
    if item.layer == "dynamo":
        # An entry has none, and of a graph that follows from a break the break has the advice.
        return first(families().topics, item.cause)
    return first(families().device, item.cause, item.reason)


def _jax_family(item: Item) -> Family | None:
    if isinstance(item, Recompile):
        return first(families().retraces, item.reason)
    if isinstance(item, Graph):
        # A graph of the cause jit is as it should be, and a retrace is reported by its recompile.
        return first(families().programs, item.cause)
    return first(families().stopped, item.reason)


def name(item: Item) -> str:
    """Return the name of an item's family, or an empty string if it has none."""
    match = family(item)
    return match.name if match is not None else ""


def topic(item: Item) -> str:
    """Return what ``graphbreak explain`` is asked for an item: its page, else its id, else empty.

    An id has many situations in one: GB0059 is any builtin, and the page of ``print`` says more.
    """
    if page := name(item):
        return page
    if isinstance(item, Break) and item.id:
        return item.id
    return "eager" if isinstance(item, Eager) else ""


def shorts(item: Item, graphs: Mapping[str, int] | None = None) -> tuple[str, ...]:
    """Return what to write instead for each reason of an item: a line may break for several.

    A form is how the line that breaks is reached (``reasons.PLAIN``), and whether a device compiles
    the graph: what helps Dynamo may not help a device below it. ``graphs`` are the graphs of the
    record by layer. A line is shown only if a test has followed it in each form that the item has
    (``FixLine.holds``); if there is none, the page says more.
    """
    forms = {PLAIN}
    if isinstance(item, Break) and item.through:
        forms = {item.through}
    if item.layer == "dynamo" and any((graphs or {}).get(layer) for layer in DEVICES):
        forms.add("device")
    further = item.also if isinstance(item, Break) else ()
    items = [item, *(_alone(item, reason) for reason in further if isinstance(item, Break))]
    lines = [line for reason in items if (line := _line(reason)) and forms <= {*line.holds}]
    return tuple(dict.fromkeys(line.short for line in lines))


def _line(item: Item) -> FixLine | None:
    matching = family(item)
    if matching is None:
        return None
    if isinstance(item, Eager) and item.layer == "dynamo":
        return None  # no test has followed a line for a function that was left to eager
    return fix_line(matching, *_texts(item))


def _alone(item: Break, reason: BreakReason) -> Break:
    """Return the break of a line for another of its reasons."""
    return replace(
        item,
        id=reason.id,
        reason=reason.reason,
        explanation=reason.explanation,
        hints=reason.hints,
        also=(),
    )


def _texts(item: Item) -> tuple[str, str, str]:
    """Return the three texts that families are found by: reason, details, and source line."""
    if isinstance(item, Break):
        detail = "\n".join((item.explanation, *item.hints))
        if _in_autograd_function(item.stack):
            detail += f"\n{IN_AUTOGRAD_FUNCTION}"
        return item.reason, detail, item.where.code.strip()
    if isinstance(item, Recompile) and item.guard.code:
        return item.reason, "", item.guard.code.strip()
    return item.reason, "", item.where.code.strip()


IN_AUTOGRAD_FUNCTION: Final = "inside of a torch.autograd.Function"
"""What the details of a break say whose calls lead through ``Function.apply``."""


def _in_autograd_function(stack: Sequence[Frame]) -> bool:
    """Return whether calls lead through ``F.apply(...)`` to a method of ``F``.

    So it is where the line of one frame is ``y = Square.apply(x)``, and the function of the next
    one is ``Square.forward``.
    """
    for outer, inner in pairwise(stack):
        owner = inner.function.rpartition(".")[0].rpartition(".")[2]
        if owner and re.search(rf"\b{re.escape(owner)}\.apply\(", outer.code):
            return True
    return False
