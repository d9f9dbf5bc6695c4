"""Computes what the entries of a file become after measurements. Data in, data out.

What becomes of an entry is decided in ``PlannedFile._take``, by the mode:

- ``update`` writes an entry that differs from what was measured on any layer, and then all of the
  measured layers.
- ``record`` writes what no run could judge until now, and nothing else: a new test, or a layer that
  an entry does not speak of.

What is done with each key of an entry is known to ``rules``. The result is that of
docs/reference/baseline-file.md, "What an update writes".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Literal

from msgspec import structs

from pytest_graphbreak.baseline.changes import Change, Kind
from pytest_graphbreak.baseline.model import Document, Entries, Entry, Expected, Measured, Override
from pytest_graphbreak.baseline.rules import Overriding, differs, expectation, merge, overlay
from pytest_graphbreak.model.budget import Values, writable
from pytest_graphbreak.model.layers import DESCRIPTIONS, JUDGED, LAYERS
from pytest_graphbreak.model.versions import Versions, made_by, minor, same_minor

Key = tuple[str, str | None]
"""A test and its case: ``("test_b", "cpu-1")``, and ``("test_a", None)`` without parameters."""
Mode = Literal["update", "record"]


class PlannedFile:
    """One baseline file before and after measurements; ``touched`` are the tests that change.

    ``update`` makes one for each file and calls, in this order, ``prune``, ``measure`` for each
    test that was measured, and ``renew_versions``. Then ``after`` is the file to write, and
    ``changes`` say what became of each entry.
    """

    def __init__(self, before: Document, mode: Mode) -> None:
        self.before = before
        self._mode = mode
        # Entries are replaced and never changed; only their containers are copied.
        self.tests = {
            name: replace(test, entries=dict(test.entries)) for name, test in before.tests.items()
        }
        self.after = replace(before, tests=self.tests, packages=dict(before.packages))
        self.touched: set[str] = set()
        self._is_renewed = False
        """Whether an entry is written that another version of a compiler had measured."""
        self.changes: list[Change] = []

    def prune(self, keys: Iterable[Key]) -> None:
        """Remove entries if present; a test is removed with its last case."""
        for test, case in keys:
            entries = self._entries(test)
            if case in entries:
                self._prune(test, (case,))
                if not entries:
                    del self.tests[test]

    def _entries(self, test: str) -> dict[str | None, Entry]:
        return self.tests[test].entries if test in self.tests else {}

    def measure(self, key: Key, measurements: Iterable[Measured]) -> None:
        """Take the measurements of one test, one of each profile.

        That of the plain values is first, since overrides say how others differ from these.
        """
        entry = self.after.entry(*key)
        base = entry.profile if entry is not None else self.before.profile
        for item in sorted(measurements, key=lambda item: item.profile != base):
            self._take(key, item)

    def _take(self, key: Key, item: Measured) -> None:
        entry = self.after.entry(*key)
        expected = expectation(entry, item.profile) if entry is not None else None
        if entry is not None and entry.ungated is not None:
            self._add_change("ungated", item, expected, expected)
            return
        item = drop_unconcerned(item, expected)
        find = differing_layers if self._mode == "update" else unjudged_layers
        layers = find(expected, item)
        if expected is not None and not layers:
            self._add_change("unchanged", item, expected, expected)
            return
        test, case = key
        if self._mode == "record" and test in self.tests and self.tests[test].would_lose(case):
            self._add_change("kept", item, expected, expected)
            return
        if self._mode == "update":
            layers = frozenset(item.layers)
            self._is_renewed |= expected is not None and any(
                is_outdated(layer, expected, item.versions) for layer in layers
            )
        after = self._write_entry(key, item, [layer for layer in LAYERS if layer in layers])
        self._add_change(
            "added" if entry is None else "changed",
            item,
            expected,
            expectation(after, item.profile),
        )

    def _write_entry(self, key: Key, item: Measured, layers: list[str]) -> Entry:
        """Write a measurement into the entry of a test, creating it if there is none."""
        test, case = key
        self.touched.add(test)
        entries = self.tests.setdefault(test, Entries(None, None, 0))
        in_the_way = entries.conflicting_cases(case)
        if in_the_way and not entries.would_lose(case):
            del entries.entries[None]  # its remarks are those of the test, and stay
        else:
            self._prune(test, in_the_way)
        top = self.after
        entry = entries.entries.get(case)
        if entry is None:
            entry = top.new_entry(test, case, note=entries.note if case is None else None)
        entries.entries[case] = update_entry(entry, item, layers, top)
        packages = {writable(name): writable(number) for name, number in item.packages.items()}
        self.after = replace(top, packages={**top.packages, **packages})
        return entries.entries[case]

    def _prune(self, test: str, cases: Iterable[str | None]) -> None:
        for case in cases:
            self.touched.add(test)
            entry = self.tests[test].entries.pop(case)
            self.changes.append(
                Change("pruned", entry.nodeid, entry.path, entry.profile, entry.values, None)
            )

    def _add_change(
        self, kind: Kind, item: Measured, old: Expected | None, new: Expected | None
    ) -> None:
        self.changes.append(
            Change(
                kind,
                item.nodeid,
                self.before.path,
                item.profile,
                old.values if old is not None else None,
                new.values if new is not None else None,
            )
        )

    def renew_versions(self) -> None:
        """Move the version at the top of the file, if all of its entries state another one.

        Of a file of torch 2.9 in which every entry says ``torch: "2.13"``, the file says so instead
        of them. It stays as it is if an entry or an override is still of 2.9.
        """
        if not self._is_renewed:
            return
        for name, was in self.before.versions.items():
            entries = [entry for test in self.tests.values() for entry in test.entries.values()]
            measured = [entry.versions for entry in entries if entry.values is not None]
            overrides = [
                override.versions for entry in entries for override in entry.overrides.values()
            ]
            stated = {versions.get(name) for versions in (*measured, *overrides)}
            if len(stated) != 1 or (now := stated.pop()) in (None, was):
                continue
            self.after = replace(self.after, versions={**self.after.versions, name: str(now)})
            for entries_of in self.tests.values():
                for case, entry in entries_of.entries.items():
                    versions = {**entry.versions, name: str(now)}
                    entries_of.entries[case] = replace(entry, versions=versions)


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
        before=old,
        versions=versions,
        base=base,
        base_versions=entry.versions,
        after=after,
        layers=layers,
    )
    override = change.result
    overrides = {**entry.overrides, measured.profile: override}
    # What holds by the override as it will be written: it drops what is as the plain values.
    written = structs.replace(change, after=overlay(base, override))
    if entry.values is not None and not written.is_needed:
        del overrides[measured.profile]
    return replace(entry, overrides=overrides)


def _versions(
    before: Versions, measured: Measured, file: Document, layers: Collection[str], *, always: bool
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
