"""Updates baseline files to what was measured, from pytest or from elsewhere.

All files are read, planned and checked under the lock before the first one is written. What the
entries of a file become is decided by a ``PlannedFile`` (``plan``); ``render`` makes their text,
and ``editor`` puts it into the file. A new text is read back first: a text that would not say what
was intended is never put in place.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from pytest_graphbreak.baseline import files, form, render
from pytest_graphbreak.baseline.changes import Changes, FileChange
from pytest_graphbreak.baseline.editor import Editor
from pytest_graphbreak.baseline.model import (
    BaselineError,
    Document,
    Entry,
    Measured,
)
from pytest_graphbreak.baseline.plan import Key, Mode, PlannedFile
from pytest_graphbreak.baseline.read import document, parse_document
from pytest_graphbreak.baseline.store import baseline_path, resolve, split_nodeid
from pytest_graphbreak.baseline.tree import Mapping
from pytest_graphbreak.model.budget import writable
from pytest_graphbreak.model.versions import COMPILERS, minors
from pytest_graphbreak.text.files import without_collector

LOCK_TIMEOUT = 60.0
"""Seconds to wait for another run that is writing."""


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


class _Work(Struct):
    """The work on one file: measurements by test and case, and entries to remove.

    An entry that was measured as well is not removed.
    """

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
        planned = PlannedFile(_new_document(path, file, todo, base_profile), mode)
    else:
        before, root = parse_document(text, path, file)
        planned = PlannedFile(before, mode)
    planned.prune(key for key in todo.pruned if key not in todo.measured)
    for key, measurements in todo.measured.items():
        planned.measure(key, measurements)
    planned.renew_versions()
    return FileChange(path, text, _new_text(planned, text, root), tuple(planned.changes))


def _new_document(path: Path, file: str, todo: _Work, base_profile: str | None) -> Document:
    """Return a new document with the keys at the top of a new file.

    Its versions are those of the first measurement on the file's own profile, completed by the
    others: an entry that another compiler measured states its own.
    """
    items = [item for measurements in todo.measured.values() for item in measurements]
    profile = base_profile or (items[0].profile if items else "")
    first = next((item for item in items if item.profile == profile), items[0] if items else None)
    versions: dict[str, str] = {}
    for item in filter(None, (first, *items)):
        versions = {**item.versions, **versions}
    return Document(path, file, profile, minors(versions, COMPILERS))


def _new_text(planned: PlannedFile, old: str | None, root: Mapping | None) -> str | None:
    """Return the new text of the file, or None for no file."""
    if not planned.touched:
        return old
    if not planned.tests:
        return None
    if old is None or root is None:
        new = "\n".join(render.lines(render.file(planned.after), 0)) + "\n"
    else:
        mark = "\ufeff" if old.startswith("\ufeff") else ""
        new = mark + _edit(planned, old.removeprefix("\ufeff"), root)
        if files.is_cut_off(new.encode("utf-8", "replace")):
            new += "\n"  # the old file had no final line break, and was complete
    _read_back(planned.after, new)
    return new


def _edit(planned: PlannedFile, old: str, root: Mapping) -> str:
    tests = root.items["tests"][1]
    assert isinstance(tests, Mapping)
    if root.flow or (tests.flow and tests.items):
        raise BaselineError(
            "tests: is in flow style ({...}), and cannot be changed in place",
            path=planned.before.path,
            line=tests.line,
            step="write it in block style, one test below the other, or delete the file",
        )
    editor, keys = Editor(old), form.keys(form.File)
    top = planned.after
    for name, version in top.versions.items():
        if version != planned.before.versions.get(name):
            editor.set_text(root, name, version)
    if top.packages != planned.before.packages:
        editor.set_mapping(root, "packages", render.packages(top.packages), keys)
    if tests.items:
        _edit_tests(planned, editor, tests)
    else:
        added = {name: render.test(test, top) for name, test in planned.tests.items()}
        editor.set_mapping(root, "tests", added, keys)
    return editor.result()


def _edit_tests(planned: PlannedFile, editor: Editor, tests: Mapping) -> None:
    changed: dict[str, list[str] | None] = {}
    for name in dict.fromkeys((*planned.before.tests, *planned.tests)):
        after = planned.tests.get(name)
        if name not in planned.touched or _edit_cases(planned, editor, tests, name):
            continue
        changed[name] = None
        if after is not None:
            data = render.test(after, planned.after)
            changed[name] = render.item_lines(name, data, tests.column)
    editor.entries(tests, changed)


def _edit_cases(planned: PlannedFile, editor: Editor, tests: Mapping, name: str) -> bool:
    """Change only the cases of a test; return False if that is not possible.

    It is not where no case stays, or where the test or its cases are in braces. New cases stand by
    name, as ``render.test`` writes them.
    """
    before, after = planned.before.tests.get(name), planned.tests.get(name)
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
            data = render.case(entry, planned.after)
            changed[str(case)] = render.item_lines(str(case), data, cases.column)
    editor.entries(cases, changed, by_name=True)
    return True


def _read_back(after: Document, new: str) -> None:
    """Check that the new text is a valid file and contains what was intended."""
    problem = ""
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
