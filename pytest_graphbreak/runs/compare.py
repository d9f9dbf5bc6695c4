"""What changed between two sets of runs, by cause first. Pure: reports in, differences out.

``compare(before, after)`` takes the reports of either side (``runs.incoming.Report``, each side any
number of them: shards, profiles, retries) and gives a ``Comparison``:

- ``changes``: each a cause at one place (``kind``: ``break``, ``eager``, ``recompile``, or the
  cause of a graph), ``how`` it moved (``new``, ``gone``, ``more``, ``fewer``; ``reworded`` and
  ``reason`` where only the words did), and its ``effects``: the tests, with the graphs that it made
  more or less in each;
- ``moved``: pairs of a change that is gone and one that is new which may be one and the same;
- ``pairs``: the tests that both sides measured, those that moved first, each with its counts;
- ``once``: the tests that only one side has; ``unequal``: those that cannot be compared, and why;
- ``settings``: those of torch that tests began with and that differ, each with its tests;
- ``before`` and ``after``: what either side is: profiles, versions, what is missing of it.

A graph counts for the cause that it exists for: what follows a break for the break, and a device
graph that is lowered from it for the break, too. So the growth of a test is the sum of its effects.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from pytest_graphbreak.config.packages import owner
from pytest_graphbreak.model.layers import KNOWN, LAYERS, MEANT
from pytest_graphbreak.model.record import NOWHERE, Frame, Graph, Plain, Record
from pytest_graphbreak.model.versions import same_minor
from pytest_graphbreak.runs.incoming import Report
from pytest_graphbreak.runs.union import BLIND, FAILED, MEASURED, SeenTest, Union, union

How = Literal["new", "gone", "more", "fewer", "reworded", "reason"]
"""How a cause moved. ``reworded``: another torch says it in other words. ``reason``: the same torch
gives another reason at the same place."""

Alike = Literal["file", "function", "place", "line"]
"""What is another one at two places that may be the same."""

UNEXPLAINED: Final = "unexplained"
"""The kind of graphs that were counted and of which a report tells no more."""
VERSIONS: Final = ("torch", "torch_xla", "python", "platform")

LIMIT: Final = re.compile(r"(recompile|cache_size|cache size)[ _]limit", re.IGNORECASE)
"""A limit is hit by recompiles, not by a break."""
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?")
_COMPARED: Final = ("layers", "graphs", "recompiles", "ops", "breaks", "eager")
_LISTED: Final = ("recompile_list", "graph_list")


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two sets of runs.

    ``versions`` are those of torch, torch_xla, Python and the platform, ``packages`` those of the
    packages that own places; machines that differ are told with all that they have. ``problems``
    say what is missing of it.
    """

    reports: tuple[str, ...]
    profiles: tuple[str, ...]
    versions: Mapping[str, str]
    packages: Mapping[str, str]
    tests: int
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Package:
    """The package that owns a place; a version is None on a side of which no report tells it."""

    name: str
    before: str | None
    after: str | None

    @property
    def moved(self) -> bool:
        return self.before is not None and self.after is not None and self.before != self.after


@dataclass(frozen=True, slots=True)
class Effect:
    """What a change does to one test: how often its place counts, and graphs by layer.

    ``graphs`` has what it made more or less, no zeros. ``times`` are breaks, frames or recompiles
    at the place, or graphs of this cause, before and after.
    """

    nodeid: str
    profile: str
    times: tuple[int, int]
    graphs: Mapping[str, int]


@dataclass(slots=True)
class Change:
    """One cause at one place, moved in one way, with all tests in which it did.

    ``where``, ``reason`` and ``id`` are those of now, and those of before where it is gone;
    ``was_reason`` and ``was_id`` those of before where it was there, too. ``with_it`` is what came
    or went with a break: frames that are skipped for it, what is compiled again or whole again.
    """

    kind: str
    layer: str
    how: How
    where: Frame
    reason: str = ""
    id: str | None = None
    was_reason: str = ""
    was_id: str | None = None
    stack: tuple[Frame, ...] = ()
    package: Package | None = None
    effects: list[Effect] = field(default_factory=list)
    with_it: dict[tuple[object, ...], Change] = field(default_factory=dict)

    @property
    def graphs(self) -> dict[str, int]:
        """Graphs more or less in all tests, by layer, with what came or went with it; no zeros."""
        total = Counter[str]()
        for change in (self, *self.with_it.values()):
            for effect in change.effects:
                total.update(effect.graphs)
        return {layer: total[layer] for layer in LAYERS if total[layer]}

    @property
    def growth(self) -> int:
        """Graphs more or less on the layer where that is most."""
        return max(self.graphs.values(), key=abs, default=0)


