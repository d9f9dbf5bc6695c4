"""What an entry becomes when a test was measured: pure data in, pure data out.

The rules are those of docs/reference/baseline-file.md, "What an update writes".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from pytest_graphbreak.baseline.document import (
    VALUE_KEYS,
    Raw,
    cause,
    named,
    parse_place,
    stated,
)
from pytest_graphbreak.baseline.model import Entry, Expected, Measured, Override, inherited_ops
from pytest_graphbreak.model.budget import PLACES_LAYER, BaselinePlace, Cause, Values, writable
from pytest_graphbreak.model.layers import BREAKING, DESCRIPTIONS, JUDGED, LAYERS, made_by
from pytest_graphbreak.model.versions import UNKNOWN, Versions, minor, same_minor

COUNTS = ("graphs", "recompiles")
LISTS = ("breaks", "eager")


@dataclass(frozen=True, slots=True)
class File:
    """What a baseline file says at its top."""

    profile: str
    versions: Versions


def of_concern(measured: Measured, expected: Expected | None) -> Measured:
    """The measurement, without layers that are judged where they are named only, and are not."""
    named = expected.own | expected.values.layers if expected is not None else frozenset[str]()
    layers = tuple(layer for layer in measured.layers if layer in JUDGED or layer in named)
    return measured if layers == measured.layers else replace(measured, layers=layers)


def differing(expected: Expected | None, measured: Measured) -> frozenset[str]:
    """The observed layers on which a measurement is not what is written.

    Counts, places, and how often a place broke are compared; reasons and ids
    only with the same minor version of the compiler, captured operations also only
    with the same packages. Layers of which nothing is known
    differ where anything was measured on them.
    """
    values = measured.values
    if expected is None:
        return frozenset(measured.layers)
    found = set()
    for layer in measured.layers:
        for before, after in (
            (expected.values.graphs, values.graphs),
            (expected.values.recompiles, values.recompiles),
        ):
            if before.get(layer, 0) != after.get(layer, 0):
                found.add(layer)
        if expected.counts_ops(layer, measured.versions, measured.packages):
            counted = values.ops.get(layer)
            if counted is not None and counted != expected.values.ops[layer]:
                found.add(layer)
        now_with = made_by(layer, measured.versions)
        if same_minor(expected.causes_with.get(layer), now_with) and not _same_causes(
            expected.values.causes_of(layer), values.causes_of(layer)
        ):
            found.add(layer)
    for layer in _breaking(measured.layers):
        for old, new, versions in (
            (expected.values.breaks, values.breaks, expected.breaks_with),
            (expected.values.eager, values.eager, expected.eager_with),
        ):
            if not same_places(_on(old, (layer,)), _on(new, (layer,)), versions, measured.versions):
                found.add(layer)
    return frozenset(found)


def _same_causes(before: Iterable[Cause] | None, after: Iterable[Cause] | None) -> bool:
    """Whether a layer's graphs have the causes that are written; so do those not known."""
    if before is None or after is None:
        return True
    return {item.key: item.count for item in before} == {item.key: item.count for item in after}


def _breaking(layers: Collection[str]) -> list[str]:
    return [layer for layer in BREAKING if layer in layers]


def _on(places: Iterable[BaselinePlace], layers: Collection[str]) -> list[BaselinePlace]:
    return [item for item in places if item.layer in layers]


def missing(expected: Expected | None, measured: Measured) -> frozenset[str]:
    """The observed layers that nothing here judges, and on which something was measured."""
    if expected is None:
        return frozenset(measured.layers)
    return differing(expected, measured) - {*expected.judged(measured.layers)}


def same_places(
    before: Iterable[BaselinePlace],
    after: Iterable[BaselinePlace],
    was_with: Versions,
    now_with: Versions,
) -> bool:
    """Whether two lists name the same places, as often, and for the same reasons."""
    old, new = by_place(before), by_place(after)
    if old.keys() != new.keys():
        return False
    return all(
        _same(old[key], new[key], same_minor(made_by(key[0], was_with), made_by(key[0], now_with)))
        for key in old
    )


def _same(before: BaselinePlace, after: BaselinePlace, wording: bool) -> bool:
    # What was left out of an entry written by hand is not compared.
    return before.count == after.count and not (
        wording
        and (
            (before.reason is not None and before.reason != _text(after.reason))
            or (before.id is not None and before.id != _text(after.id))
        )
    )


def by_place(items: Iterable[BaselinePlace]) -> dict[tuple[str, str, str], BaselinePlace]:
    """Each place once, in order of appearance; counts of one place are added up."""
    found: dict[tuple[str, str, str], BaselinePlace] = {}
    for item in items:
        before = found.get(item.key)
        if before is not None:
            item = replace(before, count=before.count + item.count)
        found[item.key] = item
    return found


