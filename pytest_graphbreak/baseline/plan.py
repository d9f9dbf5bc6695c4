"""Computes what an entry becomes after a measurement. Data in, data out.

The rules are those of docs/reference/baseline-file.md, "What an update writes".
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from msgspec import structs

from pytest_graphbreak.baseline.model import Document, Entry, Expected, Measured, Override
from pytest_graphbreak.baseline.rules import Overriding, differs, merge, overlay
from pytest_graphbreak.model.budget import Values
from pytest_graphbreak.model.layer import Versions, minor, same_minor
from pytest_graphbreak.model.layers import DESCRIPTIONS, JUDGED, made_by


def drop_unconcerned(measured: Measured, expected: Expected | None) -> Measured:
    """Return the measurement without layers that are only judged when named and are not named."""
    relevant = expected.own | expected.values.layers if expected is not None else frozenset[str]()
    layers = tuple(layer for layer in measured.layers if layer in JUDGED or layer in relevant)
    return measured if layers == measured.layers else replace(measured, layers=layers)


def differing_layers(expected: Expected | None, measured: Measured) -> frozenset[str]:
    """Return the observed layers on which a measurement differs from what is written.

    Counts, places, and how often a place broke are compared; reasons and ids only with the same
    minor version of the compiler, captured operations only with the same packages as well. If
    nothing is known of a layer, it differs if anything was measured on it; so it does if another
    minor version of the compiler measured it, as its reasons and operations are compared no more.
    """
    if expected is None:
        return frozenset(measured.layers)
    outdated = frozenset(
        layer for layer in measured.layers if is_outdated(layer, expected, measured.versions)
    )
    if expected.values == measured.values:  # as most are: none of the rules finds a difference
        return outdated
    return outdated | frozenset(
        layer for layer in measured.layers if differs(layer, expected, measured)
    )


def is_outdated(layer: str, expected: Expected, versions: Versions) -> bool:
    """Return whether another minor version of a compiler measured a layer than ``versions`` say.

    An entry states versions of the layers that take the user's own code, and of no layer below.
    """
    was, now = made_by(layer, expected.versions), made_by(layer, versions)
    is_stated = DESCRIPTIONS[layer].above is None and expected.recorded
    return is_stated and None not in (was, now) and not same_minor(was, now)


def unjudged_layers(expected: Expected | None, measured: Measured) -> frozenset[str]:
    """Return the observed layers that nothing here judges, and on which something was measured."""
    if expected is None:
        return frozenset(measured.layers)
    return differing_layers(expected, measured) - {*expected.judged_layers(measured.layers)}


def update_entry(
    entry: Entry, measured: Measured, layers: Collection[str], file: Document
) -> Entry:
    """Return the updated entry: ``measured`` on ``layers``, everything else as it is.

    A new entry has neither values nor overrides. If the plain values belong to another profile, the
    measurement goes under ``overrides``.
    """
    if measured.profile != entry.profile or measured.profile in entry.overrides:
        return _update_override(entry, measured, layers, file)
    values = merge(entry.values or Values(), measured, layers)
    versions = _versions(entry.versions, measured, file, layers, always=entry.values is None)
    return replace(entry, values=values, versions=versions)


def _update_override(
    entry: Entry, measured: Measured, layers: Collection[str], file: Document
) -> Entry:
    before = entry.overrides.get(measured.profile)
    old = before or Override(versions=file.versions)
    versions = _versions(old.versions, measured, file, layers, always=before is None)
    base = entry.values or Values()
    after = merge(overlay(base, old), measured, layers)
    change = Overriding(
        override=replace(old, versions=versions),
        base=base,
        base_versions=entry.versions,
        after=after,
        layers=layers,
    )
    override = change.result
    overrides = {**entry.overrides, measured.profile: override}
    # Asked of what the file will say: an override drops what is as the plain values.
    written = structs.replace(change, override=override, after=overlay(base, override))
    if entry.values is not None and not written.is_needed:
        del overrides[measured.profile]
    return replace(entry, overrides=overrides)


def _versions(
    before: Versions, measured: Measured, file: Document, layers: Collection[str], always: bool
) -> Versions:
    """Return the compiler versions of an entry, using those of its file if they are the same.

    They are written if ``always`` is true, or if a layer is written that takes the user's own code:
    layers below it have no reasons to compare.
    """
    top = {DESCRIPTIONS[layer].compiler for layer in layers if DESCRIPTIONS[layer].above is None}
    versions = dict(before)
    for name, version in measured.versions.items():
        if (always or name in top) and (short := minor(version)):
            stated = file.versions.get(name)
            versions[name] = stated if stated and same_minor(version, stated) else short
    return versions