@dataclass(frozen=True, slots=True)
class Moved:
    """What is gone at one place and new at another, and may be the same. ``why`` it may be."""

    before: Change
    after: Change
    why: Alike


@dataclass(frozen=True, slots=True)
class Pair:
    """A test that both sides measured. Counts are before and after, by layer that both observed.

    ``profile`` is how it is filed, ``cpu`` or ``xla-cpu -> cpu`` where the two sides differ.
    ``moved`` tells whether anything of it is another than before, be it a reason.
    """

    nodeid: str
    profile: str
    before: SeenTest
    after: SeenTest
    layers: tuple[str, ...]
    graphs: Mapping[str, tuple[int, int]]
    recompiles: Mapping[str, tuple[int, int]]
    ops: Mapping[str, tuple[int, int]]
    changes: tuple[Change, ...] = ()

    @property
    def growth(self) -> int:
        """Graphs more or less on the layer where that is most."""
        return max((now - was for was, now in self.graphs.values()), key=abs, default=0)

    @property
    def emptied(self) -> tuple[str, ...]:
        """The layers that had graphs and have none."""
        return tuple(layer for layer, (was, now) in self.graphs.items() if was and not now)

    @property
    def moved(self) -> bool:
        counts = (*self.graphs.values(), *self.recompiles.values(), *self.ops.values())
        return bool(self.changes) or any(was != now for was, now in counts)


@dataclass(frozen=True, slots=True)
class Once:
    """A test that one side has and the other does not.

    ``maybe`` is a test of the same name in another file, which the other side has alone.
    """

    nodeid: str
    profile: str
    side: Literal["before", "after"]
    maybe: str | None = None


