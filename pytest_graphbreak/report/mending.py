"""What makes tests red, as JSON objects for a program that mends: one for each cause.

Each says where it is, the source around it, what happened, what mends it and the command that
shows whether it is mended. Where nothing was judged (a script, a run without the gate) every
break, recompile and function left to eager is one.
"""

from __future__ import annotations

import shlex
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pytest_graphbreak import advice
from pytest_graphbreak.advice import Explanation
from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.model.layers import DESCRIPTIONS
from pytest_graphbreak.model.record import Break, Eager, Graph, Recompile, Record
from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.report import explained
from pytest_graphbreak.report.fallen import sort
from pytest_graphbreak.report.repeats import Repeats, series
from pytest_graphbreak.report.root_causes import Item, RootCause, by_nodeid, root_causes
from pytest_graphbreak.report.source import CheckoutSources
from pytest_graphbreak.report.view import unjudged, weight

MOST_TESTS: Final = 10
"""Tests that a finding names, the most urgent first; ``red`` counts them all."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A cause, as the tests that it makes red have it; ``judged`` says that they are red by it."""

    cause: RootCause
    judged: bool = True


def findings(tests: Sequence[TestReport]) -> list[Finding]:
    """The causes of the red tests, what makes most of them red first, then what was not judged."""
    red = [Finding(cause) for cause in root_causes(by_nodeid(tests)).all]
    return red + [Finding(cause, judged=False) for cause in _unjudged(tests)]


def _unjudged(tests: Iterable[TestReport]) -> list[RootCause]:
    found: dict[Hashable, RootCause] = {}
    for test in sorted(unjudged(tests), key=weight):
        for item in _items(test.record):
            cause = RootCause(item)
            known = found.setdefault(
                cause.where.key if cause.where.file else explained.title(cause), cause
            )
            if test.nodeid not in known.tests:
                known.tests.append(test.nodeid)
    return sorted(found.values(), key=lambda cause: -len(cause.tests))


def _items(record: Record) -> Iterator[Item]:
    layer = DESCRIPTIONS[record.headline]
    cut = (
        graph
        for graph in record.graph_list
        if graph.layer == layer.name
        and not (cause := layer.cause(graph.cause)).explained_by
        and not cause.is_meant
    )
    found = sort(record, record.breaks, record.eager, record.recompile_list, cut)
    yield from (item for item, _ in found.breaks)
    yield from series(found.recompiles)
    yield from found.eager
    yield from found.graphs


def to_dict(finding: Finding, sources: CheckoutSources) -> Plain:
    """One finding as plain types. The keys are in docs/reference/commands.md, ``explain``."""
    cause = finding.cause
    item = _item(cause)
    known = page(cause)
    id = item.id if isinstance(item, Break) else None
    excerpt = sources.excerpt(cause.where)
    test = cause.tests[0]
    return {
        "kind": _kind(cause),
        "layer": item.layer if item is not None else None,
        "id": id,
        "reason": item.reason if isinstance(item, Break) else explained.title(cause),
        "explanation": item.explanation if isinstance(item, Break) else "",
        "where": cause.where.to_dict() if cause.where.file else {},
        "source": None if excerpt is None else {"line": excerpt[0], "code": excerpt[1]},
        "stack": [frame.to_dict() for frame in cause.stack if frame.file],
        "try": explained.to_do(cause),
        **_remedies(known),
        "explain": f"graphbreak explain {known.family}" if known is not None else None,
        "judged": finding.judged,
        "red": len(cause.tests) if finding.judged else 0,
        "graphs": cause.graphs,
        "tests": cause.tests[:MOST_TESTS],
        "fix": f"graphbreak fix {shlex.quote(test)}" if known is not None else None,
        "verify": _verify(test),
    }


def page(cause: RootCause) -> Explanation | None:
    """Our page on a cause, if there is one."""
    item = _item(cause)
    known = advice.family(item) if item is not None else None
    return None if known is None else advice.explain(known.name)


def _item(cause: RootCause) -> Break | Eager | Recompile | Graph | None:
    return cause.item.first if isinstance(cause.item, Repeats) else cause.item


def _remedies(known: Explanation | None) -> Plain:
    """What our page says to write instead, and which switches there are."""
    found = known.page if known is not None else None
    return {
        "instead": list(found.instead) if found is not None else [],
        "switches": list(found.switches) if found is not None else [],
    }


def _kind(cause: RootCause) -> str:
    """``break``, ``recompile``, ``eager``, the cause of a graph, ``unreached``, or ``other``."""
    match cause.item:
        case Break():
            return "break"
        case Repeats():
            return "recompile"
        case Eager():
            return "eager"
        case Graph(cause=name):
            return name
    return "unreached" if cause.function.file else "other"


def _verify(test: str) -> str:
    """What runs the first of the tests again; of a script, what counts it again."""
    if "::" in test:
        return f"python -m pytest --graph-budget {shlex.quote(test)}"
    return f"graphbreak run {shlex.quote(test)}"
