"""Follows torch settings that the call of a test changed and left, and restores them.

They are restored after the tear-down. Settings of fixtures belong to the suite and stay, even if
the test requests the fixture in its call, and so do settings of modules that are imported in it. A
setting that a fixture restores was never left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.layers.faults import guard
from pytest_graphbreak.layers.imports import AroundImports
from pytest_graphbreak.layers.settings import (
    Key,
    Setting,
    SettingsError,
    Snapshot,
    changed_keys,
    changes,
    deleted_entries,
    put_back,
    take,
    unusual,
)
from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.model.record import Record

_T = TypeVar("_T")


class Leaked(Struct, frozen=True):
    """What a test left: the settings by name, and the notes for the record."""

    settings: Plain = {}
    notes: tuple[str, ...] = ()


class Leaks:
    """Follows one test after the other, in the thread that runs them.

    For each test, ``Phases`` calls ``begin`` before its call, ``end`` after it, ``add_settings``
    for its record, and ``settle`` after its tear-down. What a fixture or an import changes during
    the call is copied into ``_before`` (``_adopt``), so that it does not count as a change of the
    test.
    """

    def __init__(self) -> None:
        self._test = ""
        self._puts_back = True
        # All settings before the call and after it; None outside of a test, or if unreadable.
        self._before: Snapshot | None = None
        self._after: Snapshot | None = None
        self._changed: list[Key] = []
        self._unusual: Plain = {}
        self._faults: list[str] = []
        self._stuck: dict[Key, str] = {}
        """What could not be put back, and why; it stays as it is for all tests to come."""
        self._imports: AroundImports | None = None
        self._importing: Snapshot | None = None

    def begin(self, test: str, *, put_back: bool) -> None:
        """Begin the call of a test. Settings stuck since an earlier one now count as its errors."""
        self._test, self._puts_back = test, put_back
        self._after, self._changed, self._unusual = None, [], {}
        self._faults = list(self._stuck.values())
        self._imports = AroundImports(self._before_import, self._after_import)
        self._imports.attach()
        self._before = self._take()
        if self._before is not None:
            self._unusual = self._try({}, unusual, self._before)

    def end(self) -> None:
        """End the call, also if it never started."""
        if self._imports is None:
            return
        self._imports.detach()
        self._imports = None
        if self._before is not None and (after := self._take()) is not None:
            self._after = after
            self._changed = self._try([], changed_keys, self._before, after)

    @contextmanager
    def fixture(self) -> Iterator[None]:
        """Keep what a fixture sets, even if the call requests the fixture."""
        before = None if self._imports is None else self._take()
        try:
            yield
        finally:
            self._adopt(before)

    def add_settings(self, record: Record) -> Record:
        """Return the record with settings that were not the default, and errors in reading them.

        They make the verdict an ``error`` only if the test compiled something, whose counts a
        setting may have changed, and only if settings are put back: in a run without isolation
        they are not, and errors in reading them are notes.
        """
        record = replace(record, settings=self._unusual)
        if not self._faults:
            return record
        faults = tuple(dict.fromkeys(self._faults))
        if self._puts_back and record.active:
            return replace(record, errors=(*record.errors, *faults))
        return record.with_notes(*faults)

    def settle(self) -> Leaked:
        """Restore, after the tear-down, what is still as the call left it. Once for each call."""
        self.end()
        before, after, changed = self._before, self._after, self._changed
        self._before, self._after, self._changed = None, None, []
        self._unusual, self._faults = {}, []
        if before is None or after is None or not changed:
            return Leaked()
        try:
            now = take()
            # A setting that was changed again since the call ended belongs to a fixture or to the
            # tear-down, such as a fixture that sets ``config.verbose`` after its ``yield``. Deleted
            # entries are the exception: monkeypatch of pytest 9.2 deletes an entry to put it back.
            others = {*changed_keys(after, now)} - {*deleted_entries(now)}
            leaked = [key for key in changed if key not in others]
            settings = changes(before, now, leaked)
        except SettingsError as fault:
            return Leaked(notes=(f"{self._test}: {fault}",))
        return self._put_back(before, dict(zip(leaked, settings, strict=True)))

    def _put_back(self, before: Snapshot, leaked: dict[Key, Setting]) -> Leaked:
        if not leaked:
            return Leaked()
        words = "put back after it" if self._puts_back else "it stays, since tests are not isolated"
        for key in leaked if self._puts_back else ():
            try:
                put_back(before, key)
            except SettingsError as fault:
                self._stuck[key] = f"{self._test} left {leaked[key]}: {fault}"
                words = str(fault)
        settings = sorted(leaked.values(), key=lambda setting: setting.name)
        note = f"{self._test} left {', '.join(map(str, settings))}; {words}"
        return Leaked({setting.name: setting.after for setting in settings}, (note,))

    def _before_import(self) -> None:
        self._importing = self._take()

    def _after_import(self) -> None:
        before, self._importing = self._importing, None
        self._adopt(before)

    def _adopt(self, before: Snapshot | None) -> None:
        """Exclude what changed since ``before`` from the changes of the test."""
        if before is None or self._before is None or (after := self._take()) is None:
            return
        with guard(self._note_fault):
            self._before.adopt(after, self._try([], changed_keys, before, after))

    def _note_fault(self, fault: Exception) -> None:
        self._faults.append(f"torch's settings: {type(fault).__name__}: {fault}")

    def _take(self) -> Snapshot | None:
        return self._try(None, take)

    def _try(self, otherwise: _T, function: Callable[..., _T], *args: Snapshot) -> _T:
        """Return what the function returns; if it fails, note the fault."""
        try:
            return function(*args)
        except SettingsError as fault:
            self._faults.append(str(fault))
            return otherwise