@dataclass(frozen=True, slots=True)
class Unequal:
    """A test that both sides have and that cannot be compared."""

    nodeid: str
    profile: str
    why: str


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of torch that tests began with and that is another one on the other side.

    ``before`` and ``after`` are its values in words, None where it was the default.
    """

    name: str
    before: str | None
    after: str | None


@dataclass(slots=True)
class Comparison:
    """All that differs. See the module."""

    before: Side
    after: Side
    changes: list[Change] = field(default_factory=list)
    moved: list[Moved] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    once: list[Once] = field(default_factory=list)
    unequal: list[Unequal] = field(default_factory=list)
    settings: dict[Setting, list[str]] = field(default_factory=dict)

    @property
    def differs(self) -> bool:
        """Whether anything is otherwise but words."""
        return bool(
            self.moved
            or self.once
            or self.unequal
            or any(change.how != "reworded" for change in self.changes)
            or any(pair.moved and not pair.changes for pair in self.pairs)
        )

    def of(self, *hows: How) -> list[Change]:
        return [change for change in self.changes if change.how in hows]


def compare(before: Iterable[Report], after: Iterable[Report]) -> Comparison:
    """What is otherwise in ``after``. Never raises: what cannot be compared is in the result."""
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
            for setting in _settings(one.test["settings"], other.test["settings"]):
                found.settings.setdefault(setting, []).append(nodeid)
    found.once = _once(old, new, keys)
    found.moved, found.changes = _paired(changes.values())
    found.pairs.sort(key=lambda pair: (-abs(pair.growth), not pair.moved, pair.nodeid))
    return found


# the two sides


def _side(reports: Sequence[Report], together: Union) -> Side:
    facts = [report.environment for report in reports]
    return Side(
        reports=tuple(report.name for report in reports),
        profiles=tuple(dict.fromkeys(report.profile for report in reports)),
        versions=_listed((name, fact[name]) for fact in facts for name in VERSIONS),
        packages=_listed(item for fact in facts for item in fact["packages"].items()),
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
    two do: another torch or another device often names its profile otherwise.
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
        return f"could not be seen {side}: {seen.test['errors'][0]}"
    if seen.level == FAILED:
        return f"{'xfailed' if seen.test['outcome'] == 'xfailed' else 'failed by itself'} {side}"
    return f"{seen.test['outcome']} {side}"


def _once(old: Union, new: Union, pairs: Iterable[tuple[SeenTest, SeenTest, str]]) -> list[Once]:
    both = {(seen.profile, seen.nodeid) for pair in pairs for seen in pair[:2]}
    before = [key for key in old.seen if key not in both]
    after = [key for key in new.seen if key not in both]
    found = []
    side: Literal["before", "after"]
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
    before: Cause | None
    after: Cause | None

    @property
    def cause(self) -> Cause:
        cause = self.after or self.before
        assert cause is not None
        return cause

    @property
    def times(self) -> tuple[int, int]:
        return tuple(cause.times if cause else 0 for cause in (self.before, self.after))  # type: ignore[return-value]

    @property
    def graphs(self) -> dict[str, int]:
        was, now = (cause.graphs if cause else {} for cause in (self.before, self.after))
        return _less(now, was)


_Groups = dict[tuple[object, ...], Change]


def _pair(
    one: SeenTest, other: SeenTest, profile: str, changes: _Groups, found: Comparison
) -> Pair:
    """One test of both sides; what moved in it is added to ``changes``."""
    was, now = one.test, other.test
    layers = tuple(layer for layer in LAYERS if layer in was["layers"] and layer in now["layers"])
    mine: list[Change] = []
    if not _same(was, now):
        same_torch = same_minor(one.report.torch, other.report.torch)
        steps = _steps(book(was, layers).causes, book(now, layers).causes, same_torch)
        breaks = _Heads(steps)
        heads: dict[int, Change] = {}
        for step in sorted(steps, key=lambda step: step.cause.kind != "break"):
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
        graphs=_both(was["graphs"], now["graphs"], layers),
        recompiles=_both(was["recompiles"], now["recompiles"], layers),
        ops={
            layer: (was["ops"][layer], now["ops"][layer])
            for layer in layers
            if layer in was["ops"] and layer in now["ops"]
        },
        changes=tuple(mine),
    )


def _added(group: _Groups, step: _Step, nodeid: str, profile: str, found: Comparison) -> Change:
    """The change of all tests that a step of one is part of."""
    cause = step.cause
    place = cause.where.key[:2] if cause.kind in MEANT else cause.where.key
    key = (cause.kind, cause.layer, step.how, *place)
    if key not in group:
        change = group[key] = Change(
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


class _Heads:
    """The breaks of one test that came or went, by the functions that they run through."""

    def __init__(self, steps: Iterable[_Step]) -> None:
        self._found: dict[tuple[str, ...], _Step] = {}
        for step in steps:
            if step.cause.kind == "break":
                self._found.setdefault((step.how, *step.cause.where.key), step)
                for frame in (step.cause.where, *step.cause.stack):
                    self._found.setdefault((step.how, *frame.key[:2]), step)

    def of(self, step: _Step) -> _Step | None:
        """The break with which something came or went, since it runs through the same function.

        A frame that breaks is skipped, or compiled again with what it hands on; where the break is
        gone its function is compiled as it was meant to be.
        """
        kind = step.cause.kind
        how: str = step.how
        if kind == "recompile":
            how = {"more": "new", "fewer": "gone"}.get(how, how)
        elif kind in MEANT:
            how = {"new": "gone", "gone": "new"}.get(how, "")
        elif kind != "eager" or LIMIT.search(step.cause.reason):
            return None
        where = step.cause.where.key
        return self._found.get((how, *where)) or self._found.get((how, *where[:2]))


def _same(was: Plain, now: Plain) -> bool:
    """Whether two tests are told in equal words: the most of them, and quick to see."""
    return all(was[key] == now[key] for key in (*_COMPARED, *_LISTED))


def _both(
    was: Mapping[str, int], now: Mapping[str, int], layers: Iterable[str]
) -> dict[str, tuple[int, int]]:
    found = {layer: (was.get(layer, 0), now.get(layer, 0)) for layer in layers}
    return {layer: pair for layer, pair in found.items() if any(pair)}


def _less(now: Mapping[str, int], was: Mapping[str, int]) -> dict[str, int]:
    growth = {layer: now.get(layer, 0) - was.get(layer, 0) for layer in LAYERS}
    return {layer: count for layer, count in growth.items() if count}


def _settings(was: Plain, now: Plain) -> Iterator[Setting]:
    """The settings that differ."""
    if was != now:
        for name in dict.fromkeys((*was, *now)):
            before, after = (str(side[name]) if name in side else None for side in (was, now))
            if before != after:
                yield Setting(name, before, after)


# why graphs exist


Key = tuple[str, ...]
"""What a cause is known by: kind, layer and place."""


@dataclass(slots=True)
class Cause:
    """Why graphs of one test exist, or why code of it is not compiled, at one place.

    ``times`` are breaks, frames or recompiles there, or graphs of this cause; ``graphs`` are those
    that exist for it, by layer.
    """

    kind: str
    layer: str
    where: Frame
    reason: str = ""
    id: str | None = None
    stack: tuple[Frame, ...] = ()
    times: int = 0
    graphs: Counter[str] = field(default_factory=Counter)


class Book:
    """The causes of one record, each with the graphs that exist for it.

    ``names`` says by layer and name of a graph what it exists for.
    """

    def __init__(self, record: Record, layers: Sequence[str]) -> None:
        self.causes: dict[Key, Cause] = {}
        self.names: dict[tuple[str, str], Key] = {}
        self._frames: dict[Key, Key] = {}
        self._functions: dict[Key, Key] = {}
        self._reasons: dict[str, Key] = {}
        self._again: dict[tuple[str, str], Key] = {}
        breaks = [item for item in record.breaks if item.layer in layers]
        for item in breaks:
            self._add("break", item.layer, item.where, item.reason, item.count, item.id, item.stack)
        for left in (item for item in record.eager if item.layer in layers):
            self._add("eager", left.layer, left.where, left.reason, left.count)
        for again in (item for item in record.recompile_list if item.layer in layers):
            key = self._add(
                "recompile", again.layer, again.where, again.reason, 1, None, again.stack
            )
            self._again[again.layer, again.graph] = key
        for item in breaks:
            key = ("break", item.layer, *item.where.key)
            self._reasons.setdefault(item.reason, key)
            for frame in (item.where, *reversed(item.stack)):
                self._frames.setdefault(frame.key, key)
                self._functions.setdefault(frame.key[:2], key)
        # From the user's code down: a device graph may exist for what made an FX graph exist.
        for graph in sorted(record.graph_list, key=lambda graph: LAYERS.index(graph.layer)):
            if graph.layer in layers:
                key = self._of_graph(graph)
                self.names[graph.layer, graph.name] = key
                self.causes[key].graphs[graph.layer] += 1
        for layer in layers:
            known = sum(cause.graphs[layer] for cause in self.causes.values())
            if missing := record.graphs.get(layer, 0) - known:
                key = self._add(UNEXPLAINED, layer, NOWHERE, "", missing)
                self.causes[key].graphs[layer] += missing

    def _add(
        self,
        kind: str,
        layer: str,
        where: Frame,
        reason: str,
        times: int,
        id: str | None = None,
        stack: tuple[Frame, ...] = (),
    ) -> Key:
        # Where a model is meant to be compiled its first line is no identity: it is often edited.
        place = where.key[:2] if kind in MEANT else where.key
        key = (kind, layer, *place)
        if key not in self.causes:
            self.causes[key] = Cause(kind, layer, where, reason, id, stack)
        self.causes[key].times += times
        return key

    def _of_graph(self, graph: Graph) -> Key:
        layer, cause, where = graph.layer, graph.cause, graph.where
        known = KNOWN[layer].cause(cause)
        if known.told_by == "break":
            # A frame that called the one that broke goes on after its call; what it called is
            # compiled from its first line.
            found = self._frames.get(where.key) or self._functions.get(where.key[:2])
            found = found or self._reasons.get(graph.reason)
            if found is not None:
                return found
        if known.kind == "again":
            found = self._again.get((layer, graph.name))
            if found is not None:
                return found
        if KNOWN[layer].above is not None and (known.is_meant or cause == "pending"):
            for name in graph.sources:
                found = self._source(layer, name)
                if found is not None and found[0] not in MEANT:
                    return found
        return self._add(cause, layer, where, graph.reason, 1, None, graph.stack)

    def _source(self, layer: str, name: str) -> Key | None:
        """What the graph above exists for that this one was lowered from."""
        above = LAYERS[: LAYERS.index(layer)]
        found = (self.names.get((one, name)) for one in reversed(above))
        return next((key for key in found if key is not None), None)


def book(test: Plain, layers: Sequence[str]) -> Book:
    """The causes of one test of a report, on some layers."""
    return Book(Record.from_dict(test), layers)


def _steps(was: Mapping[Key, Cause], now: Mapping[Key, Cause], same_torch: bool) -> list[_Step]:
    """What moved from one record of a test to the other."""
    still = {kind for kind in MEANT if _number(was.values(), kind) == _number(now.values(), kind)}
    steps = []
    for key in dict.fromkeys((*was, *now)):
        before, after = was.get(key), now.get(key)
        how = _how(before, after, same_torch)
        if how is not None and key[0] not in still:
            steps.append(_Step(how, before, after))
    # One graph that is told as an entry, or as what follows a break that is known, is the same one.
    mere = [step for step in steps if _is_mere(step)]
    rest = [step for step in steps if not _is_mere(step)]
    if any(any(step.graphs.values()) for step in rest) or _sum(mere):
        return steps
    return rest


def _is_mere(step: _Step) -> bool:
    """Whether a step tells of nothing but which graph is counted for what."""
    if step.cause.kind in ("eager", "recompile"):
        return False
    return step.cause.kind in MEANT or step.how in ("more", "fewer")


def _sum(steps: Iterable[_Step]) -> bool:
    """Whether some layer has more or fewer graphs by all of these."""
    total = Counter[str]()
    for step in steps:
        total.update(step.graphs)
    return any(total.values())


def _number(causes: Iterable[Cause], kind: str) -> Counter[str]:
    total = Counter[str]()
    for cause in causes:
        if cause.kind == kind:
            total.update(cause.graphs)
    return total


def _how(before: Cause | None, after: Cause | None, same_torch: bool) -> How | None:
    if before is None:
        return "new"
    if after is None:
        return "gone"
    growth = sum(_less(after.graphs, before.graphs).values())
    if not growth and after.kind != "break":  # one line may break for each of its callers
        growth = after.times - before.times
    if growth:
        return "more" if growth > 0 else "fewer"
    if after.id != before.id or _words(after.reason) != _words(before.reason):
        return "reason" if same_torch else "reworded"
    return None


def _words(reason: str) -> str:
    """A reason without its numbers: those are of the inputs."""
    return _NUMBER.sub("#", reason)


# what may be one and the same


def _paired(changes: Iterable[Change]) -> tuple[list[Moved], list[Change]]:
    """Those that are gone and those that are new where they may be the same, and all others.

    A report names a place and knows nothing of what its file was called before.
    """
    ordered = sorted(changes, key=lambda one: (-abs(one.growth), -len(one.effects), one.where.key))
    found: list[Moved] = []
    taken: set[int] = set()
    for why in get_args(Alike):
        news: dict[tuple[object, ...], list[Change]] = {}
        for one in reversed(ordered):
            if one.how == "new" and id(one) not in taken:
                for key in _alike(one, why):
                    news.setdefault(key, []).append(one)
        for one in ordered:
            if one.how == "gone" and id(one) not in taken:
                other = _first(news, _alike(one, why), taken)
                if other is not None:
                    found.append(Moved(one, other, why))
                    taken |= {id(one), id(other)}
    return found, [change for change in ordered if id(change) not in taken]


def _first(
    news: Mapping[tuple[object, ...], list[Change]],
    keys: Iterable[tuple[object, ...]],
    taken: set[int],
) -> Change | None:
    """The first change with one of these keys that is not taken."""
    for key in keys:
        rest = news.get(key, [])
        while rest and id(rest[-1]) in taken:
            rest.pop()
        if rest:
            return rest[-1]
    return None


def _alike(one: Change, why: Alike) -> Iterator[tuple[object, ...]]:
    """What two changes share that differ in ``why``: a part of their place, in the same test."""
    if one.kind in MEANT or not one.where.file:
        return
    file, function, code = one.where.key
    reason = one.id or _words(one.reason)
    same: dict[Alike, tuple[str, ...]] = {
        "file": (function, code),
        "function": (file, code),
        "place": (code, reason),
        "line": (file, function, reason),
    }
    if code or why == "line":
        for effect in one.effects:
            yield (one.kind, one.layer, *same[why], effect.nodeid, effect.profile)
