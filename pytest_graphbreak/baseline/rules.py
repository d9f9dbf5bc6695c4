"""How each key of an entry is compared, updated and replaced by an override. Data in, data out.

``model.budget.Values`` says for each key which rule it has; everything that goes through the keys
of an entry asks the rule. The rules are those of docs/reference/baseline-file.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any, Final

from msgspec import Struct

from pytest_graphbreak.baseline.model import Expected, Measured, Override
from pytest_graphbreak.baseline.places import (
    distinct_places,
    have_same_causes,
    have_same_places,
    merge_places,
    replace_items,
    select_layers,
)
from pytest_graphbreak.model.budget import (
    KEYS,
    PLACES_LAYER,
    BaselinePlace,
    Cause,
    Values,
    writable,
)
from pytest_graphbreak.model.layer import Versions, same_minor
from pytest_graphbreak.model.layers import BREAKING, LAYERS, made_by

Layers = Collection[str]


class Overriding(Struct, frozen=True):
    """An override that is to make the plain values ``after``, on ``layers`` only.

    ``override`` is the one before, with the versions that measure now; ``base_versions`` measured
    the plain values.
    """

    override: Override
    base: Values
    base_versions: Versions
    after: Values
    layers: Layers

    def unwritten_counts(self, key: str) -> dict[str, int]:
        """Return the counts of a key that stay, since their layers are not written."""
        counts = getattr(self.override.values, key)
        return {layer: count for layer, count in counts.items() if layer not in self.layers}

    def different(self, key: str) -> dict[str, int]:
        """Return the counts that stay, and those that are not the plain ones."""
        counts = self.unwritten_counts(key)
        for layer in self.layers:
            count = count_at(self.after, key, layer)
            if count != count_at(self.base, key, layer):
                counts[layer] = count
        return counts

    @property
    def graphs(self) -> dict[str, int]:
        """The graphs that the override names.

        A layer whose causes are all gone is named by its graphs, since a cause cannot name it.
        """
        graphs = self.different("graphs")
        for layer in self.layers:
            if select_layers(self.base.causes, (layer,)) and not select_layers(
                self.after.causes, (layer,)
            ):
                graphs[layer] = self.after.graphs.get(layer, 0)
        return graphs


class Rule(ABC):
    """What is done with the value of a key; a rule has no state."""

    is_whole = False
    """Whether an override replaces the value as a whole, even by an empty one."""

    def from_file(self, value: Any) -> Any:
        """Return a value as ``Values`` has it, given what a file has."""
        return value

    def to_file(self, value: Any) -> Any:
        """Return a value as a file has it."""
        return value

    @abstractmethod
    def overlay(self, key: str, base: Values, override: Override) -> Any:
        """Return the value of a profile."""

    @abstractmethod
    def differs(self, key: str, layer: str, expected: Expected, measured: Measured) -> bool:
        """Return whether a measurement of a layer is not what is written."""

    @abstractmethod
    def update(self, key: str, old: Values, measured: Measured, layers: Layers) -> Any:
        """Return the old value, with that of ``layers`` as measured."""

    @abstractmethod
    def override(self, key: str, change: Overriding) -> Any:
        """Return the value that an override names."""

    @abstractmethod
    def is_same(self, key: str, change: Overriding) -> bool:
        """Return whether the plain value is the one of the profile, too."""


# counts by layer


class CountsRule(Rule):
    """Counts, each layer by itself; a missing count is zero."""

    def overlay(self, key: str, base: Values, override: Override) -> dict[str, int]:
        return {**getattr(base, key), **getattr(override.values, key)}

    def differs(self, key: str, layer: str, expected: Expected, measured: Measured) -> bool:
        return count_at(expected.values, key, layer) != count_at(measured.values, key, layer)

    def update(self, key: str, old: Values, measured: Measured, layers: Layers) -> dict[str, int]:
        new = measured.values
        counts = {layer: count_at(new if layer in layers else old, key, layer) for layer in LAYERS}
        return {layer: count for layer, count in counts.items() if count}

    def override(self, key: str, change: Overriding) -> dict[str, int]:
        return change.different(key)

    def is_same(self, key: str, change: Overriding) -> bool:
        return all(
            count_at(change.base, key, layer) == count_at(change.after, key, layer)
            for layer in LAYERS
        )


class GraphsRule(CountsRule):
    """Graphs: an override that names those of a layer says all that is known of them."""

    def override(self, key: str, change: Overriding) -> dict[str, int]:
        return change.graphs


class RunsRule(CountsRule):
    """Counts of what ran; they belong to the graphs of a layer.

    An entry that was recorded without runs is not written again only for them.
    """

    def overlay(self, key: str, base: Values, override: Override) -> dict[str, int]:
        return {**inherited_counts(getattr(base, key), override), **getattr(override.values, key)}

    def differs(self, key: str, layer: str, expected: Expected, measured: Measured) -> bool:
        return expected.values.knows_runs(layer) and super().differs(key, layer, expected, measured)

    def override(self, key: str, change: Overriding) -> dict[str, int]:
        counts, graphs = change.different(key), change.graphs
        for layer in {*change.layers} & {*graphs}:
            counts[layer] = count_at(change.after, key, layer)
        return {layer: count for layer, count in counts.items() if count or layer not in graphs}


class OperationsRule(RunsRule):
    """Captured operations: a missing count is unknown, and each is of one compiler."""

    def differs(self, key: str, layer: str, expected: Expected, measured: Measured) -> bool:
        old, new = (
            getattr(values, key).get(layer) for values in (expected.values, measured.values)
        )
        is_comparable = expected.counts_ops(layer, measured.versions, measured.packages)
        return is_comparable and None not in (old, new) and old != new

    def override(self, key: str, change: Overriding) -> dict[str, int]:
        counts, graphs = change.unwritten_counts(key), change.graphs
        base, after = getattr(change.base, key), getattr(change.after, key)
        for layer in {*change.layers} & {*after}:
            now = made_by(layer, change.override.versions)
            is_comparable = now is None or same_minor(now, made_by(layer, change.base_versions))
            if layer in graphs or not is_comparable or after[layer] != base.get(layer):
                counts[layer] = after[layer]
        return counts

    def is_same(self, key: str, change: Overriding) -> bool:
        base = getattr(change.base, key)
        after = getattr(change.after, key)
        return all(count == base.get(layer) for layer, count in after.items())


def count_at(values: Values, key: str, layer: str) -> int:
    """Return a count, zero if it is missing."""
    counts: Mapping[str, int] = getattr(values, key)
    return counts.get(layer, 0)


def inherited_counts(base: Mapping[str, int], override: Override) -> dict[str, int]:
    """Return the plain counts of the layers whose graphs an override omits."""
    graphs = override.values.graphs
    return {layer: count for layer, count in base.items() if layer not in graphs}


# causes


class CausesRule(Rule):
    """Causes of graphs; an override replaces those of the layers that it names."""

    def overlay(self, key: str, base: Values, override: Override) -> tuple[Cause, ...]:
        replaced = override.causes_of
        stay = (cause for cause in base.causes if cause.layer not in replaced)
        return (*stay, *override.values.causes)

    def differs(self, key: str, layer: str, expected: Expected, measured: Measured) -> bool:
        now = made_by(layer, measured.versions)
        if not same_minor(expected.causes_with(layer), now):
            return False
        old, new = expected.values.causes_of(layer), measured.values.causes_of(layer)
        return old is not None and new is not None and not have_same_causes(old, new)

    def update(
        self, key: str, old: Values, measured: Measured, layers: Layers
    ) -> tuple[Cause, ...]:
        after = {
            cause.key: cause.as_written() for cause in select_layers(measured.values.causes, layers)
        }
        for cause in old.causes:
            if cause.key in after and cause.count == after[cause.key].count:
                after[cause.key] = cause
        return replace_items(old.causes, after, layers)

    def override(self, key: str, change: Overriding) -> tuple[Cause, ...]:
        causes = [
            cause for cause in change.override.values.causes if cause.layer not in change.layers
        ]
        graphs = change.graphs
        for layer in change.layers:
            base, after = (
                select_layers(values.causes, (layer,)) for values in (change.base, change.after)
            )
            if layer in graphs or not have_same_causes(base, after):
                causes += after
        return tuple(causes)

    def is_same(self, key: str, change: Overriding) -> bool:
        return have_same_causes(change.after.causes, change.base.causes)


# values that an override replaces as a whole


class WholeRule(Rule):
    """A value that an override replaces as a whole, if it has the key."""

    is_whole = True

    @abstractmethod
    def concerns(self, layers: Layers) -> bool:
        """Return whether the value is measured on one of the layers."""

    def overlay(self, key: str, base: Values, override: Override) -> Any:
        return getattr(override.values if key in override.named else base, key)

    def differs(self, key: str, layer: str, expected: Expected, measured: Measured) -> bool:
        return False

    def update(self, key: str, old: Values, measured: Measured, layers: Layers) -> Any:
        return getattr(measured.values if self.concerns(layers) else old, key)

    def override(self, key: str, change: Overriding) -> Any:
        return getattr(change.after if self.is_named(key, change) else Values(), key)

    def is_named(self, key: str, change: Overriding) -> bool:
        """Return whether an override has the key."""
        if not self.concerns(change.layers):
            return key in change.override.named
        return not self.is_same(key, change)

    def is_same(self, key: str, change: Overriding) -> bool:
        return bool(getattr(change.after, key) == getattr(change.base, key))


class EntriesRule(WholeRule):
    """Functions that Dynamo compiled; an entry without them is not written again for them."""

    def concerns(self, layers: Layers) -> bool:
        return PLACES_LAYER in layers

    def differs(self, key: str, layer: str, expected: Expected, measured: Measured) -> bool:
        old, new = {*getattr(expected.values, key)}, {*getattr(measured.values, key)}
        return layer == PLACES_LAYER and bool(old) and old != new


class LinesRule(WholeRule):
    """Lines of devices, by ``file::name``; they are compared with nothing. A file groups them."""

    def concerns(self, layers: Layers) -> bool:
        return any(layer != PLACES_LAYER for layer in layers)

    def from_file(self, value: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
        return {
            f"{file}::{name}": count
            for file, counts in value.items()
            for name, count in counts.items()
        }

    def to_file(self, value: Mapping[str, int]) -> dict[str, dict[str, int]]:
        by_file: dict[str, dict[str, int]] = {}
        for line, count in value.items():
            file, _, name = line.partition("::")
            by_file.setdefault(file, {})[name] = count
        return by_file

    def update(self, key: str, old: Values, measured: Measured, layers: Layers) -> dict[str, int]:
        lines = super().update(key, old, measured, layers)
        return {writable(line): count for line, count in lines.items()}


class PlacesRule(WholeRule):
    """Places that break or leave the compiler; a file keeps their order."""

    def concerns(self, layers: Layers) -> bool:
        return not {*BREAKING}.isdisjoint(layers)

    def differs(self, key: str, layer: str, expected: Expected, measured: Measured) -> bool:
        if layer not in BREAKING:
            return False
        old, new = (
            select_layers(getattr(values, key), (layer,))
            for values in (expected.values, measured.values)
        )
        return not have_same_places(old, new, expected.places_with(key), measured.versions)

    def update(
        self, key: str, old: Values, measured: Measured, layers: Layers
    ) -> tuple[BaselinePlace, ...]:
        places: tuple[BaselinePlace, ...] = getattr(old, key)
        after = distinct_places(select_layers(getattr(measured.values, key), layers))
        for place in places:
            if place.key in after:
                after[place.key] = merge_places(place, after[place.key], measured.versions)
        return replace_items(places, after, layers)

    def is_same(self, key: str, change: Overriding) -> bool:
        places = getattr(change.base, key), getattr(change.after, key)
        return have_same_places(*places, change.base_versions, change.override.versions)


_RULES: Final[Mapping[str, Rule]] = {
    "graphs": GraphsRule(),
    "counts": CountsRule(),
    "runs": RunsRule(),
    "ops": OperationsRule(),
    "causes": CausesRule(),
    "entries": EntriesRule(),
    "lines": LinesRule(),
    "places": PlacesRule(),
}
RULES: Final[Mapping[str, Rule]] = {name: _RULES[key.rule] for name, key in KEYS.items()}
"""The rule of each key, in the order of a file."""
WHOLE: Final = {name: rule for name, rule in RULES.items() if isinstance(rule, WholeRule)}
"""The keys that an override replaces as a whole, each with its rule."""


def overlay(base: Values, override: Override) -> Values:
    """Return the values of a profile, given the plain values and its override."""
    return Values(**{key: rule.overlay(key, base, override) for key, rule in RULES.items()})
