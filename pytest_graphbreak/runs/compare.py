"""Compares two sets of runs, by cause first. This is pure: reports in, differences out.

``judging.attribution`` finds the differences between two records of a test; here the steps of all
tests are put together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, get_args

from pytest_graphbreak.config.packages import owner
from pytest_graphbreak.judging.attribution import Step, steps
from pytest_graphbreak.judging.repeats import without_numbers
from pytest_graphbreak.model.layer import same_minor
from pytest_graphbreak.model.layers import EXPECTED, LAYERS, VERSIONS, made_by
from pytest_graphbreak.model.record import Frame, Record
from pytest_graphbreak.model.report import RunReport
from pytest_graphbreak.runs.comparison import (
    Alike,
    CauseChange,
    ComparedSide,
    Comparison,
    Effect,
    Once,
    Package,
    Pair,
    PossibleMove,
    SettingChange,
    Unequal,
    Where,
)
from pytest_graphbreak.runs.union import BLIND, FAILED, MEASURED, SeenTest, Union, union

_FACTS: Final = (*VERSIONS, "python", "platform")


def compare(before: Iterable[RunReport], after: Iterable[RunReport]) -> Comparison:
    """Return what differs in ``after``. Never raises: tests that cannot be compared are listed."""
    olds, news = list(before), list(after)
    old, new = union(olds), union(news)
    found = Comparison(_side(olds, old), _side(news, new))
    keys = _matched(old, new)
    doubted = _contradicted(old, "before") | _contradicted(new, "after")
    changes: _Groups = {}
    for one, other, profile in keys:
        nodeid = one.nodeid
        why = doubted.get((one.profile, nodeid)) or doubted.get((other.profile, nodeid))
        why = why or _unmeasured(one, "before") or _unmeasured(other, "after")
        if why:
            found.unequal.append(Unequal(nodeid, profile, why))
        else:
            found.pairs.append(_pair(one, other, profile, changes, found))
            for key in _alone(one.test.record, other.test.record):
                found.layers.setdefault(key, []).append(nodeid)
            for setting in _settings(one.test.record.settings, other.test.record.settings):
                found.settings.setdefault(setting, []).append(nodeid)
    found.once = _once(old, new, keys)
    found.moved, found.changes = paired(changes.values())
    found.pairs.sort(key=lambda pair: (-abs(pair.growth), not pair.moved, pair.nodeid))
    return found


# the two sides


def _side(reports: Sequence[RunReport], together: Union) -> ComparedSide:
    facts = [report.environment for report in reports]
    sides = [fact.to_dict() for fact in facts]
    return ComparedSide(
        reports=tuple(report.name for report in reports),
        profiles=tuple(dict.fromkeys(report.profile for report in reports)),
        versions=_listed((name, fact[name]) for fact in sides for name in _FACTS),
        packages=_listed(item for fact in facts for item in fact.packages.items()),
        tests=sum(seen.level == MEASURED for seen in together.seen.values()),
        problems=tuple(together.incomplete),
    )


def _listed(items: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """Return the versions of each name, ``5.20, 5.21`` if machines differ."""
    found: dict[str, dict[str, None]] = {}
    for name, version in items:
        if version:
            found.setdefault(name, {})[version] = None
    return {name: ", ".join(versions) for name, versions in found.items()}


def _matched(old: Union, new: Union) -> list[tuple[SeenTest, SeenTest, str]]:
    """Return the tests that both sides have, with the profile to list them under.

    Equal profiles belong together. If each side has exactly one profile that the other lacks, these
    two belong together as well: another torch or device often has another profile.
    """
    names = {profile: profile for profile in old.profiles if profile in new.profiles}
    left = [profile for profile in old.profiles if profile not in names]
    right = [profile for profile in new.profiles if profile not in names]
    if len(left) == len(right) == 1:
        names[left[0]] = right[0]
    found = []
    for (profile, nodeid), seen in old.seen.items():
        other = new.seen.get((names.get(profile, ""), nodeid))
        if other is not None:
            here = other.profile
            found.append((seen, other, here if here == profile else f"{profile} -> {here}"))
    return found


def _contradicted(together: Union, side: str) -> dict[tuple[str, str], str]:
    """Return the tests on which the reports of one side contradict each other."""
    return {
        (item.profile, item.nodeid): f"the reports {side} contradict each other: {item.difference}"
        for item in together.contradictions
    }


def _unmeasured(seen: SeenTest, side: str) -> str:
    """Return why a test was not fully measured on one side, or "" if it was."""
    if seen.level == MEASURED:
        return ""
    if seen.level == BLIND:
        return f"could not be seen {side}: {seen.test.record.errors[0]}"
    if seen.level == FAILED:
        return f"{'xfailed' if seen.test.outcome == 'xfailed' else 'failed by itself'} {side}"
    return f"{seen.test.outcome} {side}"


def _once(old: Union, new: Union, pairs: Iterable[tuple[SeenTest, SeenTest, str]]) -> list[Once]:
    both = {(seen.profile, seen.nodeid) for pair in pairs for seen in pair[:2]}
    before = [key for key in old.seen if key not in both]
    after = [key for key in new.seen if key not in both]
    found = []
    side: Where
    for side, mine, others in (("before", before, after), ("after", after, before)):
        named: dict[str, str | None] = {}
        for _, nodeid in others:
            name = nodeid.partition("::")[2]
            named[name] = nodeid if named.get(name, nodeid) == nodeid else None
        for profile, nodeid in mine:
            maybe = named.get(nodeid.partition("::")[2])
            found.append(Once(nodeid, profile, side, None if maybe == nodeid else maybe))
    return found


# one test


_Groups = dict[tuple[object, ...], CauseChange]


def _pair(
    one: SeenTest, other: SeenTest, profile: str, changes: _Groups, found: Comparison
) -> Pair:
    """Return one test of both sides; its changes are added to ``changes``."""
    before, after = one.test.record, other.test.record
    layers = tuple(layer for layer in LAYERS if layer in before.layers and layer in after.layers)
    mine: list[CauseChange] = []
    heads: dict[int, CauseChange] = {}
    for step in steps(before, after, layers, _comparable(one, other)):
        group = changes if step.parent is None else heads[id(step.parent)].with_it
        change = heads[id(step)] = _added(group, step, other.nodeid, profile, found)
        if step.parent is None:
            mine.append(change)
    return Pair(
        nodeid=one.nodeid,
        profile=profile,
        before=one,
        after=other,
        layers=layers,
        graphs=_both(before.graphs, after.graphs, layers),
        recompiles=_both(before.recompiles, after.recompiles, layers),
        ops=_known(before.ops, after.ops, layers),
        executions=_known(before.executions, after.executions, layers),
        reads=_known(before.reads, after.reads, layers),
        changes=tuple(mine),
    )


def _known(
    before: Mapping[str, int], after: Mapping[str, int], layers: Iterable[str]
) -> dict[str, tuple[int, int]]:
    """Return the counts of both sides for the layers for which both know them."""
    return {
        layer: (before[layer], after[layer])
        for layer in layers
        if layer in before and layer in after
    }


def _comparable(one: SeenTest, other: SeenTest) -> tuple[str, ...]:
    """Return the layers whose compiler has the same minor version on both sides."""
    before, after = one.report.versions, other.report.versions
    return tuple(
        layer for layer in LAYERS if same_minor(made_by(layer, before), made_by(layer, after))
    )


def _added(group: _Groups, step: Step, nodeid: str, profile: str, found: Comparison) -> CauseChange:
    """Return the change of all tests that a step of one test belongs to."""
    cause = step.cause
    place = cause.where.key[:2] if cause.kind in EXPECTED else cause.where.key
    key = (cause.kind, cause.layer, step.how, *place)
    if key not in group:
        group[key] = CauseChange(step, _package(cause.where, found))
    group[key].effects.append(Effect(nodeid, profile, step.times, step.graphs))
    return group[key]


def _package(where: Frame, found: Comparison) -> Package | None:
    name = owner(where.file)
    before, after = found.before.packages.get(name), found.after.packages.get(name)
    return Package(name, before, after) if before or after else None


def _both(
    before: Mapping[str, int], after: Mapping[str, int], layers: Iterable[str]
) -> dict[str, tuple[int, int]]:
    found = {layer: (before.get(layer, 0), after.get(layer, 0)) for layer in layers}
    return {layer: pair for layer, pair in found.items() if any(pair)}


def _alone(before: Record, after: Record) -> Iterator[tuple[str, Where]]:
    """Yield the layers that have graphs on one side and were not observed on the other."""
    side: Where
    for side, mine, others in (("before", before, after), ("after", after, before)):
        for layer in mine.layers:
            if layer not in others.layers and mine.graphs.get(layer):
                yield layer, side


def _settings(was: Mapping[str, object], now: Mapping[str, object]) -> Iterator[SettingChange]:
    """Yield the settings that differ."""
    if was != now:
        for name in dict.fromkeys((*was, *now)):
            before, after = (str(side[name]) if name in side else None for side in (was, now))
            if before != after:
                yield SettingChange(name, before, after)


# Causes that are gone at one place and new at another may be the same: a report names a place
# and does not know the former name of its file.


def paired(changes: Iterable[CauseChange]) -> tuple[list[PossibleMove], list[CauseChange]]:
    """Return pairs of changes that are gone and new and may be the same, and all other changes."""
    ordered = sorted(changes, key=lambda one: (-abs(one.growth), -len(one.effects), one.where.key))
    found: list[PossibleMove] = []
    taken: set[int] = set()
    for why in get_args(Alike):
        news: dict[tuple[object, ...], list[CauseChange]] = {}
        for one in reversed(ordered):
            if one.how == "new" and id(one) not in taken:
                for key in _alike(one, why):
                    news.setdefault(key, []).append(one)
        for one in ordered:
            if one.how == "gone" and id(one) not in taken:
                other = _first(news, _alike(one, why), taken)
                if other is not None:
                    found.append(PossibleMove(one, other, why))
                    taken |= {id(one), id(other)}
    return found, [change for change in ordered if id(change) not in taken]


def _first(
    news: Mapping[tuple[object, ...], list[CauseChange]],
    keys: Iterable[tuple[object, ...]],
    taken: set[int],
) -> CauseChange | None:
    """Return the first change with one of these keys that is not taken."""
    for key in keys:
        rest = news.get(key, [])
        while rest and id(rest[-1]) in taken:
            rest.pop()
        if rest:
            return rest[-1]
    return None


def _alike(one: CauseChange, why: Alike) -> Iterator[tuple[object, ...]]:
    """Yield the keys that two changes share which differ only in ``why``: place and test."""
    if one.kind in EXPECTED or not one.where.file:
        return
    file, function, code = one.where.key
    reason = one.cause.id or without_numbers(one.cause.reason)
    same: dict[Alike, tuple[str, ...]] = {
        "file": (function, code),
        "function": (file, code),
        "place": (code, reason),
        "line": (file, function, reason),
    }
    if code or why == "line":
        for effect in one.effects:
            yield (one.kind, one.cause.layer, *same[why], effect.nodeid, effect.profile)
