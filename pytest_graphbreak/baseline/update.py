"""Updates baseline files to what was measured, from pytest or from elsewhere.

All files are read, planned and checked under the lock before the first one is written. A new text
is read back first: a text that would not say what was intended is never put in place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Literal

from msgspec import Struct

from pytest_graphbreak.baseline import files, form, plan, render
from pytest_graphbreak.baseline.changes import Change, Changes, FileChange, Kind
from pytest_graphbreak.baseline.editor import Editor
from pytest_graphbreak.baseline.model import (
    BaselineError,
    Document,
    Entries,
    Entry,
    Expected,
    Measured,
)
from pytest_graphbreak.baseline.read import document, parse_document
from pytest_graphbreak.baseline.rules import expectation
from pytest_graphbreak.baseline.store import baseline_path, resolve, split_nodeid
from pytest_graphbreak.baseline.tree import Mapping
from pytest_graphbreak.model.budget import writable
from pytest_graphbreak.model.layer import minors
from pytest_graphbreak.model.layers import COMPILERS, LAYERS
from pytest_graphbreak.text.files import without_collector

LOCK_TIMEOUT = 60.0
"""Seconds to wait for another run that is writing."""

Mode = Literal["update", "record"]


def update(
    directory: Path,
    measured: Iterable[Measured],
    *,
    mode: Mode = "update",
    prune: Iterable[Entry] | None = None,
    base_profile: str | None = None,
    lock_timeout: float = LOCK_TIMEOUT,
    previewed: Changes | None = None,
) -> Changes:
    """Write what was measured and return what changed.

    ``update`` writes where a measurement differs from what its profile expects, ``record`` only
    where no entry exists. ``prune`` are entries to remove. ``base_profile`` is the profile of newly
    created files; without it, that of the first measurement in each. The caller decides whether a
    change may be written (a lost layer, CI). ``previewed`` is the ``preview`` of the same update,
    which holds for files that are as they were. Waits up to ``lock_timeout`` seconds for another
    writer. Raises ``BaselineError`` if a file cannot be read, changed or written; then nothing is
    written, except for files that precede one that the system refused to write.
    """
    work = _group_by_file(measured, prune)
    if not work:
        return Changes()
    with files.hold_lock(directory, lock_timeout):
        changes = _plan(directory, work, mode, base_profile, previewed)
        _write(directory, changes)
    return changes


def _write(directory: Path, changes: Changes) -> None:
    texts = [(resolve(directory, file.path), file.new) for file in changes.files]
    parents = dict.fromkeys(path.parent for path, _ in texts)
    for parent in parents:
        files.clear(parent)
    for path, text in texts:
        if text is None:
            files.remove(path)
        else:
            files.replace(path, text)
    for parent in parents:
        files.sync(parent)


def preview(
    directory: Path,
    measured: Iterable[Measured],
    *,
    prune: Iterable[Entry] | None = None,
    base_profile: str | None = None,
) -> Changes:
    """Return what ``update`` would do; nothing is written or locked."""
    return _plan(directory, _group_by_file(measured, prune), "update", base_profile)


Key = tuple[str, "str | None"]


class _Work(Struct):
    """The work on one file: measurements by test and case, and entries to remove."""

    measured: dict[Key, list[Measured]]
    pruned: list[Key]


def _group_by_file(measured: Iterable[Measured], prune: Iterable[Entry] | None) -> dict[str, _Work]:
    work: dict[str, _Work] = {}
    for item in measured:
        if not item.profile.strip() or writable(item.profile) != item.profile:
            step = "name it with --graph-budget-profile"
            raise BaselineError(f"{item.profile!r} cannot name a profile", step=step)
        file, test, case = split_nodeid(item.nodeid)
        todo = work.setdefault(file, _Work({}, []))
        todo.measured.setdefault((test, case), []).append(item)
    for stale in prune or ():
        work.setdefault(stale.file, _Work({}, [])).pruned.append((stale.test, stale.case))
    return work


def _plan(
    directory: Path,
    work: dict[str, _Work],
    mode: Mode,
    base_profile: str | None,
    previewed: Changes | None = None,
) -> Changes:
    earlier = {change.path: change for change in previewed.planned} if previewed else {}
    changes = []
    for file, todo in work.items():
        path = baseline_path(directory, file)
        resolve(directory, path)
        text = files.load_text(path)
        change = earlier.get(path)
        if change is None or change.old != text:
            with without_collector():
                change = _plan_file(text, path, file, todo, mode, base_profile)
        changes.append(change)
    return Changes(tuple(changes))


def _plan_file(
    text: str | None, path: Path, file: str, todo: _Work, mode: Mode, base_profile: str | None
) -> FileChange:
    """Return the change of a file that has this text now."""
    root = None
    if text is None:
        job = _File(_new_document(path, file, todo, base_profile), mode)
    else:
        before, root = parse_document(text, path, file)
        job = _File(before, mode)
    job.prune(key for key in todo.pruned if key not in todo.measured)
    for key, measurements in todo.measured.items():
        job.measure(key, measurements)
    return FileChange(path, text, job.text(text, root), tuple(job.changes))


def _new_document(path: Path, file: str, todo: _Work, base_profile: str | None) -> Document:
    """Return a new document with the keys at the top of a new file."""
    items = [item for measurements in todo.measured.values() for item in measurements]
    profile = base_profile or (items[0].profile if items else "")
    first = next((item for item in items if item.profile == profile), items[0] if items else None)
    versions: dict[str, str] = {}
    for item in filter(None, (first, *items)):
        versions = {**item.versions, **versions}
    return Document(path, file, profile, minors(versions, COMPILERS))


class _File:
    """One baseline file, on its way from the old to the new contents."""

    def __init__(self, before: Document, mode: Mode) -> None:
        self.before = before
        self.mode = mode
        # Entries are replaced and never changed; only their containers are copied.
        self.tests = {
            name: replace(test, entries=dict(test.entries)) for name, test in before.tests.items()
        }
        self.after = replace(before, tests=self.tests, packages=dict(before.packages))
        self.touched: set[str] = set()
        self.renewed = False
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
        """Take the measurements of one test, starting with those of its plain values."""
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
        item = plan.drop_unconcerned(item, expected)
        find = plan.differing_layers if self.mode == "update" else plan.unjudged_layers
        layers = find(expected, item)
        if expected is not None and not layers:
            self._add_change("unchanged", item, expected, expected)
            return
        if self.mode == "record" and self._would_drop(key):
            self._add_change("kept", item, expected, expected)
            return
        if self.mode == "update":
            layers = frozenset(item.layers)
            self.renewed |= expected is not None and any(
                plan.is_outdated(layer, expected, item.versions) for layer in layers
            )
        after = self._write_entry(key, item, [layer for layer in LAYERS if layer in layers])
        self._add_change(
            "added" if entry is None else "changed",
            item,
            expected,
            expectation(after, item.profile),
        )

    def _conflicting_cases(self, key: Key) -> list[str | None]:
        """Return the entries of a test that are removed when one is written for ``key``.

        pytest has one function of a name: either it has parameters, or it has none.
        """
        test, case = key
        return [name for name in self._entries(test) if (name is None) != (case is None)]

    def _would_drop(self, key: Key) -> bool:
        """Return whether an entry would be removed that is more than a remark."""
        cases = self._conflicting_cases(key)
        return any(case is not None or not self._is_remark(key[0]) for case in cases)

    def _is_remark(self, test: str) -> bool:
        return self.tests[test].entries[None].is_remark

    def _write_entry(self, key: Key, item: Measured, layers: list[str]) -> Entry:
        """Write a measurement into the entry of a test, creating it if there is none."""
        test, case = key
        self.touched.add(test)
        entries = self.tests.setdefault(test, Entries(None, None, 0))
        in_the_way = self._conflicting_cases(key)
        if in_the_way == [None] and self._is_remark(test):
            del entries.entries[None]  # its remarks are those of the test, and stay
        else:
            self._prune(test, in_the_way)
        top = self.after
        entry = entries.entries.get(case)
        if entry is None:
            entry = top.new_entry(test, case, note=entries.note if case is None else None)
        entries.entries[case] = plan.update_entry(entry, item, layers, top)
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

    # text

    def text(self, old: str | None, root: Mapping | None) -> str | None:
        """Return the new text of the file, or None for no file."""
        if not self.touched:
            return old
        if not self.tests:
            return None
        if self.renewed:
            self._renew_versions()
        if old is None or root is None:
            new = "\n".join(render.lines(render.file(self.after), 0)) + "\n"
        else:
            mark = "\ufeff" if old.startswith("\ufeff") else ""
            new = mark + self._edit(old.removeprefix("\ufeff"), root)
            if files.is_cut_off(new.encode("utf-8", "replace")):
                new += "\n"  # the old file had no final line break, and was complete
        self._read_back(new)
        return new

    def _renew_versions(self) -> None:
        """Move the version at the top of the file, if all of its entries have a newer one."""
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

    def _edit(self, old: str, root: Mapping) -> str:
        tests = root.items["tests"][1]
        assert isinstance(tests, Mapping)
        if root.flow or (tests.flow and tests.items):
            raise BaselineError(
                "tests: is in flow style ({...}), and cannot be changed in place",
                path=self.before.path,
                line=tests.line,
                step="write it in block style, one test below the other, or delete the file",
            )
        editor, keys = Editor(old), form.keys(form.File)
        top = self.after
        for name, version in top.versions.items():
            if version != self.before.versions.get(name):
                editor.set_text(root, name, version)
        if top.packages != self.before.packages:
            editor.set_mapping(root, "packages", render.packages(top.packages), keys)
        if tests.items:
            self._edit_tests(editor, tests)
        else:
            added = {name: render.test(test, top) for name, test in self.tests.items()}
            editor.set_mapping(root, "tests", added, keys)
        return editor.result()

    def _edit_tests(self, editor: Editor, tests: Mapping) -> None:
        changed: dict[str, list[str] | None] = {}
        for name in dict.fromkeys((*self.before.tests, *self.tests)):
            after = self.tests.get(name)
            if name not in self.touched or self._edit_cases(editor, tests, name):
                continue
            changed[name] = None
            if after is not None:
                data = render.test(after, self.after)
                changed[name] = render.item_lines(name, data, tests.column)
        editor.entries(tests, changed)

    def _edit_cases(self, editor: Editor, tests: Mapping, name: str) -> bool:
        """Change only the cases of a test; return False if that is not possible."""
        before, after = self.before.tests.get(name), self.tests.get(name)
        if before is None or after is None or not before.entries.keys() & after.entries.keys():
            return False
        node = tests.items[name][1]
        assert isinstance(node, Mapping)
        if "cases" not in node.items:
            return False
        cases = node.items["cases"][1]
        assert isinstance(cases, Mapping)
        if not editor.has_lines(cases):
            return False
        changed: dict[str, list[str] | None] = {}
        for case in dict.fromkeys((*before.entries, *after.entries)):
            entry = after.entries.get(case)
            if entry == before.entries.get(case):
                continue
            changed[str(case)] = None
            if entry is not None:
                data = render.case(entry, self.after)
                changed[str(case)] = render.item_lines(str(case), data, cases.column)
        editor.entries(cases, changed, by_name=True)
        return True

    def _read_back(self, new: str) -> None:
        """Check that the new text is a valid file and contains what was intended."""
        after, problem = self.after, ""
        try:
            parsed = document(new, after.path, after.file)
        except BaselineError as error:
            problem = f": {error.message}"
        else:
            if parsed == after:
                return
        raise BaselineError(
            f"cannot be changed in place{problem}",
            path=after.path,
            step="write the entries of this run's tests in plain block style, or delete them",
        )
