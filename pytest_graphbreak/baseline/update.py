"""Bringing baseline files to what was measured, from pytest or from outside of it.

All files are read, planned and checked before the first one is written, under
the lock. What is about to be written is read back first: a text that would not
say what was meant is never put in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Mapping as Map
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pytest_graphbreak.baseline import plan, render, write
from pytest_graphbreak.baseline.document import Document, Raw, own
from pytest_graphbreak.baseline.edit import GONE, Editor
from pytest_graphbreak.baseline.load import is_cut_off, load_text
from pytest_graphbreak.baseline.model import BaselineError, Entry, Expected, Measured, Stale
from pytest_graphbreak.baseline.paths import baseline_path, inside, split_nodeid
from pytest_graphbreak.baseline.read import VERSION, document
from pytest_graphbreak.baseline.tree import Mapping
from pytest_graphbreak.model.budget import Values, writable
from pytest_graphbreak.model.layers import COMPILERS, LAYERS
from pytest_graphbreak.model.versions import minor
from pytest_graphbreak.text.garbage import uncollected

LOCK_TIMEOUT = 60.0
"""Seconds to wait for another run that writes."""

Mode = Literal["update", "record"]
Kind = Literal["added", "changed", "unchanged", "ungated", "pruned", "kept"]


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one entry.

    ``profile`` is whose values they are. ``old`` is what was expected of it
    before (None: nothing), ``new`` what is expected now (None: pruned).
    """

    kind: Kind
    nodeid: str
    path: Path
    profile: str
    old: Values | None
    new: Values | None

    def __str__(self) -> str:
        moved = ", ".join(_moved(self.old, self.new or Values()))
        if self.kind not in ("added", "changed"):
            return self.nodeid
        return f"{self.nodeid}  {moved or 'no graphs'}  ({self.profile})"


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file before and after; None where there is none."""

    path: Path
    old: str | None
    new: str | None


@dataclass(frozen=True, slots=True)
class Changes:
    """What an update did, or would do: entry by entry, and file by file those that change."""

    items: tuple[Change, ...] = ()
    files: tuple[FileChange, ...] = ()

    def of(self, *kinds: Kind) -> list[Change]:
        return [item for item in self.items if item.kind in kinds]

    @property
    def added(self) -> list[Change]:
        return self.of("added")

    @property
    def changed(self) -> list[Change]:
        return self.of("changed")

    @property
    def written(self) -> list[Change]:
        """Added and changed, in the order of the measurements."""
        return self.of("added", "changed")

    @property
    def pruned(self) -> list[Change]:
        return self.of("pruned")

    @property
    def kept(self) -> list[Change]:
        """What ``record`` did not write, since an entry that is there would have gone."""
        return self.of("kept")


def update(
    directory: Path,
    measured: Iterable[Measured],
    *,
    mode: Mode = "update",
    prune: Iterable[Stale] | None = None,
    base_profile: str | None = None,
    lock_timeout: float = LOCK_TIMEOUT,
) -> Changes:
    """Write what was measured; return what changed.

    ``update`` writes where a measurement is not what its profile expects,
    ``record`` only what no entry speaks of. ``prune`` are entries to drop.
    ``base_profile`` is the profile of files that are made; without it, that of
    the first measurement in each. Whether a change may be written (a lost
    layer, CI) is for the caller to know. Waits up to ``lock_timeout`` seconds
    for another writer. ``BaselineError`` if a file cannot be read, changed or
    written; nothing is written then, but for files before one that the system
    refused to write.
    """
    work = _by_file(measured, prune)
    if not work:
        return Changes()
    with write.locked(directory, lock_timeout):
        changes = _planned(directory, work, mode, base_profile)
        files = [(inside(directory, file.path), file.new) for file in changes.files]
        parents = dict.fromkeys(path.parent for path, _ in files)
        for parent in parents:
            write.clear(parent)
        for path, text in files:
            if text is None:
                write.remove(path)
            else:
                write.replace(path, text)
        for parent in parents:
            write.sync(parent)
    return changes


def preview(
    directory: Path,
    measured: Iterable[Measured],
    *,
    mode: Mode = "update",
    prune: Iterable[Stale] | None = None,
    base_profile: str | None = None,
) -> Changes:
    """What ``update`` would do; nothing is written or locked."""
    return _planned(directory, _by_file(measured, prune), mode, base_profile)


Key = tuple[str, "str | None"]


@dataclass(slots=True)
class _Work:
    """What there is to do to one file: measurements by test and case, and entries to drop."""

    measured: dict[Key, list[Measured]]
    pruned: list[Key]


def _by_file(measured: Iterable[Measured], prune: Iterable[Stale] | None) -> dict[str, _Work]:
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


def _planned(
    directory: Path, work: dict[str, _Work], mode: Mode, base_profile: str | None
) -> Changes:
    items: list[Change] = []
    files: list[FileChange] = []
    for file, todo in work.items():
        path = baseline_path(directory, file)
        inside(directory, path)
        with uncollected():
            changes, old, new = _planned_file(path, file, todo, mode, base_profile)
        items += changes
        if new != old:
            files.append(FileChange(path, old, new))
    return Changes(tuple(items), tuple(files))


def _planned_file(
    path: Path, file: str, todo: _Work, mode: Mode, base_profile: str | None
) -> tuple[list[Change], str | None, str | None]:
    """What becomes of the entries of a file, and its text before and after."""
    text = load_text(path)
    if text is None:
        job = _File(_new_document(path, file, todo, base_profile), mode)
    else:
        job = _File(document(text, path, file), mode)
    job.prune(key for key in todo.pruned if key not in todo.measured)
    for key, several in todo.measured.items():
        job.measure(key, several)
    return job.changes, text, job.text(text)


def _new_document(path: Path, file: str, todo: _Work, base_profile: str | None) -> Document:
    """What a file that is made says at its top."""
    items = [item for several in todo.measured.values() for item in several]
    profile = base_profile or (items[0].profile if items else "")
    first = next((item for item in items if item.profile == profile), items[0] if items else None)
    versions: dict[str, str] = {}
    for item in filter(None, (first, *items)):
        versions = {**item.versions, **versions}
    return Document(path, file, profile, _minors(versions), tests={}, lines={})


def _minors(versions: Map[str, str]) -> dict[str, str]:
    return {name: short for name in COMPILERS if (short := minor(versions.get(name)))}


class _File:
    """One baseline file on its way from what it says to what it will say."""

    def __init__(self, before: Document, mode: Mode) -> None:
        self.before = before
        self.mode = mode
        self.top = plan.File(before.profile, before.versions)
        # Entries are replaced and never changed; only what holds them is copied.
        self.tests = {
            name: {**raw, "cases": dict(raw["cases"])} if "cases" in raw else raw
            for name, raw in before.tests.items()
        }
        self.after = replace(before, tests=self.tests)
        self.touched: set[str] = set()
        self.packages = dict(before.packages)
        self.changes: list[Change] = []

    def prune(self, keys: Iterable[Key]) -> None:
        """Drop entries that are there; a test goes with its last case."""
        for test, case in keys:
            entry = self.after.entry(test, case)
            if entry is None or own(self.tests[test], case) is None:
                continue
            self.touched.add(test)
            self._pruned(entry)
            if case is not None:
                del self.tests[test]["cases"][case]
            if case is None or not self.tests[test]["cases"]:
                del self.tests[test]

    def measure(self, key: Key, several: Iterable[Measured]) -> None:
        """Take the measurements of one test, those of its plain values first."""
        entry = self.after.entry(*key)
        base = entry.profile if entry is not None else self.before.profile
        for item in sorted(several, key=lambda item: item.profile != base):
            self._take(key, item)

    def _take(self, key: Key, item: Measured) -> None:
        entry = self.after.entry(*key)
        expected = entry.expected(item.profile) if entry is not None else None
        if entry is not None and entry.ungated is not None:
            self._changed("ungated", item, expected, expected)
            return
        item = plan.of_concern(item, expected)
        find = plan.differing if self.mode == "update" else plan.missing
        found = find(expected, item)
        if expected is not None and not found:
            self._changed("unchanged", item, expected, expected)
            return
        if self.mode == "record" and self._would_drop(key):
            self._changed("kept", item, expected, expected)
            return
        layers = found if self.mode == "record" else frozenset(item.layers)
        raw = own(self.tests.get(key[0], {"cases": {}}), key[1]) or {}
        ordered = [layer for layer in LAYERS if layer in layers]
        self._put(key, plan.written(raw, entry, item, ordered, self.top))
        self.packages |= {writable(name): writable(at) for name, at in item.packages.items()}
        after = self.after.entry(*key)
        assert after is not None
        self._changed(
            "added" if entry is None else "changed", item, expected, after.expected(item.profile)
        )

    def _would_drop(self, key: Key) -> bool:
        """Whether a test has cases where its entry has none, or the other way round."""
        test, case = key
        above = self.tests.get(test, {})
        return (
            "cases" in above if case is None else bool(above.keys() - {"note", "ungated", "cases"})
        )

    def _put(self, key: Key, raw: Raw) -> None:
        test, case = key
        self.touched.add(test)
        above = self.tests.get(test, {})
        remarks: Raw = {name: above[name] for name in ("note", "ungated") if name in above}
        if case is None:
            if "cases" in above:
                # pytest has one function of a name: it has parameters, or it has none.
                self._pruned_all(test, above["cases"])
                raw = remarks | raw
            self.tests[test] = raw
        elif "cases" in above:
            above["cases"][case] = raw
        else:
            if above.keys() - remarks.keys():
                self._pruned_all(test, (None,))
            self.tests[test] = {**remarks, "cases": {case: raw}}

    def _pruned_all(self, test: str, cases: Iterable[str | None]) -> None:
        for case in cases:
            entry = self.after.entry(test, case)
            if entry is not None:
                self._pruned(entry)

    def _pruned(self, entry: Entry) -> None:
        self.changes.append(
            Change("pruned", entry.nodeid, entry.path, entry.profile, entry.values, None)
        )

    def _changed(
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

    def text(self, old: str | None) -> str | None:
        """The file's text as it will be; None for no file."""
        if not self.touched:
            return old
        if not self.tests:
            return None
        if old is None:
            new = self._new_text()
        else:
            mark = "\ufeff" if old.startswith("\ufeff") else ""
            new = mark + self._edited(old.removeprefix("\ufeff"))
            if is_cut_off(new.encode("utf-8", "replace")):
                new += "\n"  # the old file's last line had no end, and was no place
        self._read_back(new)
        return new

    def _new_text(self) -> str:
        before = self.before
        data = {"version": VERSION, "profile": before.profile, "tests": self.tests}
        data |= before.versions
        if self.packages:
            data["packages"] = dict(sorted(self.packages.items()))
        return "\n".join(render.lines(data, render.FILE, 0)) + "\n"

    def _edited(self, old: str) -> str:
        root = self.before.root
        assert root is not None
        name, tests = root.items["tests"]
        assert isinstance(tests, Mapping)
        if root.flow or (tests.flow and tests.items):
            raise BaselineError(
                "tests: is in flow style ({...}), and cannot be changed in place",
                path=self.before.path,
                line=tests.line,
                step="write it in block style, one test below the other, or delete the file",
            )
        editor = Editor(old)
        if self.packages != self.before.packages:
            editor.mapping(root, {"packages": dict(sorted(self.packages.items()))}, render.FILE)
        if tests.items:
            order = [*self.before.tests, *self.tests]
            changed = {
                test: self.tests.get(test, GONE)
                for test in dict.fromkeys(order)
                if test in self.touched
            }
            editor.mapping(tests, changed, render.TESTS)
        else:
            editor.value((name, tests), self.tests, render.TESTS, root)
        return editor.result()

    def _read_back(self, new: str) -> None:
        """What was written must say what was meant, and be a file that we read."""
        before, problem = self.before, ""
        try:
            read = document(new, before.path, before.file)
        except BaselineError as error:
            problem = f": {error.message}"
        else:
            top = (before.profile, before.versions, self.packages)
            if (read.profile, read.versions, read.packages, read.tests) == (*top, self.tests):
                return
        raise BaselineError(
            f"cannot be changed in place{problem}",
            path=before.path,
            step="write the entries of this run's tests in plain block style, or delete them",
        )


def both_ops(old: Values, new: Values) -> tuple[Map[str, int], Map[str, int]]:
    """Captured operations before and after, of the layers of which both are known."""
    layers = old.ops.keys() & new.ops.keys()
    return {at: old.ops[at] for at in layers}, {at: new.ops[at] for at in layers}


def _moved(before: Values | None, new: Values) -> Iterator[str]:
    """What is another count now, in words: of an entry that is new, the counts alone."""
    old = before or Values()

    def step(was: int, now: int) -> str:
        return f"{now}" if before is None else f"{was} -> {now}"

    for what, was, now in (
        ("", old.graphs, new.graphs),
        (" recompiles", old.recompiles, new.recompiles),
        (" operations", *both_ops(old, new)),
    ):
        for layer in LAYERS:
            if was.get(layer, 0) != now.get(layer, 0):
                yield f"{layer}{what} {step(was.get(layer, 0), now.get(layer, 0))}"
    for what, one, other in (("breaks", old.breaks, new.breaks), ("eager", old.eager, new.eager)):
        if len(one) != len(other):
            yield f"{what} {step(len(one), len(other))}"
        elif one != other:
            yield f"other {what}"
