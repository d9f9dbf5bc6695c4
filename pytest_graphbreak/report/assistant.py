"""What makes tests red, as JSON objects for a program that fixes them: one for each cause.

Each says where it is, the source around it, what happened, how to fix it and the command that
shows whether it is fixed. Where nothing was judged (a script, a run without the gate) every
break, recompile and function left to eager is one.
"""

from __future__ import annotations

import shlex
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pytest_graphbreak import advice
from pytest_graphbreak.advice import Explanation
from pytest_graphbreak.judging.attribution import kind_of
from pytest_graphbreak.judging.difference import observed
from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.model.record import Break
from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.report import explained
from pytest_graphbreak.report.occurrences import occurrences
from pytest_graphbreak.report.root_causes import RootCause, by_nodeid, root_causes
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
        for one in occurrences(observed(test.record), test.record):
            if one.change.kind == "graph" and one.change.layer != test.record.headline:
                continue
            cause = RootCause(one)
            known = found.setdefault(
                cause.where.key if cause.where.file else explained.title(cause), cause
            )
            if test.nodeid not in known.tests:
                known.tests.append(test.nodeid)
    return sorted(found.values(), key=lambda cause: -len(cause.tests))


def to_dict(finding: Finding, sources: CheckoutSources) -> Plain:
    """One finding as plain types. The keys are in docs/reference/commands.md, ``explain``."""
    cause = finding.cause
    item = None if cause.found is None else cause.found.first
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
        "raised": item.raised.to_dict() if isinstance(item, Break) and item.raised.file else {},
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
    known = None if cause.found is None else advice.family(cause.found.first)
    return None if known is None else advice.explain(known.name)


def _remedies(known: Explanation | None) -> Plain:
    """What our page says to write instead, and which switches there are."""
    found = known.page if known is not None else None
    return {
        "instead": list(found.instead) if found is not None else [],
        "switches": list(found.switches) if found is not None else [],
    }


def _kind(cause: RootCause) -> str:
    """``break``, ``recompile``, ``eager``, the cause of a graph, ``unreached``, or ``other``."""
    if cause.found is None:
        return "unreached" if cause.function.file else "other"
    return kind_of(cause.found.first)


def _verify(test: str) -> str:
    """What runs the first of the tests again; of a script, what counts it again."""
    if "::" in test:
        return f"python -m pytest --graph-budget {shlex.quote(test)}"
    return f"graphbreak run {shlex.quote(test)}"
