"""The words of a comparison, the same on a terminal, in a comment and on a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pytest_graphbreak import advice
from pytest_graphbreak.judging.attribution import UNEXPLAINED
from pytest_graphbreak.model.layer import minor
from pytest_graphbreak.model.layers import EXPECTED
from pytest_graphbreak.model.record import Break, Eager, Graph, Recompile
from pytest_graphbreak.runs.comparison import (
    Alike,
    CauseChange,
    ComparedSide,
    Comparison,
    Pair,
    PossibleMove,
    SettingChange,
)
from pytest_graphbreak.text.output import plural

KINDS: Final = {"break": "graph break", "eager": "left to eager"}
"""The names of kinds of changes that are not called by their own name."""
ALIKE: Final[Mapping[Alike, str]] = {
    "file": "the same line in another file",
    "function": "the same line in another function of the file",
    "place": "the same line, for the same reason, at another place",
    "line": "another line of the same function, for the same reason",
}


@dataclass(frozen=True, slots=True)
class Section:
    """Changes of one kind under one title. ``name`` is fixed, for looking up a section."""

    name: str
    title: str
    changes: tuple[CauseChange, ...]


def sections(found: Comparison) -> list[Section]:
    """Return the sections that are not empty, in the order of the report, most urgent first."""
    groups: dict[str, list[CauseChange]] = {name: [] for name in _TITLES}
    for change in found.changes:
        groups[_section(change)].append(change)
    torch = _torch(found)
    return [
        Section(name, title.format(torch=torch), tuple(groups[name]))
        for name, title in _TITLES.items()
        if groups[name]
    ]


_TITLES: Final = {
    "new": "new",
    "gone": "gone",
    "again": "compiled again",
    "left": "left the compiler, or came back",
    "known": "known places, with more or fewer graphs",
    "compiled": "functions that are compiled",
    "reason": "another reason at the same place",
    "reworded": "reworded by {torch}, no regression",
}


def _section(change: CauseChange) -> str:
    if change.how in ("reworded", "reason"):
        return change.how
    if change.kind == "eager":
        return "left"
    if change.kind == "recompile":
        return "again"
    if change.kind in EXPECTED or change.kind == UNEXPLAINED:
        return "compiled"
    return change.how if change.how in ("new", "gone") else "known"


def _torch(found: Comparison) -> str:
    after = found.after.versions.get("torch")
    return f"torch {minor(after)}" if after and "," not in after else "another torch"


def sign(change: CauseChange) -> str:
    """Return ``+`` for new or more, ``-`` for gone or fewer, ``~`` for other words."""
    return {"new": "+", "more": "+", "gone": "-", "fewer": "-"}.get(change.how, "~")


def name(change: CauseChange) -> str:
    """Return the name of a change: its id and reason, or its kind."""
    if change.kind == UNEXPLAINED:
        return "graphs that the reports do not explain"
    kind = "" if change.cause.id else KINDS.get(change.kind, change.kind)
    parts = (change.cause.id or kind, "" if change.kind in EXPECTED else change.cause.reason)
    return "  ".join(part for part in parts if part)


def was(change: CauseChange) -> str:
    """Return the earlier name of a change if it differs, else an empty string."""
    if change.how not in ("reworded", "reason"):
        return ""
    before = change.step.before
    assert before is not None
    if before.id != change.cause.id:
        return "  ".join(part for part in (before.id or "no id", before.reason) if part)
    return before.reason


def amount(change: CauseChange) -> str:
    """Return the extent of a change: ``61 tests, +183 graphs``."""
    return ", ".join((plural(len(change.effects), "test"), *growth(change.graphs)))


def growth(graphs: Mapping[str, int]) -> list[str]:
    """Return ``+183 graphs``; by layer if several changed, and nothing if none did."""
    if len(graphs) == 1:
        ((layer, count),) = graphs.items()
        return [f"{count:+,} {layer} {'graph' if abs(count) == 1 else 'graphs'}"]
    return [f"{layer} {count:+,}" for layer, count in graphs.items()]


def owner(change: CauseChange, found: Comparison) -> str:
    """Return the package of a place with its versions: ``transformers 5.20 -> 5.24``.

    The result is empty for a place without a package.
    """
    package = change.package
    if package is None:
        return ""
    if package.moved:
        return f"{package.name} {package.before} -> {package.after}"
    if package.before == package.after:
        other = version_move("torch", found)
        return f"{package.name} {package.after} on both sides" + (f", {other}" if other else "")
    if package.before is None:
        return f"{package.name} {package.after} after; no report before names it"
    return f"{package.name} {package.before} before; no report after names it"


def version_move(name: str, found: Comparison) -> str:
    """Return the versions of a package, ``torch 2.9.1 -> 2.13.0``.

    The result is empty if they are equal, or not known on both sides.
    """
    before, after = found.before.versions.get(name), found.after.versions.get(name)
    return f"{name} {before} -> {after}" if before and after and before != after else ""


def tried(change: CauseChange) -> str | None:
    """Return how to fix it, on one line; only for what still exists."""
    if change.how in ("gone", "fewer", "reworded"):
        return None
    cause = change.cause
    kind, where, reason = cause.kind, cause.where, cause.reason
    if kind == "break":
        return advice.short(Break(cause.layer, reason, where, cause.id, stack=cause.stack))
    if kind == "eager":
        return advice.short(Eager(cause.layer, reason, where))
    if kind == "recompile":
        return advice.short(Recompile(cause.layer, "", reason, where, cause.stack))
    if kind in EXPECTED or kind == UNEXPLAINED:
        return None
    return advice.short(Graph(cause.layer, "", kind, where=where, reason=reason))


def side(one: ComparedSide) -> str:
    """Return one side in words: ``30 tests on cpu; torch 2.13.0, transformers 5.23.0``."""
    versions = [f"{name} {version}" for name, version in one.versions.items() if name != "platform"]
    versions += [f"{name} {version}" for name, version in one.packages.items()]
    tests = f"{plural(one.tests, 'test')} on {', '.join(one.profiles) or 'no profile'}"
    return "; ".join((tests, ", ".join(versions))) if versions else tests


def headline(found: Comparison) -> str:
    """Return how many tests were compared, and with what result."""
    pairs = found.pairs
    if not pairs:
        return "no test was measured on both sides"
    more = sum(pair.growth > 0 for pair in pairs)
    fewer = sum(pair.growth < 0 for pair in pairs)
    empty = sum(bool(pair.emptied) for pair in pairs)
    parts = [f"{plural(len(pairs), 'test')} compared"]
    parts += [f"{more:,} with more graphs"] if more else []
    parts += [f"{fewer:,} with fewer"] if fewer else []
    parts += [f"{empty:,} that lost all graphs of a layer"] if empty else []
    if not more and not fewer:
        parts.append("no count of graphs moved" if found.differs else "nothing differs")
    return ", ".join(parts)


def totals(pairs: Iterable[Pair]) -> Iterator[str]:
    """Yield the totals of all tests, ``dynamo 97 -> 93``, for each layer observed on both sides."""
    before, after = dict[str, int](), dict[str, int]()
    for pair in pairs:
        for layer, (was, now) in pair.graphs.items():
            before[layer] = before.get(layer, 0) + was
            after[layer] = after.get(layer, 0) + now
    for layer, count in before.items():
        yield f"{layer} {moved(count, after[layer])}"


def moved(before: int, after: int) -> str:
    return f"{after:,}" if before == after else f"{before:,} -> {after:,}"


def counts(pair: Pair) -> str:
    """Return the counts of a test by layer: ``dynamo 1 -> 4, xla 8``."""
    return ", ".join(f"{layer} {moved(*count)}" for layer, count in pair.graphs.items())


def setting(one: SettingChange) -> str:
    """Return a setting with both values.

    For example, ``torch._dynamo.config.capture_scalar_outputs: its default -> True``.
    """
    before, after = ("its default" if value is None else value for value in (one.before, one.after))
    return f"{one.name}: {before} -> {after}"


def unsure(pair: PossibleMove) -> str:
    """Return why two changes may be one, and that it is not certain."""
    return f"{ALIKE[pair.why]}: renamed, or gone here and new there"


def asides(found: Comparison) -> Iterator[tuple[str, str, list[str]]]:
    """Yield what is reported by test: a title, the unit that it counts, and a line for each."""
    yield (
        "tests with other counts",
        "test",
        [
            f"{counts(pair)}   {pair.nodeid}{_profiles(pair)}"
            for pair in found.pairs
            if any(before != after for before, after in pair.graphs.values())
        ],
    )
    for side in ("before", "after"):
        once = [one for one in found.once if one.side == side]
        yield (
            f"only {side}",
            "test",
            [
                f"{one.nodeid}   on {one.profile}"
                + (f"   or is it {one.maybe}? A renamed file is unknown here" if one.maybe else "")
                for one in once
            ],
        )
    yield (
        "observed on one side only",
        "layer",
        [f"{layer} {side} only   {_first(tests)}" for (layer, side), tests in found.layers.items()],
    )
    yield (
        "measured with other settings",
        "setting",
        [f"{setting(one)}   {_first(tests)}" for one, tests in found.settings.items()],
    )
    yield (
        "cannot be compared",
        "test",
        [f"{one.nodeid}   {one.why}   on {one.profile}" for one in found.unequal],
    )


def _first(tests: Sequence[str]) -> str:
    more = f" and {len(tests) - 1:,} more" if len(tests) > 1 else ""
    return f"{plural(len(tests), 'test')}: {tests[0]}{more}"


def _profiles(pair: Pair) -> str:
    """Return both profiles if they differ."""
    return f"   {pair.profile}" if "->" in pair.profile else ""
