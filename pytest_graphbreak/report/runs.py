"""Runs and reads that are more or fewer than before: the lines that caused them, and advice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from pytest_graphbreak.model.record import Frame, LineRuns, Record
from pytest_graphbreak.report.lines import at, process, to_try
from pytest_graphbreak.text.output import TextLine, plural, signed

_ASKED: Final = {
    "sync": ("torch_xla.sync()", "sync once a step, and not inside of a loop over its parts"),
    "access": (
        "a value was read before it was computed",
        "read values once, after the sync at the end of a step",
    ),
    "item": ("item(), bool() or float()", "keep it a tensor; read what is logged once in a while"),
    "copy": ("a copy to the host", "keep it on the device; copy what is needed once, at the end"),
    "fallback": (
        "an operation that runs on the host",
        "write it by operations that the device has",
    ),
}
"""What caused a run or a read, and advice."""
_OTHER: Final = ("nobody knows what asked", "")


def run_lines(sign: str, item: LineRuns, count: int, *, read: bool) -> list[TextLine]:
    """Return the lines for runs or reads: ``+ 11 executions: torch_xla.sync()``."""
    what = plural(count, "read" if read else "execution")
    asked, fix = _called(item) if item.cause == "call" else _ASKED.get(item.cause, _OTHER)
    return [
        signed(sign, f"{what}: {asked}{process(item)}"),
        *at(item.where),
        *(to_try(fix) if fix and sign == "+" else ()),
    ]


def _called(item: LineRuns) -> tuple[str, str]:
    graph = f" (graph {item.graph})" if item.graph else ""
    return (
        f"a compiled function was called{graph}",
        "call it once with all that it is to compute, or compile the loop around it",
    )


def compiled_still(record: Record, layer: str, most: int) -> Iterator[TextLine]:
    """Yield the remaining runs of a layer that ran less of the program."""
    where = {graph.name: graph.where.function for graph in record.graph_list}
    ran: Counter[tuple[str, Frame]] = Counter()
    for item in record.execution_list:
        if item.layer == layer:
            ran[where.get(item.graph, ""), item.where] += item.count
    yield TextLine("some of what ran compiled runs without the compiler now; left are:", indent=2)
    for (function, line), count in list(ran.items())[:most]:
        yield signed("-", plural(count, "execution") + (f" of {function}" if function else ""))
        yield from at(line)
    if not ran:
        yield signed("-", "no execution")
