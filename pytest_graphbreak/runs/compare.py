"""What changed between two sets of runs, by cause first. Pure: reports in, differences out.

A graph counts for the cause that it exists for: what follows a break for the break, and a device
graph that is lowered from it for the break, too. So the growth of a test is the sum of its effects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, get_args

from pytest_graphbreak.config.packages import owner
from pytest_graphbreak.judging.attribution import Attribution, Key, PlacedCause
from pytest_graphbreak.judging.repeats import without_numbers
from pytest_graphbreak.layers.dynamo.messages import LIMIT
from pytest_graphbreak.model.layers import EXPECTED, LAYERS, VERSIONS, made_by
from pytest_graphbreak.model.record import Frame, Record
from pytest_graphbreak.model.report import RunReport
from pytest_graphbreak.model.versions import same_minor
from pytest_graphbreak.runs.comparison import (
    Alike,
    CauseChange,
    ComparedSide,
    Comparison,
    Effect,
    How,
    Once,
    Package,
    Pair,
    PossibleMove,
    SettingChange,
    Unequal,
    Where,
    together,
)
from pytest_graphbreak.runs.union import BLIND, FAILED, MEASURED, SeenTest, Union, union

_FACTS: Final = (*VERSIONS, "python", "platform")

_COMPARED: Final = (
    *("layers", "graphs", "recompiles", "breaks", "eager", "recompile_list", "graph_list"),
)


def compare(before: Iterable[RunReport], after: Iterable[RunReport]) -> Comparison:
    """What differs in ``after``. Never raises: what cannot be compared is in the result."""
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
    """The versions of each name, ``5.20, 5.21`` where machines differ."""
    found: dict[str, dict[str, None]] = {}
    for name, version in items:
        if version:
            found.setdefault(name, {})[version] = None
    return {name: ", ".join(versions) for name, versions in found.items()}


def _matched(old: Union, new: Union) -> list[tuple[SeenTest, SeenTest, str]]:
    """The tests that both sides have, with the profile that they are filed under.

    Equal profiles belong together. Where each side has one profile that the other has not, these
    two do: another torch or another device often has another profile.
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
    """Tests of which the reports of one side say two things."""
    return {
        (item.profile, item.nodeid): f"the reports {side} contradict each other: {item.difference}"
        for item in together.contradictions
    }


def _unmeasured(seen: SeenTest, side: str) -> str:
    """Why a test was not measured whole on one side; empty where it was."""
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


@dataclass(frozen=True, slots=True)
class _Step:
    """How one cause moved in one test."""

    how: How
    before: PlacedCause | None
    after: PlacedCause | None

    @property
    def cause(self) -> PlacedCause:
        cause = self.after or self.before
        assert cause is not None
        return cause

    @property
    def kind(self) -> str:
        return self.cause.kind

    @property
    def times(self) -> tuple[int, int]:
        return tuple(cause.times if cause else 0 for cause in (self.before, self.after))  # type: ignore[return-value]

    @property
    def graphs(self) -> dict[str, int]:
        before, after = (cause.graphs if cause else {} for cause in (self.before, self.after))
        return _less(after, before)


_Groups = dict[tuple[object, ...], CauseChange]


def _pair(
    one: SeenTest, other: SeenTest, profile: str, changes: _Groups, found: Comparison
) -> Pair:
    """One test of both sides; what moved in it is added to ``changes``."""
    before, after = one.test.record, other.test.record
    layers = tuple(layer for layer in LAYERS if layer in before.layers and layer in after.layers)
    mine: list[CauseChange] = []
    if not _same(before, after):
        same = _comparable(one, other)
        steps = _steps(Attribution(before, layers).causes, Attribution(after, layers).causes, same)
        breaks = _LeadingBreaks(steps)
        heads: dict[int, CauseChange] = {}
        for step in sorted(steps, key=lambda step: step.kind != "break"):
            head = breaks.of(step)
            group = changes if head is None else heads[id(head)].with_it
            change = _added(group, step, other.nodeid, profile, found)
            heads[id(step)] = change
            if head is None:
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
    """Counts of both sides, of the layers of which both know them."""
    return {
        layer: (before[layer], after[layer])
        for layer in layers
        if layer in before and layer in after
    }


def _comparable(one: SeenTest, other: SeenTest) -> tuple[str, ...]:
    """The layers of which both sides have graphs by one minor version of the compiler."""
    before, after = one.report.versions, other.report.versions
    return tuple(
        layer for layer in LAYERS if same_minor(made_by(layer, before), made_by(layer, after))
    )


def _added(
    group: _Groups, step: _Step, nodeid: str, profile: str, found: Comparison
) -> CauseChange:
    """The change of all tests that a step of one is part of."""
    cause = step.cause
    place = cause.where.key[:2] if cause.kind in EXPECTED else cause.where.key
    key = (cause.kind, cause.layer, step.how, *place)
    if key not in group:
        change = group[key] = CauseChange(
            kind=cause.kind,
            layer=cause.layer,
            how=step.how,
            where=cause.where,
            reason=cause.reason,
            id=cause.id,
            stack=cause.stack,
            package=_package(cause.where, found),
        )
        if step.before is not None and step.after is not None:
            change.was_reason, change.was_id = step.before.reason, step.before.id
    group[key].effects.append(Effect(nodeid, profile, step.times, step.graphs))
    return group[key]


def _package(where: Frame, found: Comparison) -> Package | None:
    name = owner(where.file)
    before, after = found.before.packages.get(name), found.after.packages.get(name)
    return Package(name, before, after) if before or after else None


