"""The causes of failed tests as lines: each cause once, with place, advice and tests.

The lines of a cause are those of a failure (``causes``), so they are familiar to its readers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from msgspec import structs

from pytest_graphbreak import advice
from pytest_graphbreak.model.layers import DESCRIPTIONS
from pytest_graphbreak.model.record import Break, Eager, Graph, LineRuns, Recompile
from pytest_graphbreak.report.causes import (
    break_lines,
    eager_lines,
    graph_lines,
    recompile_lines,
)
from pytest_graphbreak.report.lines import at, detail, to_try
from pytest_graphbreak.report.root_causes import RootCause, RootCauses, headline
from pytest_graphbreak.report.runs import run_lines
from pytest_graphbreak.text.output import BLANK, TextLine, plural, signed
from pytest_graphbreak.text.safe import cut

MOST: Final = 10
"""The number of causes that are reported; the rest are counted."""
UNREACHED: Final = f"look for {DESCRIPTIONS['dynamo'].look_for}"
"""The advice for a function that is no longer compiled."""
_NOWHEN: Final[dict[str, Any]] = {"process": None, "during": None}
"""Fields to clear in a cause of many tests: the process, and what one test was doing."""


def lines(found: RootCauses, most: int = MOST) -> Iterator[TextLine]:
    """Yield the lines of all causes and a blank line, for a terminal.

    There are none if no place explains a test, or if only one test failed: its failure is complete.
    """
    if found.red < 2 or not found.places:
        return
    yield TextLine(headline(found), "title")
    for cause in found.all[:most]:
        yield from cause_lines(cause)
    rest = len(found.all) - most
    if rest > 0:
        yield TextLine(f"... and {plural(rest, 'more cause')}", indent=2)
    yield BLANK


def cause_lines(cause: RootCause) -> Iterator[TextLine]:
    """Yield one cause: what, where, what to try, how many tests and graphs, and the first test."""
    yield from what(cause)
    which = "the one that grew most" if cause.graphs else "one of them"
    yield detail(f"{extent(cause)}{f'; {which}:' if len(cause.tests) > 1 else ''}")
    yield detail(cause.tests[0], 4)


def what(cause: RootCause) -> list[TextLine]:
    """Return what happened, where, and what to try, without what is specific to one test."""
    return [replace(line, text=cut(line.text)) for line in _what(cause)]


def _what(cause: RootCause) -> list[TextLine]:
    one = cause.found
    if one is None:
        return [signed("-", cause.words), *at(cause.function), *to_try(to_do(cause))]
    match one.first:
        case Break() as item:
            return break_lines("+", structs.replace(item, count=1, stack=(), **_NOWHEN))
        case Eager() as item:
            return eager_lines("+", structs.replace(item, count=1, **_NOWHEN))
        case LineRuns() as item:
            read = one.change.kind == "read"
            return run_lines("+", structs.replace(item, process=None), item.count, read=read)
        case Graph(cause="entry") as item:
            return [
                signed("+", "a function that was not compiled before", "entry   "),
                *at(item.where),
            ]
        case Graph() as item:
            return graph_lines("+", structs.replace(item, sources=(), stack=(), **_NOWHEN))
        case Recompile() as item:
            items = (structs.replace(item, stack=(), **_NOWHEN), *one.items[1:])
    return recompile_lines("+", replace(one, items=items, below=()))


def title(cause: RootCause) -> str:
    """Return what happened, on one line: ``GB0124 Unsupported Tensor.item() call``."""
    return str(what(cause)[0].harmless()).strip()[2:]


def to_do(cause: RootCause) -> str | None:
    """Return how to fix it, on one line, or None if that is not known."""
    if cause.found is None:
        return UNREACHED if cause.function.file else None
    return advice.short(cause.found.first)


def extent(cause: RootCause) -> str:
    """Return the extent of a cause: ``in 218 tests, which make 436 graphs more``."""
    tests, graphs = len(cause.tests), cause.graphs
    words = f"in {plural(tests, 'test')}"
    if graphs:
        makes = "which makes" if tests == 1 else "which make"
        words += f", {makes} {plural(graphs, 'graph')} more"
    return words
