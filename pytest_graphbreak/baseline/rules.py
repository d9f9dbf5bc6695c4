"""What is done with the value of a key of an entry: one function for each question.

The examples are about this entry of a file of ``xla-cpu``, where its plain values were measured::

    test_a:
      graphs: {dynamo: 2, xla: 3}
      recompiles: {dynamo: 1}
      executions: {dynamo: 2, xla: 3}
      breaks: [{where: "a.py::f", code: "print(x)"}]
      overrides:
        tt-n150: {graphs: {xla: 5}, breaks: []}

- ``overlay``: what holds for a profile, given the plain values and its override? For tt-n150:
  ``graphs: {dynamo: 2, xla: 5}``, ``recompiles: {dynamo: 1}``, ``executions: {dynamo: 2}``, and no
  breaks. ``expectation`` makes of this what a test is judged by.
- ``differs``: is what was measured on a layer not what is written? If tt-n150 now makes 3 graphs of
  xla, it is.
- ``merge``: what does an update make of the old value, where some layers are measured? For tt-n150
  ``graphs: {dynamo: 2, xla: 3}``; what is the same keeps the place and the words that it has.
- ``Overriding``: which override makes the plain values these merged ones, and is it needed at all?
  ``graphs`` are the plain ones again, so ``{breaks: []}`` is left; with the plain break, nothing.

``plan`` asks them in this order. Each question has a line for each rule, and the rules are those of
docs/reference/baseline-file.md; ``model.budget.Values`` says which key has which:

- ``counts``: by layer, each layer by itself; a missing count is zero.
- ``graphs``: the same, but an override that names the graphs of a layer says all that is known of
  that layer: its runs, operations and causes are then those of the override, too.
- ``runs``: counts of what ran; they belong to the graphs of their layer. In the example the runs of
  xla on tt-n150 are therefore unknown.
- ``ops``: captured operations; a missing count is unknown, and each was counted by one compiler.
- ``causes`` of graphs: an override replaces those of the layers that it names.
- ``entries``, ``lines`` and ``places``: an override replaces the value as a whole, if it has the
  key, even by an empty value. ``entries`` are functions that Dynamo compiled; ``lines`` are those
  that ran device graphs, and are compared with nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, TypeVar

from msgspec import Struct, structs

from pytest_graphbreak.baseline.model import NO_OVERRIDE, Entry, Expected, Measured, Override
from pytest_graphbreak.model.budget import (
    PLACES_LAYER,
    RULES,
    BaselinePlace,
    Cause,
    Values,
    writable,
)
from pytest_graphbreak.model.layers import BREAKING, LAYERS
from pytest_graphbreak.model.versions import Versions, made_by, same_minor

Layers = Collection[str]

WHOLE: Final = frozenset(
    key for key, rule in RULES.items() if rule in ("entries", "lines", "places")
)
"""The keys that an override replaces as a whole."""


def is_measured_on(key: str, layers: Layers) -> bool:
    """Return whether a key of ``WHOLE`` is measured on one of the layers.

    ``entries`` on dynamo, ``lines`` on any other layer, places on the layers that code can leave.
    """
    match RULES[key]:
        case "entries":
            return PLACES_LAYER in layers
        case "lines":
            return any(layer != PLACES_LAYER for layer in layers)
    return not {*BREAKING}.isdisjoint(layers)


# What holds for a profile, given the plain values and its override?


def expectation(entry: Entry, profile: str) -> Expected | None:
    """Return what ``profile`` is judged by, or None if the entry has nothing for it."""
    override, is_plain = entry.overrides.get(profile), profile == entry.profile
    if entry.values is None and override is None:
        return None
    values = entry.values or Values()
    versions = override.versions if override else entry.versions
    # A layer that the profile recorded itself is judged even where it was not observed.
    own = override.layers if override else frozenset[str]()
    return Expected(
        values=overlay(values, override) if override else values,
        profile=profile if override else entry.profile,
        versions=versions,
        # Else the values are those of another profile, and a guide only.
        recorded=is_plain or override is not None,
        own=own | values.layers if is_plain else own,
        packages=entry.packages,
        # In an entry without plain values, the override's compilers measured everything.
        plain_with=versions if entry.values is None else entry.versions,
        override=override or NO_OVERRIDE,
    )


def overlay(base: Values, override: Override) -> Values:
    """Return the values of a profile."""
    return Values(**{key: _overlay(key, base, override) for key in RULES})


def _overlay(key: str, base: Values, override: Override) -> Any:
    value, replacement = getattr(base, key), getattr(override.values, key)
    match RULES[key]:
        case "graphs" | "counts":
            return {**value, **replacement}
        case "runs" | "ops":
            # A layer whose graphs the override names has its own runs and operations, too.
            graphs = override.values.graphs
            plain = {layer: count for layer, count in value.items() if layer not in graphs}
            return {**plain, **replacement}
        case "causes":
            return (*_without(value, override.causes_of), *replacement)
    return replacement if key in override.named else value


# Is what was measured on a layer not what is written?


def differs(layer: str, expected: Expected, measured: Measured) -> bool:
    """Return whether a measurement of a layer is not what is written, in any key."""
    return any(_differs(key, layer, expected, measured) for key in RULES)


def _differs(key: str, layer: str, expected: Expected, measured: Measured) -> bool:
    old, new = getattr(expected.values, key), getattr(measured.values, key)
    match RULES[key]:
        case "graphs" | "counts":
            return bool(old.get(layer, 0) != new.get(layer, 0))
        case "runs":
            # Runs that were not recorded are unknown, and no difference from what ran now.
            return expected.values.knows_runs(layer) and old.get(layer, 0) != new.get(layer, 0)
        case "ops":
            was, now = old.get(layer), new.get(layer)
            is_comparable = expected.counts_ops(layer, measured.versions, measured.packages)
            return is_comparable and None not in (was, now) and was != now
        case "causes":
            if not same_minor(expected.causes_with(layer), made_by(layer, measured.versions)):
                return False
            before, after = (x.values.causes_of(layer) for x in (expected, measured))
            return before is not None and after is not None and not _same_causes(before, after)
        case "entries":
            # Names that were not recorded are unknown as well.
            return layer == PLACES_LAYER and bool(old) and {*old} != {*new}
        case "places":
            places = _of(layer, old), _of(layer, new)
            return not _same_places(*places, expected.places_with(key), measured.versions)
    return False  # lines are compared with nothing


def _same_causes(before: Iterable[Cause], after: Iterable[Cause]) -> bool:
    """Return whether graphs have the same causes; another calling line is no difference."""
    counts = Counter[tuple[str, ...]]()
    for sign, causes in ((1, before), (-1, after)):
        for cause in causes:
            counts[cause.key[:-1]] += sign * cause.count  # without ``called``
    return not any(counts.values())


def _same_places(
    before: Iterable[BaselinePlace], after: Iterable[BaselinePlace], was: Versions, now: Versions
) -> bool:
    """Return whether two lists have the same places, equally often, and for the same reasons."""
    old, new = _distinct(before), _distinct(after)
    return old.keys() == new.keys() and all(
        _is_same(
            place,
            new[key],
            with_reasons=same_minor(made_by(place.layer, was), made_by(place.layer, now)),
        )
        for key, place in old.items()
    )


def _is_same(before: BaselinePlace, after: BaselinePlace, *, with_reasons: bool) -> bool:
    """Return whether a place is as before; a key that an edited entry left out is not compared."""
    return before.count == after.count and (
        not with_reasons
        or (before.reason in (None, after.reason) and before.id in (None, after.id))
    )


def _distinct(places: Iterable[BaselinePlace]) -> dict[tuple[str, ...], BaselinePlace]:
    """Return each place once, as it is written, in order of appearance.

    The counts of equal places are added up, and the reason is that of the first.
    """
    distinct: dict[tuple[str, ...], BaselinePlace] = {}
    for place in places:
        before = distinct.get(place.key)
        count = place.count if before is None else before.count + place.count
        distinct[place.key] = structs.replace(before or place, count=count).as_written()
    return distinct


Item = TypeVar("Item", bound=Cause | BaselinePlace)


def _of(layer: str, items: Iterable[Item]) -> list[Item]:
    return [item for item in items if item.layer == layer]


def _without(items: Iterable[Item], layers: Layers) -> list[Item]:
    return [item for item in items if item.layer not in layers]


# What does an update make of the old value, where some layers are measured?


def merge(old: Values, measured: Measured, layers: Layers) -> Values:
    """Return the old values, with those of ``layers`` as measured and without zeros."""
    return Values(**{key: _merge(key, old, measured, layers) for key in RULES})


def _merge(key: str, old: Values, measured: Measured, layers: Layers) -> Any:
    before, now = getattr(old, key), getattr(measured.values, key)
    match RULES[key]:
        case "graphs" | "counts" | "runs" | "ops":
            sides = ((layer, now if layer in layers else before) for layer in LAYERS)
            return {layer: count for layer, side in sides if (count := side.get(layer))}
        case "causes":
            causes = {cause.key: cause.as_written() for cause in now if cause.layer in layers}
            # A cause with the same count keeps the texts of the file, such as odd white space.
            for cause in before:
                if cause.key in causes and cause.count == causes[cause.key].count:
                    causes[cause.key] = cause
            return _in_old_order(before, causes, layers)
        case "places":
            places = _distinct(place for place in now if place.layer in layers)
            for place in before:
                if place.key in places:
                    places[place.key] = _merge_place(place, places[place.key], measured.versions)
            return _in_old_order(before, places, layers)
        case "lines":
            lines = now if is_measured_on(key, layers) else before
            return {writable(line): count for line, count in lines.items()}
    return now if is_measured_on(key, layers) else before


def _merge_place(before: BaselinePlace, after: BaselinePlace, versions: Versions) -> BaselinePlace:
    """Return a place as it was, with the new count, and with the reason of a known compiler."""
    with_reasons = made_by(after.layer, versions) is not None
    if _is_same(before, after, with_reasons=with_reasons):
        return before
    reasoned = after if with_reasons else before
    return structs.replace(reasoned, count=after.count).as_written()


def _in_old_order(
    old: Iterable[Item], after: Mapping[Any, Item], layers: Layers
) -> tuple[Item, ...]:
    """Return the old items as they are ``after``, then the new ones: a file keeps their order.

    An old item of one of the ``layers`` is dropped if it is not there after.
    """
    new: dict[Any, Item] = dict(after)
    kept: list[Item] = []
    for item in old:
        if item.key in new or item.layer not in layers:
            kept.append(new.pop(item.key, item))
    return (*kept, *new.values())


# What does an override name, that is to make the plain values those of its profile?


class Overriding(Struct, frozen=True):
    """An override that is to make the plain values ``after``, on ``layers`` only.

    ``base`` are the plain values, measured by the compilers ``base_versions``; ``before`` is the
    override until now, and ``versions`` are the compilers that measure now. ``plan`` asks for the
    ``result``, and then, of the values that this leads to, whether it ``is_needed``.
    """

    before: Override
    versions: Versions
    base: Values
    base_versions: Versions
    after: Values
    layers: Layers

    @property
    def result(self) -> Override:
        """The override that is to be written."""
        values = Values(**{key: self._value(key) for key in RULES})
        return Override(values, self.versions, frozenset(filter(self._names, WHOLE)))

    @property
    def is_needed(self) -> bool:
        """Whether the plain values are not those of the profile."""
        return not all(map(self._is_plain, RULES))

    def _value(self, key: str) -> Any:
        base, after = getattr(self.base, key), getattr(self.after, key)
        match RULES[key]:
            case "graphs":
                return self._graphs
            case "counts":
                return self._different(key)
            case "runs":
                return self._runs(key)
            case "ops":
                return self._ops(key)
            case "causes":
                causes: list[Cause] = _without(self.before.values.causes, self.layers)
                for layer in self.layers:
                    was, now_there = _of(layer, base), _of(layer, after)
                    if layer in self._graphs or not _same_causes(was, now_there):
                        causes += now_there
                return tuple(causes)
        return after if self._names(key) else getattr(Values(), key)

    @property
    def _graphs(self) -> dict[str, int]:
        """The graphs that the override names.

        A layer whose causes are all gone is named by its graphs, since a cause cannot name it.
        """
        graphs = self._different("graphs")
        for layer in self.layers:
            if _of(layer, self.base.causes) and not _of(layer, self.after.causes):
                graphs[layer] = self.after.graphs.get(layer, 0)
        return graphs

    def _different(self, key: str) -> dict[str, int]:
        """Return the counts that stay (``_unwritten``), and those that are not the plain ones."""
        base, after = getattr(self.base, key), getattr(self.after, key)
        counts = self._unwritten(key)
        for layer in self.layers:
            if after.get(layer, 0) != base.get(layer, 0):
                counts[layer] = after.get(layer, 0)
        return counts

    def _unwritten(self, key: str) -> dict[str, int]:
        """Return the counts of a key that stay, since their layers are not written."""
        counts = getattr(self.before.values, key)
        return {layer: count for layer, count in counts.items() if layer not in self.layers}

    def _names(self, key: str) -> bool:
        """Return whether the override has this key of ``WHOLE``."""
        if not is_measured_on(key, self.layers):
            return key in self.before.named
        return not self._is_plain(key)

    def _runs(self, key: str) -> dict[str, int]:
        """Return the runs that the override names.

        It names all runs of a layer whose graphs it names, since no plain runs count there
        (``_overlay``); zeros are left out. On other layers it names what differs, zeros as well:
        with plain ``executions: {dynamo: 2, xla: 1}`` and nothing that ran here, ``{xla: 0}`` is
        left if it names the graphs of dynamo.
        """
        counts, graphs = self._different(key), self._graphs
        for layer in {*self.layers} & {*graphs}:
            counts[layer] = getattr(self.after, key).get(layer, 0)
        return {layer: count for layer, count in counts.items() if count or layer not in graphs}

    def _ops(self, key: str) -> dict[str, int]:
        """Return the operations that the override names.

        They include those that another compiler counted than the plain ones, even equal numbers:
        each compiler captures the same code in its own way, so these cannot be compared.
        """
        base, after = getattr(self.base, key), getattr(self.after, key)
        counts, graphs = self._unwritten(key), self._graphs
        for layer in {*self.layers} & {*after}:
            now = made_by(layer, self.versions)
            is_comparable = now is None or same_minor(now, made_by(layer, self.base_versions))
            if layer in graphs or not is_comparable or after[layer] != base.get(layer):
                counts[layer] = after[layer]
        return counts

    def _is_plain(self, key: str) -> bool:
        """Return whether the plain value of a key is that of the profile, too.

        Compilers of operations are not compared here: equal numbers alone need no override, and
        are written only into one that other numbers need.
        """
        base, after = getattr(self.base, key), getattr(self.after, key)
        match RULES[key]:
            case "graphs" | "counts" | "runs":
                return all(base.get(layer, 0) == after.get(layer, 0) for layer in LAYERS)
            case "ops":
                return all(count == base.get(layer) for layer, count in after.items())
            case "causes":
                return _same_causes(after, base)
            case "entries":
                return {*after} == {*base}
            case "places":
                return _same_places(base, after, self.base_versions, self.versions)
        return bool(after == base)