class _LeadingBreaks:
    """The breaks of one test that came or went, by the functions that they run through."""

    def __init__(self, steps: Iterable[_Step]) -> None:
        self._found: dict[tuple[str, ...], _Step] = {}
        for step in steps:
            if step.kind == "break":
                self._found.setdefault((step.how, *step.cause.where.key), step)
                for frame in (step.cause.where, *step.cause.stack):
                    self._found.setdefault((step.how, *frame.key[:2]), step)

    def of(self, step: _Step) -> _Step | None:
        """The break with which something came or went, since it runs through the same function.

        A frame that breaks is skipped, or compiled again with what it hands on; where the break is
        gone its function is compiled as it was meant to be.
        """
        kind = step.kind
        how: str = step.how
        if kind == "recompile":
            how = {"more": "new", "fewer": "gone"}.get(how, how)
        elif kind in EXPECTED:
            how = {"new": "gone", "gone": "new"}.get(how, "")
        elif kind != "eager" or LIMIT.search(step.cause.reason):
            return None
        where = step.cause.where.key
        return self._found.get((how, *where)) or self._found.get((how, *where[:2]))


def _same(before: Record, after: Record) -> bool:
    """Whether two tests are reported in equal words, which most are; quick to check."""
    return all(getattr(before, name) == getattr(after, name) for name in _COMPARED)


def _both(
    before: Mapping[str, int], after: Mapping[str, int], layers: Iterable[str]
) -> dict[str, tuple[int, int]]:
    found = {layer: (before.get(layer, 0), after.get(layer, 0)) for layer in layers}
    return {layer: pair for layer, pair in found.items() if any(pair)}


def _less(after: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    growth = {layer: after.get(layer, 0) - before.get(layer, 0) for layer in LAYERS}
    return {layer: count for layer, count in growth.items() if count}


def _alone(before: Record, after: Record) -> Iterator[tuple[str, Where]]:
    """The layers that have graphs on one side and were not observed on the other."""
    side: Where
    for side, mine, others in (("before", before, after), ("after", after, before)):
        for layer in mine.layers:
            if layer not in others.layers and mine.graphs.get(layer):
                yield layer, side


def _settings(was: Mapping[str, object], now: Mapping[str, object]) -> Iterator[SettingChange]:
    """The settings that differ."""
    if was != now:
        for name in dict.fromkeys((*was, *now)):
            before, after = (str(side[name]) if name in side else None for side in (was, now))
            if before != after:
                yield SettingChange(name, before, after)


# what moved from one record to the other


def _steps(
    was: Mapping[Key, PlacedCause], now: Mapping[Key, PlacedCause], same: Collection[str]
) -> list[_Step]:
    """What moved from one record of a test to the other."""
    still = {kind for kind in EXPECTED if _sum(was.values(), kind) == _sum(now.values(), kind)}
    steps = []
    for key in dict.fromkeys((*was, *now)):
        before, after = was.get(key), now.get(key)
        how = _how(before, after, same)
        if how is not None and key[0] not in still:
            steps.append(_Step(how, before, after))
    # A graph that is reported as an entry, or as what follows a known break, is the same one.
    mere = [step for step in steps if _is_mere(step)]
    rest = [step for step in steps if not _is_mere(step)]
    if any(any(step.graphs.values()) for step in rest) or any(_sum(mere).values()):
        return steps
    return rest


def _is_mere(step: _Step) -> bool:
    """Whether a step changes only which graph is counted for what."""
    if step.kind in ("eager", "recompile"):
        return False
    return step.kind in EXPECTED or step.how in ("more", "fewer")


def _sum(found: Iterable[_Step | PlacedCause], kind: str = "") -> Counter[str]:
    """The graphs by layer of all of these, or of those of one kind."""
    return together(one.graphs for one in found if not kind or one.kind == kind)


def _how(
    before: PlacedCause | None, after: PlacedCause | None, same: Collection[str]
) -> How | None:
    """How a cause moved. ``same``: the layers whose compiler is of one minor version."""
    if before is None:
        return "new"
    if after is None:
        return "gone"
    growth = sum(_less(after.graphs, before.graphs).values())
    if not growth and after.kind != "break":  # one line may break for each of its callers
        growth = after.times - before.times
    if growth:
        return "more" if growth > 0 else "fewer"
    if after.id != before.id or without_numbers(after.reason) != without_numbers(before.reason):
        return "reason" if after.layer in same else "reworded"
    return None


# What is gone at one place and new at another, and may be one and the same: a report names a place
# and knows nothing of what its file was called before.


def paired(changes: Iterable[CauseChange]) -> tuple[list[PossibleMove], list[CauseChange]]:
    """Those that are gone and those that are new where they may be the same, and all others."""
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
    """The first change with one of these keys that is not taken."""
    for key in keys:
        rest = news.get(key, [])
        while rest and id(rest[-1]) in taken:
            rest.pop()
        if rest:
            return rest[-1]
    return None


def _alike(one: CauseChange, why: Alike) -> Iterator[tuple[object, ...]]:
    """What two changes share that differ in ``why``: a part of their place, in the same test."""
    if one.kind in EXPECTED or not one.where.file:
        return
    file, function, code = one.where.key
    reason = one.id or without_numbers(one.reason)
    same: dict[Alike, tuple[str, ...]] = {
        "file": (function, code),
        "function": (file, code),
        "place": (code, reason),
        "line": (file, function, reason),
    }
    if code or why == "line":
        for effect in one.effects:
            yield (one.kind, one.layer, *same[why], effect.nodeid, effect.profile)