def written(
    raw: Raw, entry: Entry | None, measured: Measured, layers: Collection[str], file: File
) -> Raw:
    """The entry's new data: ``measured`` on ``layers``, all else as it is in ``raw``.

    ``entry`` is what ``raw`` says, or None where the test has none and ``raw``
    is empty. A profile that the plain values do not belong to goes under
    ``overrides``.
    """
    own = entry is not None and measured.profile in entry.overrides
    base = entry.profile if entry is not None else file.profile
    if measured.profile == base and not own:
        recorded = entry is not None and entry.values is not None
        return _plain(raw, recorded, measured, layers, file)
    return _overridden(raw, entry, measured, layers, file)


def _plain(
    raw: Raw, recorded: bool, measured: Measured, layers: Collection[str], file: File
) -> Raw:
    new = dict(raw)
    for field in COUNTS:
        counts = dict(raw.get(field, {}))
        for layer in layers:
            count = getattr(measured.values, field).get(layer, 0)
            if count != counts.get(layer, 0):
                _put(counts, layer, count)
        _put_changed(new, field, counts)
    _put_changed(new, "ops", _ops(raw.get("ops", {}), measured, layers))
    _put_changed(new, "causes", _causes(raw.get("causes", []), measured, layers))
    if PLACES_LAYER in layers:
        _put_changed(new, "functions", _functions(measured))
    for field in LISTS if _breaking(layers) else ():
        _put_changed(new, field, _merged(raw.get(field, []), measured, field, layers))
    _set_versions(new, measured, file, layers, always=not recorded)
    if not any(key in new for key in VALUE_KEYS):
        new["graphs"] = {}  # recorded, and nothing there
    return new


def _overridden(
    raw: Raw, entry: Entry | None, measured: Measured, layers: Collection[str], file: File
) -> Raw:
    plain = entry.values if entry is not None else None
    overrides = dict(raw.get("overrides", {}))
    before = overrides.pop(measured.profile, None)
    override = _override(dict(before or {}), entry, measured, layers)
    _set_versions(override, measured, file, layers, always=before is None)
    if plain is None and not any(key in override for key in VALUE_KEYS):
        override["graphs"] = {}
    if plain is None or not _says_nothing(override, plain, entry, file):
        # In its old place, if it had one.
        overrides = {
            profile: override if profile == measured.profile else raw["overrides"][profile]
            for profile in dict.fromkeys((*raw.get("overrides", {}), measured.profile))
        }
    new = dict(raw)
    _put(new, "overrides", overrides)
    if plain is not None and overrides and not any(key in raw for key in VALUE_KEYS):
        new["graphs"] = {}  # an entry with overrides only would have no plain values
    return new


def _override(
    override: Raw, entry: Entry | None, measured: Measured, layers: Collection[str]
) -> Raw:
    """The override's data with what is as the plain values are left out."""
    plain = (entry.values if entry is not None else None) or Values()
    for field in COUNTS:
        counts = dict(override.get(field, {}))
        inherited = getattr(plain, field)
        for layer in layers:
            count = getattr(measured.values, field).get(layer, 0)
            if count == counts.get(layer, inherited.get(layer, 0)):
                continue
            if count == inherited.get(layer, 0):
                del counts[layer]
            else:
                counts[layer] = count
        _put_changed(override, field, counts)
    _override_causes(override, plain, measured, layers)
    inherited = inherited_ops(plain, override.get("graphs", {}))
    ops = _ops(override.get("ops", {}), measured, layers)
    versions = entry.versions if entry is not None else UNKNOWN
    for layer in layers:
        now_with = made_by(layer, measured.versions)
        same = now_with is None or same_minor(now_with, made_by(layer, versions))
        if same and ops.get(layer) == inherited.get(layer):
            ops.pop(layer, None)
    _put_changed(override, "ops", ops)
    if PLACES_LAYER in layers:
        if measured.values.functions == plain.functions:
            override.pop("functions", None)
        else:
            override["functions"] = _functions(measured)
    for field in LISTS if _breaking(layers) else ():
        inherited = getattr(plain, field)
        before = named(override).get(field)
        stays = [item for item in inherited if item.layer not in layers]
        if before is not None:
            stays = [item for item in before if item.layer not in layers]
        after = [*stays, *_on(getattr(measured.values, field), layers)]
        if same_places(inherited, after, versions, measured.versions):
            override.pop(field, None)
        else:
            raw = [_place(item) for item in stays] if before is None else override[field]
            override[field] = _merged(raw, measured, field, layers)
    return override


def _override_causes(
    override: Raw, plain: Values, measured: Measured, layers: Collection[str]
) -> None:
    """The causes of the layers that have others than the plain values, or other graphs."""
    kept = _causes(override.get("causes", []), measured, layers)
    for layer in layers:
        after = tuple(item for item in measured.values.causes if item.layer == layer)
        before = tuple(item for item in plain.causes if item.layer == layer)
        if layer in override.get("graphs", {}):
            continue
        if _same_causes(before, after):
            kept = [item for item in kept if item["layer"] != layer]
        elif not after:  # none are its own: only its graphs can name the layer
            count = measured.values.graphs.get(layer, 0)
            override["graphs"] = {**override.get("graphs", {}), layer: count}
    _put_changed(override, "causes", kept)


