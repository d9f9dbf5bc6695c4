"""Makes findings: of the changes of a judged test, or of a record without a judgement.

A ``Difference`` is one change, in numbers (``difference``). A ``Finding`` is what reports show of
it: the reason, the places, what fixes it. Most begin as ``_finding_of_change``, and the function
``_describe_...`` of the items that the change is about adds the words. Changes below another one
(``Difference.parent``) become the consequences of its finding (``below``).

- ``findings_of_failure`` and ``losses`` are for a test that failed (``report.failure``),
- ``findings_of_changes`` for the changes that somebody chose,
- ``findings_of_record`` for what is not judged (``report.unjudged``, ``logs.report``),
- ``finding_of_place`` for a place that only a baseline knows (``report.rows``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from pytest_graphbreak import advice
from pytest_graphbreak.judging import guards
from pytest_graphbreak.judging.difference import observed_changes
from pytest_graphbreak.judging.finding import (
    GONE,
    MAY_BE_NEW,
    NEW,
    REWORDED,
    SEEN,
    Finding,
    NamedPlace,
)
from pytest_graphbreak.judging.sides import frame_of
from pytest_graphbreak.judging.verdict import Verdict
from pytest_graphbreak.model.budget import PLACES_LAYER, BaselinePlace, Cause
from pytest_graphbreak.model.differences import LISTS, Difference
from pytest_graphbreak.model.items import NOWHERE, Break, Eager, Graph, LineRuns, Recompile
from pytest_graphbreak.model.layers import DESCRIPTIONS
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.text.numbers import plural

NEW_ENTRY: Final = "a function that was not compiled before"
"""The reason of a new entry, which no compiler gives."""


def findings_of_record(record: Record, graphs: Iterable[Graph] | None = None) -> list[Finding]:
    """Return what was observed where nothing is judged: most compile time first, then frequency.

    Breaks and recompiles account for most graphs; of the others, those of the deepest layer are
    findings, unless ``graphs`` are given instead. The time is compared in whole seconds.
    """
    deepest = record.headline
    # The graphs of Dynamo stay in any case: ``Folding`` learns from them which frames are entries.
    of_dynamo = record.graphs_of(PLACES_LAYER)
    others = (
        graph
        for graph in (record.graph_list if graphs is None else graphs)
        if graph.layer == deepest and deepest != PLACES_LAYER
    )
    explained = replace(record, graph_list=(*of_dynamo, *others))
    findings = findings_of_changes(observed_changes(explained), explained, sign=SEEN)
    return sorted(findings, key=lambda finding: (-int(finding.seconds or 0), -finding.count))


def findings_of_failure(verdict: Verdict, record: Record) -> list[Finding]:
    """Return what a failure reports: layers with a worse number or, without any, all layers.

    Breaks and code that runs eagerly are reported in any case: a layer below has more graphs
    because of them. Where only a marker is exceeded, and a baseline knows each place, all places
    are reported as without that baseline.
    """
    layers = {total.layer for total in verdict.worse if total.layer}

    def is_reported(change: Difference) -> bool:
        return change.kind in ("break", "eager") or not layers or change.layer in layers

    findings = findings_of_changes(verdict.changes, record, is_reported)
    if verdict.by_marker and not any(finding.is_new for finding in findings):
        return findings_of_changes(observed_changes(record), record, is_reported)
    return findings


def findings_of_changes(
    changes: Sequence[Difference],
    record: Record,
    is_wanted: Callable[[Difference], bool] | None = None,
    sign: str = NEW,
) -> list[Finding]:
    """Return the changes that are reported separately, in the order of the report.

    ``sign`` is the sign of what is there now, ``NEW`` or ``SEEN``; consequences are always new.
    """
    below: dict[int, list[Finding]] = {}
    findings = []
    # A change comes before its consequences. A finding is frozen, so consequences are made first.
    for number, change in reversed([*enumerate(changes)]):
        if change.total or change.kind not in LISTS or (is_wanted and not is_wanted(change)):
            continue
        consequences = tuple(reversed(below.get(number, [])))
        own_sign = sign if change.parent is None else NEW
        finding = _finding_of_change(change, record, own_sign, below=consequences)
        if change.parent is None:
            findings.append(finding)
        else:
            below.setdefault(change.parent, []).append(finding)
    return findings[::-1]


def losses(verdict: Verdict, record: Record) -> list[Finding]:
    """Return what a test lost, as findings that no change of a place explains::

        nothing is lost, or a break or eager place is new    none: these say why
        functions are compiled no more                       each of them (``unreached``)
        operations are lost, one function is compiled now    that function (``less``)
        operations are lost, several functions are compiled  a loss without a place (``less``)

    A baseline does not say which function held the operations, so any of several may hold less.
    """
    changes = verdict.changes
    if not verdict.lost or any(
        change.kind in ("break", "eager") and change.is_new for change in changes
    ):
        return []
    look_for = look_for_lost(verdict)
    gone = findings_of_changes(changes, record, lambda change: change.is_less and not change.after)
    if functions := [finding for finding in gone if finding.is_entry]:
        return [replace(finding, kind="unreached", fix=(look_for,)) for finding in functions]
    layer = next((total.layer for total in verdict.lost if total.kind == "ops"), None)
    if layer is None:
        return []
    compiled = {
        graph.where.key: graph.where for graph in record.graphs_of(layer) if graph.meaning.is_plain
    }
    fix = (f"{look_for}, or deleted operations",)
    less = Finding(GONE, "less", layer, "fewer operations are captured", fix=fix)
    if len(compiled) != 1:
        return [less]
    (where,) = compiled.values()
    places = (NamedPlace("", where),)
    return [replace(less, reason="less of it is compiled", where=where, places=places)]


def look_for_lost(verdict: Verdict) -> str:
    """Return what to look for, according to the first layer that lost something."""
    layer = next((total.layer for total in verdict.lost if total.layer), PLACES_LAYER)
    return f"look for {DESCRIPTIONS[layer].look_for}"


def finding_of_place(sign: str, kind: str, place: BaselinePlace | Cause) -> Finding:
    """Return a place of a baseline as a finding; a baseline knows no number of a line."""
    name, reason, id = "eager" if kind == "eager" else "", "", ""
    if isinstance(place, Cause):
        name = f"{place.layer} {place.cause}"
    else:
        reason, id = place.reason or kind, place.id or ""
    where = frame_of(place.where, place.code)
    places = (NamedPlace("", where),)
    return Finding(
        sign,
        kind,
        layer=place.layer,
        reason=reason,
        id=id,
        where=where,
        count=place.count,
        name=name,
        places=places,
    )


def _finding_of_change(
    change: Difference, record: Record, sign: str, below: tuple[Finding, ...]
) -> Finding:
    finding = Finding(
        sign,
        kind=change.cause if change.kind == "graph" else change.kind,
        layer=change.layer,
        reason=change.reason,
        where=change.where,
        stack=(change.where,),
        count=change.after,
        places=(NamedPlace("", change.where),),
        below=below,
        items=change.items_of(record),
    )
    if change.was:  # a known break has another reason
        now = f"{change.was} is now {change.id or ''} {change.reason}"
        return replace(finding, sign=REWORDED, reason=now.rstrip(), count=1)
    match finding.items:
        case ():
            return _describe_gone(finding, change)
        case (Break() as item, *_):
            return _describe_break(finding, item, record)
        case (Recompile() as item, *_):
            return _describe_recompile(finding, item, record)
        case (Eager() as item, *_):
            return _describe_eager(finding, item)
        case (LineRuns() as item, *_):
            return _describe_runs(finding, item, change)
        case (Graph() as item, *_):
            return _describe_graph(finding, item, change)
    raise AssertionError("unreachable")


def _describe_gone(finding: Finding, change: Difference) -> Finding:
    gone = replace(finding, sign=GONE, stack=(), count=max(-change.growth, 1))
    if change.kind != "graph":
        words = f"{change.reason or change.kind}   gone"
        return replace(gone, id=change.id or "", reason=words, count=1)
    words = "no longer compiled" if finding.is_entry else "gone"
    return replace(gone, name=change.cause, reason=words)


def _describe_break(finding: Finding, graph_break: Break, record: Record) -> Finding:
    where, disabled = graph_break.where, graph_break.disabled
    return replace(
        finding,
        reason=graph_break.reason,
        id=graph_break.id or "",
        stack=(*graph_break.stack[:-1], where),
        fix=advice.shorts(graph_break, record.graphs),
        notes=tuple(f"and {further.id or ''}  {further.reason}" for further in graph_break.also),
        circumstances=_circumstances(graph_break, first=graph_break.count > 1),
        places=(NamedPlace("", disabled if disabled.file else where),),
    )


def _describe_eager(finding: Finding, eager: Eager) -> Finding:
    return replace(
        finding,
        name="eager",
        reason=eager.reason,
        fix=advice.shorts(eager),
        circumstances=_circumstances(eager, first=eager.count > 1),
    )


def _describe_recompile(finding: Finding, recompile: Recompile, record: Record) -> Finding:
    """Return a recompile with its places: the guard's line, what is recompiled, what set the value.

    The line that set the value (``origin``) is left out if another place or a call shows it.
    """
    origin = (
        recompile.origin
        if recompile.origin not in (recompile.guard, recompile.where, *recompile.stack)
        else NOWHERE
    )
    guard, where = NamedPlace("", recompile.guard), NamedPlace("", recompile.where)
    set_in = NamedPlace("set in", origin)
    places = (guard, where, set_in)
    if recompile.guard.file and recompile.where.file:
        without_code = replace(recompile.where, code="")
        places = (guard, set_in, NamedPlace("recompiles", without_code))
    return replace(
        finding,
        name=f"{_again(recompile.layer)} {finding.names_of_recompiled}",
        reason=guards.reason(item.reason for item in finding.items),
        stack=(*recompile.stack, recompile.where),
        fix=advice.shorts(recompile, record.graphs),
        circumstances=_circumstances(recompile, first=len(finding.items) > 1),
        places=tuple(place for place in places if place.where.file),
    )


def _again(layer: str) -> str:
    """Return the word of a layer for a recompile."""
    causes = DESCRIPTIONS[layer].causes
    return next((cause.name for cause in causes if cause.kind == "repeat"), "recompile")


def _describe_graph(finding: Finding, graph: Graph, change: Difference) -> Finding:
    reason = guards.reason(item.reason for item in finding.items) or change.reason
    finding = replace(
        finding,
        name=graph.cause,
        reason=reason,
        stack=(*graph.stack[:-1], graph.where),
        circumstances=_circumstances(graph, first=change.growth > 1),
        count=change.growth,
    )
    if change.kind == "compiled":
        key = f"no cache had it (key {graph.hash})" if graph.hash else ""
        words = f"{graph.cause}   {graph.name}"
        notes = tuple(filter(None, (key, reason))) or ("no cache had it",)
        return replace(finding, name="compiled", reason=words, notes=notes, count=change.after)
    if finding.is_entry:
        if change.unsure:
            return replace(finding, sign=MAY_BE_NEW, aside="may be new")
        return replace(finding, reason=reason or NEW_ENTRY)
    aside = f"(from dynamo {', '.join(graph.sources)})" if graph.sources else ""
    return replace(finding, aside=aside, fix=advice.shorts(graph))


_ASKED: Final = {
    "sync": "torch_xla.sync()",
    "access": "a value was read before it was computed",
    "item": "item(), bool() or float()",
}
"""What caused a run or a read, by ``LineRuns.cause``."""


def _describe_runs(finding: Finding, line: LineRuns, change: Difference) -> Finding:
    """Return runs or reads of one line: ``11 executions: torch_xla.sync()``.

    They are those that came on top. Where a baseline does not know how often the line did so
    before, they are all of them, and any of them may be new.
    """
    asked = _ASKED.get(line.cause, "nobody knows what asked")
    if line.cause == "call":
        graph = f" (graph {line.graph})" if line.graph else ""
        asked = f"a compiled function was called{graph}"
    in_all = " in all" if change.before is None else ""
    unknown = change.before is None and change.by == "baseline"
    return replace(
        finding,
        sign=MAY_BE_NEW if unknown and finding.sign == NEW else finding.sign,
        reason=f"{plural(change.growth, finding.kind)}{in_all}: {asked}",
        circumstances=f"in process {line.process}" if line.process else "",
        count=1,
    )


def _circumstances(item: Break | Eager | Recompile | Graph, *, first: bool) -> str:
    """Return the process, and what the test said that it was doing: ``during step 2``.

    ``first``: it happened more than once, and these are the circumstances of the first time.
    """
    process = f"in process {item.process}" if item.process else ""
    during = "first during" if first else "during"
    doing = f"{during} {item.during}" if item.during else ""
    return ", ".join(filter(None, (process, doing)))
