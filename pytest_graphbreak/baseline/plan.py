"""Computes what an entry becomes after a measurement. Data in, data out.

The rules are those of docs/reference/baseline-file.md, "What an update writes".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from pytest_graphbreak.baseline.form import COUNTS, RUNS, VALUES
from pytest_graphbreak.baseline.model import Document, Entry, Expected, Measured, Override
from pytest_graphbreak.model.budget import PLACES_LAYER, BaselinePlace, Cause, Values, writable
from pytest_graphbreak.model.layer import Versions, minor, same_minor
from pytest_graphbreak.model.layers import BREAKING, DESCRIPTIONS, JUDGED, LAYERS, made_by

LISTS = ("breaks", "eager")
NAMED = ("entries", "lines")
_Item = TypeVar("_Item", bound=Cause | BaselinePlace)


def of_concern(measured: Measured, expected: Expected | None) -> Measured:
    """Return the measurement without layers that are only judged when named and are not named."""
    named = expected.own | expected.values.layers if expected is not None else frozenset[str]()
    layers = tuple(layer for layer in measured.layers if layer in JUDGED or layer in named)
    return measured if layers == measured.layers else replace(measured, layers=layers)


# comparing


def differing(expected: Expected | None, measured: Measured) -> frozenset[str]:
    """Return the observed layers on which a measurement differs from what is written.

    Counts, places, and how often a place broke are compared; reasons and ids only with the same
    minor version of the compiler, captured operations only with the same packages as well. If
    nothing is known of a layer, it differs if anything was measured on it.
    """
    if expected is None:
        return frozenset(measured.layers)
    return frozenset(layer for layer in measured.layers if _differs(layer, expected, measured))


def _differs(layer: str, expected: Expected, measured: Measured) -> bool:
    old, new = expected.values, measured.values
    if any(_at(old, key, layer) != _at(new, key, layer) for key in COUNTS):
        return True
    # An entry that was recorded without runs is not written again only for them.
    if old.knows_runs(layer) and any(_at(old, key, layer) != _at(new, key, layer) for key in RUNS):
        return True
    ops = new.ops.get(layer)
    if (
        expected.counts_ops(layer, measured.versions, measured.packages)
        and ops is not None
        and ops != old.ops.get(layer, ops)
    ):
        return True
    with_now = made_by(layer, measured.versions)
    if same_minor(expected.causes_with.get(layer), with_now) and not _same_causes(
        old.causes_of(layer), new.causes_of(layer)
    ):
        return True
    if layer == PLACES_LAYER and {*old.entries} != {*new.entries} and old.entries:
        return True
    known = {"breaks": expected.breaks_with, "eager": expected.eager_with}
    return layer in BREAKING and not all(
        same_places(
            _on(getattr(old, key), (layer,)),
            _on(getattr(new, key), (layer,)),
            known[key],
            measured.versions,
        )
        for key in LISTS
    )


def missing(expected: Expected | None, measured: Measured) -> frozenset[str]:
    """Return the observed layers that nothing here judges, and on which something was measured."""
    if expected is None:
        return frozenset(measured.layers)
    return differing(expected, measured) - {*expected.judged(measured.layers)}


def _at(values: Values, key: str, layer: str) -> int:
    counts: Mapping[str, int] = getattr(values, key)
    return counts.get(layer, 0)


def _same_causes(before: Iterable[Cause] | None, after: Iterable[Cause] | None) -> bool:
    """Return whether the graphs of a layer have the same causes; true if either is unknown.

    A different calling line of a recompile is no difference by itself.
    """
    if before is None or after is None:
        return True
    before = [*before]
    old = {item.place for item in before if not item.guard}  # entries of an earlier version

    def counted(items: Iterable[Cause]) -> Counter[tuple[str, ...]]:
        found: Counter[tuple[str, ...]] = Counter()
        for item in items:
            found[item.place if item.place in old else item.key[:-1]] += item.count
        return found

    return counted(before) == counted(after)


def _on(places: Iterable[BaselinePlace], layers: Collection[str]) -> list[BaselinePlace]:
    return [item for item in places if item.layer in layers]


def same_places(
    before: Iterable[BaselinePlace],
    after: Iterable[BaselinePlace],
    was_with: Versions,
    now_with: Versions,
) -> bool:
    """Return whether two lists name the same places, equally often, and for the same reasons."""
    old, new = by_place(before), by_place(after)
    if old.keys() != new.keys():
        return False
    return all(
        _same(old[key], new[key], same_minor(made_by(key[0], was_with), made_by(key[0], now_with)))
        for key in old
    )


def _same(before: BaselinePlace, after: BaselinePlace, wording: bool) -> bool:
    # Keys that were left out of an entry written by hand are not compared.
    return before.count == after.count and not (
        wording
        and (
            (before.reason is not None and before.reason != _text(after.reason))
            or (before.id is not None and before.id != _text(after.id))
        )
    )


def by_place(items: Iterable[BaselinePlace]) -> dict[tuple[str, str, str], BaselinePlace]:
    """Return each place once, in order of appearance, with the counts of equal places added up."""
    found: dict[tuple[str, str, str], BaselinePlace] = {}
    for item in items:
        before = found.get(item.key)
        if before is not None:
            item = _place(item.key, before, before.count + item.count)
        found[item.key] = item
    return found


# writing


def written(entry: Entry, measured: Measured, layers: Collection[str], file: Document) -> Entry:
    """Return the updated entry: ``measured`` on ``layers``, everything else as it is.

    A new entry has neither values nor overrides. If the plain values belong to another profile, the
    measurement goes under ``overrides``.
    """
    if measured.profile != entry.profile or measured.profile in entry.overrides:
        return _overridden(entry, measured, layers, file)
    values = merged(entry.values or Values(), measured, layers)
    versions = _versions(entry.versions, measured, file, layers, always=entry.values is None)
    return replace(entry, values=values, versions=versions)


def merged(old: Values, measured: Measured, layers: Collection[str]) -> Values:
    """Return the old values, with those of ``layers`` as measured and without zeros."""
    new = measured.values
    found: dict[str, Any] = {key: getattr(old, key) for key in VALUES}
    for key in (*COUNTS, *RUNS, "ops"):
        found[key] = _counts(found[key], getattr(new, key), layers)
    for key in LISTS:
        found[key] = _places(found[key], getattr(new, key), measured, layers)
    found["causes"] = _causes(old.causes, new.causes, layers)
    if PLACES_LAYER in layers:
        found["entries"] = new.entries
    if {*layers} - {PLACES_LAYER}:
        found["lines"] = {writable(name): count for name, count in new.lines.items()}
    return Values(**found)


def _counts(
    old: Mapping[str, int], new: Mapping[str, int], layers: Collection[str]
) -> dict[str, int]:
    found = {layer: (new if layer in layers else old).get(layer, 0) for layer in LAYERS}
    return {layer: count for layer, count in found.items() if count}


def _of(layers: Collection[str]) -> list[str]:
    """Return which of ``NAMED`` apply: entries to Dynamo, lines to device layers."""
    there = PLACES_LAYER in layers, any(layer != PLACES_LAYER for layer in layers)
    return [key for key, has in zip(NAMED, there, strict=True) if has]


def _causes(
    old: Iterable[Cause], new: Iterable[Cause], layers: Collection[str]
) -> tuple[Cause, ...]:
    wanted = {item.key: item.as_written() for item in new if item.layer in layers}
    return _in_place(
        old, wanted, layers, lambda item, after: after if item.count != after.count else item
    )


def _places(
    old: Iterable[BaselinePlace],
    new: Iterable[BaselinePlace],
    measured: Measured,
    layers: Collection[str],
) -> tuple[BaselinePlace, ...]:
    def updated(item: BaselinePlace, after: BaselinePlace) -> BaselinePlace:
        wording = made_by(after.layer, measured.versions) is not None
        if _same(item, after, wording):
            return item
        return _place(item.key, after if wording else item, after.count)

    found = by_place(_on(new, layers)).items()
    wanted = {key: _place(key, item, item.count) for key, item in found}
    return _in_place(old, wanted, layers, updated)


def _in_place(
    old: Iterable[_Item],
    wanted: dict[Any, _Item],
    layers: Collection[str],
    updated: Callable[[_Item, _Item], _Item],
) -> tuple[_Item, ...]:
    """Return the old items in their order, ``updated`` by the wanted ones, then the new ones."""
    items: list[_Item] = []
    for item in old:
        after = wanted.pop(item.key, None)
        if after is not None:
            items.append(updated(item, after))
        elif item.layer not in layers:
            items.append(item)
    return (*items, *wanted.values())


def _place(key: tuple[str, str, str], item: BaselinePlace, count: int) -> BaselinePlace:
    """Return a place as it is written, with the reason of an item."""
    layer, where, code = key
    return BaselinePlace(where, code, count, _text(item.reason), _text(item.id), layer)


def _text(text: str | None) -> str | None:
    return writable(text) if text and text.strip() else None


def _overridden(entry: Entry, measured: Measured, layers: Collection[str], file: Document) -> Entry:
    before = entry.overrides.get(measured.profile)
    old = before or Override(versions=file.versions)
    versions = _versions(old.versions, measured, file, layers, always=before is None)
    plain = entry.values or Values()
    own = replace(old, versions=versions)
    own = _override(own, merged(own.over(plain), measured, layers), entry, layers)
    overrides = {**entry.overrides, measured.profile: own}
    if entry.values is not None and _says_nothing(own, plain, entry.versions):
        del overrides[measured.profile]
    return replace(entry, overrides=overrides)


def _override(own: Override, after: Values, entry: Entry, layers: Collection[str]) -> Override:
    """Return the override with which the plain values become ``after``.

    Only ``layers`` are changed; values of other layers are kept.
    """
    plain, named = entry.values or Values(), set(own.named)
    found: dict[str, Any] = {}
    for key in COUNTS:
        found[key] = _differences(own, plain, after, key, layers)
    causes = [item for item in own.values.causes if item.layer not in layers]
    for layer in layers:
        ours, theirs = (
            [item for item in values.causes if item.layer == layer] for values in (after, plain)
        )
        if layer in found["graphs"] or not _same_causes(theirs, ours):
            causes += ours
            if not ours:  # none are its own, so only its graphs can name the layer
                found["graphs"][layer] = after.graphs.get(layer, 0)
    for key in RUNS:
        found[key] = _differences(own, plain, after, key, layers)
        for layer in {*layers} & {*found["graphs"]}:  # what ran is not inherited for these
            found[key][layer] = _at(after, key, layer)
        known = found["graphs"]
        found[key] = {layer: n for layer, n in found[key].items() if n or layer not in known}
    for key in _of(layers):
        same = getattr(after, key) == getattr(plain, key)
        (named.discard if same else named.add)(key)
    for key in LISTS if {*BREAKING} & {*layers} else ():
        lists = getattr(plain, key), getattr(after, key)
        (named.discard if same_places(*lists, entry.versions, own.versions) else named.add)(key)
    found["ops"] = _ops(own, found["graphs"], after, entry, layers)
    found["causes"] = tuple(causes)
    found |= {key: getattr(after, key) for key in named}
    return replace(own, values=Values(**found), named=frozenset(named))


def _differences(
    own: Override, plain: Values, after: Values, key: str, layers: Collection[str]
) -> dict[str, int]:
    """Return the counts that an override names."""
    found = {layer: n for layer, n in getattr(own.values, key).items() if layer not in layers}
    for layer in layers:
        if _at(after, key, layer) != _at(plain, key, layer):
            found[layer] = _at(after, key, layer)
    return found


def _ops(
    own: Override, graphs: Collection[str], after: Values, entry: Entry, layers: Collection[str]
) -> dict[str, int]:
    """Return the captured operations that differ, or were counted with another compiler."""
    plain = (entry.values or Values()).ops
    found = {layer: n for layer, n in own.values.ops.items() if layer not in layers}
    for layer in layers:
        now, was = made_by(layer, own.versions), made_by(layer, entry.versions)
        inherits = layer not in graphs and (now is None or same_minor(now, was))
        if layer in after.ops and not (inherits and after.ops[layer] == plain.get(layer)):
            found[layer] = after.ops[layer]
    return found


def _says_nothing(own: Override, plain: Values, versions: Versions) -> bool:
    """Return whether all values that an override names equal the plain ones."""
    after = own.over(plain)
    return (
        all(
            _at(after, key, layer) == _at(plain, key, layer)
            for key in (*COUNTS, *RUNS)
            for layer in LAYERS
        )
        and all(count == plain.ops.get(layer) for layer, count in own.values.ops.items())
        and _same_causes(after.causes, plain.causes)
        and all(getattr(after, key) == getattr(plain, key) for key in NAMED)
        and all(
            same_places(getattr(own.values, key), getattr(plain, key), own.versions, versions)
            for key in LISTS
            if key in own.named
        )
    )


def _versions(
    own: Versions, measured: Measured, file: Document, layers: Collection[str], always: bool
) -> Versions:
    """Return the compiler versions of an entry, using those of its file if they are the same.

    They are written if ``always`` is true, or if a layer is written that takes the user's own code:
    layers below it have no reasons to compare.
    """
    top = {DESCRIPTIONS[layer].compiler for layer in layers if DESCRIPTIONS[layer].above is None}
    found = dict(own)
    for name, version in measured.versions.items():
        if (always or name in top) and (short := minor(version)):
            above = file.versions.get(name)
            found[name] = above if above and same_minor(version, above) else short
    return found