def _says_nothing(override: Raw, plain: Values, entry: Entry | None, file: File) -> bool:
    """Whether everything that an override names is as the plain values have it."""
    item = Override(**named(override), versions=stated(override, file.versions))
    versions = entry.versions if entry is not None else UNKNOWN
    for layer in item.causes_of:
        replaced = [cause for cause in item.causes if cause.layer == layer]
        if not _same_causes(replaced, [cause for cause in plain.causes if cause.layer == layer]):
            return False
    if item.functions is not None and item.functions != plain.functions:
        return False
    if any(count != plain.ops.get(layer) for layer, count in item.ops.items()):
        return False
    return all(
        count == getattr(plain, field).get(layer, 0)
        for field in COUNTS
        for layer, count in override.get(field, {}).items()
    ) and all(
        own is None or same_places(own, inherited, item.versions, versions)
        for own, inherited in ((item.breaks, plain.breaks), (item.eager, plain.eager))
    )


def _ops(raw: Raw, measured: Measured, layers: Collection[str]) -> Raw:
    """Captured operations as measured on ``layers``; of a layer that was not, no longer any."""
    return {
        layer: count
        for layer in LAYERS
        if (count := (measured.values.ops if layer in layers else raw).get(layer))
    }


def _causes(raw: list[Raw], measured: Measured, layers: Collection[str]) -> list[Raw]:
    """The causes as measured on ``layers``: known ones where they stand, then the new ones."""
    wanted = {item.key: item for item in measured.values.causes if item.layer in layers}
    items = []
    for item in raw:
        after = wanted.pop(cause(item).key, None)
        if after is not None:
            new = dict(item)
            _put(new, "count", after.count if after.count > 1 else None)
            items.append(item if after.count == item.get("count", 1) else new)
        elif item["layer"] not in layers:
            items.append(item)
    return [*items, *(_cause(item) for item in wanted.values())]


def _cause(item: Cause) -> Raw:
    layer, name, where, code = item.key
    new: Raw = {"layer": layer, "cause": name}
    _put(new, "where", where)
    _put(new, "code", code)
    _put(new, "count", item.count if item.count > 1 else None)
    return new


def _functions(measured: Measured) -> Raw:
    found: Raw = {}
    for name, count in measured.values.functions.items():
        file, _, function = name.partition("::")
        found.setdefault(file, {})[function] = count
    return found


def _merged(raw: list[Raw], measured: Measured, field: str, layers: Collection[str]) -> list[Raw]:
    """The places as measured on ``layers``: known ones where they stand, then the new ones."""
    wanted = by_place(_on(getattr(measured.values, field), layers))
    items = []
    for item in raw:
        after = wanted.pop(parse_place(item).key, None)
        if after is not None:
            wording = made_by(after.layer, measured.versions) is not None
            items.append(
                item
                if _same(parse_place(item), after, wording)
                else _reworded(item, after, wording)
            )
        elif parse_place(item).layer not in layers:
            items.append(item)
    return [*items, *(_place(item) for item in wanted.values())]


def _reworded(raw: Raw, after: BaselinePlace, wording: bool) -> Raw:
    new = dict(raw)
    if after.count != parse_place(raw).count:
        _put(new, "count", after.count if after.count > 1 else None)
    if wording:
        _put(new, "reason", _text(after.reason))
        _put(new, "id", _text(after.id))
    return new


def _place(item: BaselinePlace) -> Raw:
    layer, where, code = item.key
    new: Raw = {"where": where}
    _put(new, "layer", layer if layer != PLACES_LAYER else None)
    _put(new, "reason", _text(item.reason))
    _put(new, "id", _text(item.id))
    _put(new, "code", code)
    _put(new, "count", item.count if item.count > 1 else None)
    return new


def _text(text: str | None) -> str | None:
    return writable(text) if text and text.strip() else None


def _put(raw: Raw, key: str, value: object) -> None:
    """Set a key; take it away where the value is empty."""
    if value:
        raw[key] = value
    else:
        raw.pop(key, None)


def _put_changed(raw: Raw, key: str, value: object) -> None:
    """As ``_put``; a key that has this value, or an empty one, stays as it was written."""
    if value or raw.get(key):
        _put(raw, key, value)


def _set_versions(
    raw: Raw, measured: Measured, file: File, layers: Collection[str], always: bool
) -> None:
    """State the versions of compilers where they are not the file's.

    ``always``, or where the layer is written that takes the user's own code: what is
    below it has no reasons to compare.
    """
    top = {DESCRIPTIONS[layer].compiler for layer in layers if DESCRIPTIONS[layer].above is None}
    for name, version in measured.versions.items():
        if always or name in top:
            same = same_minor(version, file.versions.get(name))
            _put(raw, name, None if same else minor(version))
