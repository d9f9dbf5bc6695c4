"""Finds what a change takes out of the gate: compares the checkout with the base commit.

Marks in the source, keys of the configuration and ``ungated:`` in the baselines decide what the
gate sees. None of them shows in a count, so they are reported to the reader of the verdict.
"""

from __future__ import annotations

import ast
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Final

from pytest_graphbreak.baseline import BaselineError
from pytest_graphbreak.baseline.paths import SUFFIX, inside, mirrored_file
from pytest_graphbreak.baseline.read import document, load_text
from pytest_graphbreak.config.checkout import NAMES, Checkout, CheckoutError, keys_of
from pytest_graphbreak.config.git import GitError, blobs, git, names, raw_change
from pytest_graphbreak.model.budget import Cap
from pytest_graphbreak.model.layers import LAYERS
from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.text.source import parsed

# Reads the marks for the gate from the text of Python source, which is not imported or
# run.
#
# A mark is a call of ``graph_budget`` or ``max_graphs``, as a marker or as a block, wherever it
# is: its scope is the class or the function around it.

MARKS: Final = ("graph_budget", "max_graphs")
WORD: Final = re.compile("graph_budget|max_graphs")
LARGEST: Final = 2 * 2**20
"""The largest source file that is read, in characters."""
LONGEST: Final = 200
_UNKNOWN: Final = object()
"""The value of an argument that only a run of the code would show."""


@dataclass(frozen=True, slots=True)
class MarkCall:
    """One call: ``scope`` is ``""`` for the module, else ``TestA::test_b``."""

    scope: str
    name: str
    line: int
    text: str
    arguments: tuple[tuple[str, Any], ...]

    def ungates(self) -> bool:
        """Return whether it takes tests out of the gate, or may do so."""
        return self._may_be_off("gate")

    def unisolates(self) -> bool:
        """Return whether it leaves the compiler's caches alone, or may do so."""
        return self._may_be_off("isolate")

    def _may_be_off(self, name: str) -> bool:
        known = dict(self.arguments)
        return self.name == "graph_budget" and ("**" in known or known.get(name, True) is not True)

    def allows_more(self, before: MarkCall) -> bool:
        """Return whether its cap allows more than that of ``before``, or may do so."""
        now = dict(self.arguments)
        return any(
            not (_is_count(now.get(key)) and now[key] <= most)
            for key, most in before.arguments
            if _is_count(most)
        )


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of a file, in order, and all its scopes, also those without a mark."""

    found: tuple[MarkCall, ...] = ()
    scopes: frozenset[str] = frozenset({""})


def read(source: str) -> Marks:
    """Return all marks of a file; none if it is not valid Python."""
    if len(source) > LARGEST or not WORD.search(source):
        return Marks()
    try:
        return _read(parsed(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Marks()


def _read(tree: ast.AST) -> Marks:
    found: list[MarkCall] = []
    scopes = {""}
    left: list[tuple[ast.AST, str]] = [(tree, "")]
    while left:
        node, scope = left.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            scope = f"{scope}::{node.name}" if scope else node.name
            scopes.add(scope)
        elif isinstance(node, ast.Call) and (name := _called(node)) in MARKS:
            found.append(MarkCall(scope, name, node.lineno, _text(name, node), _arguments(node)))
        left += [(child, scope) for child in reversed(list(ast.iter_child_nodes(node)))]
    return Marks(tuple(found), frozenset(scopes))


def _called(call: ast.Call) -> str:
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _text(name: str, call: ast.Call) -> str:
    return _brief(ast.unparse(ast.Call(ast.Name(name, ast.Load()), call.args, call.keywords)))


def _arguments(call: ast.Call) -> tuple[tuple[str, Any], ...]:
    """Return names and values; positional arguments are named by number, ``**`` is unknown."""
    named = [(str(number), node) for number, node in enumerate(call.args)]
    named += [(keyword.arg or "**", keyword.value) for keyword in call.keywords]
    return tuple((name, _value(node)) for name, node in named)


def _value(node: ast.expr) -> Any:
    return node.value if isinstance(node, ast.Constant) else _UNKNOWN


def _is_count(value: Any) -> bool:
    return type(value) is int


MOST_FILES: Final = 20_000
"""The number of Python files that are read; larger changes are not reported in full."""
_PREFIX: Final = "graph_budget"


@dataclass(frozen=True, slots=True)
class Loosened:
    """Something that the gate sees less of. ``before`` is None if there was nothing."""

    what: str
    where: str
    after: str
    before: str | None = None

    def __str__(self) -> str:
        was = "" if self.before is None else f"   was {self.before}"
        return f"{self.where}   {self.after}{was}"


@dataclass(frozen=True, slots=True)
class Base:
    """The commit that a change began from; ``name`` is its name for readers."""

    commit: str
    name: str


class BaseError(CheckoutError):
    """Raised if there is no commit to compare with. The message says what to do."""


def base(root: Path, asked: str | None, environ: Mapping[str, str] = os.environ) -> Base | None:
    """Return where the change of this checkout began, or None if nothing says so.

    This is where ``HEAD`` branched off ``asked``, or else the target branch of the pull request, or
    else ``origin``'s default branch. Raises ``BaseError`` if ``asked`` or the branch of the pull
    request does not exist.
    """
    branch = environ.get("GITHUB_BASE_REF") or ""
    sha = environ.get("CI_MERGE_REQUEST_DIFF_BASE_SHA") or ""
    wanted = asked or (f"origin/{branch}" if branch else sha)
    try:
        return _merge_base(root, wanted or "origin/HEAD")
    except GitError as error:
        if not asked and branch and (found := _first_parent(root)) is not None:
            return Base(found, wanted)
        if wanted:
            raise BaseError(
                f"{wanted} is not here to compare with ({error}); "
                "fetch it (actions/checkout: fetch-depth: 0), or name another: --base REV"
            ) from None
        return None


def _merge_base(root: Path, revision: str) -> Base:
    found = git(root, "merge-base", "--end-of-options", "HEAD", revision)
    return Base(found.decode("ascii", "replace").strip(), revision)


def _first_parent(root: Path) -> str | None:
    """Return the target branch's commit if HEAD is GitHub's merge of a pull request, else None."""
    try:
        parents = git(root, "rev-parse", "HEAD^2", "HEAD^1").split()
    except GitError:
        return None
    return parents[1].decode("ascii", "replace")


def since(checkout: Checkout, commit: str) -> list[Loosened]:
    """Return everything that the gate sees less of than at ``commit``. Raises ``GitError``."""
    found = [*_marks_since(checkout.root, commit), *_keys_since(checkout.root, commit)]
    return [*found, *_entries_since(checkout, commit)]


def by_reports(before: TestReport, after: TestReport) -> Iterator[Loosened]:
    """Yield what ``since`` does, for one test in two runs: also what the source does not show."""
    if after.ungated is not None and before.ungated is None:
        yield Loosened("ungated", after.nodeid, after.ungated or "no reason given")
    old, new = before.cap, after.cap
    if old is not None and (new is None or _allows_more(old, new)):
        now_words = "no max_graphs any more" if new is None else _cap(new)
        yield Loosened("cap", after.nodeid, now_words, _cap(old))


def _allows_more(old: Cap, new: Cap) -> bool:
    pairs = [(old.graphs(layer), new.graphs(layer)) for layer in LAYERS]
    pairs += [
        pair for layer in LAYERS for pair in zip(old.runs(layer), new.runs(layer), strict=True)
    ]
    pairs += [(old.recompiles, new.recompiles), (old.breaks, new.breaks)]
    return any(was is not None and (most is None or most > was) for was, most in pairs)


def _cap(cap: Cap) -> str:
    """Return a cap as it is written in the source."""
    parts = [] if cap.every is None else [str(cap.every)]
    parts += [f"{layer}={count}" for layer, count in cap.layers.items()]
    names = ("recompiles", "breaks", "executions", "reads")
    rest = {name: getattr(cap, name) for name in names}
    parts += [f"{name}={count}" for name, count in rest.items() if count is not None]
    return f"max_graphs({', '.join(parts)})"


# marks


def _marks_since(root: Path, commit: str) -> Iterator[Loosened]:
    for path, before in _changed(root, commit, ".py"):
        after = _source(root, path) or ""
        if WORD.search(before) or WORD.search(after):
            yield from compare(path, read(before), read(after))


def compare(path: str, before: Marks, now: Marks) -> Iterator[Loosened]:
    """Yield what the marks of a file newly take out of the gate."""
    same = Counter((mark.scope, mark.text) for mark in before.found)
    same &= Counter((mark.scope, mark.text) for mark in now.found)
    gone: dict[tuple[str, str], list[MarkCall]] = {}
    for mark in _others(before, same):
        gone.setdefault((mark.scope, mark.name), []).append(mark)
    for mark in _others(now, same):
        was = gone.get((mark.scope, mark.name))
        yield from _loosened(_place(path, mark), mark, was.pop(0) if was else None)
    for mark in (mark for marks in gone.values() for mark in marks):
        if mark.scope in now.scopes:
            if mark.name == "max_graphs":
                yield Loosened("cap", _place(path, mark), "no max_graphs any more", mark.text)
            elif mark.unisolates():
                yield Loosened("isolation", _place(path, mark), "isolated again", mark.text)


def _others(marks: Marks, same: Counter[tuple[str, str]]) -> Iterator[MarkCall]:
    """Yield the marks that are not in both files."""
    left = Counter(same)
    for mark in marks.found:
        if left[mark.scope, mark.text]:
            left[mark.scope, mark.text] -= 1
        else:
            yield mark


def _place(path: str, mark: MarkCall) -> str:
    return f"{path}::{mark.scope}" if mark.scope else path


def _loosened(where: str, mark: MarkCall, was: MarkCall | None) -> Iterator[Loosened]:
    before = None if was is None else was.text
    if mark.ungates() and not (was is not None and was.ungates()):
        yield Loosened("ungated", where, mark.text, before)
    elif mark.unisolates() != (was is not None and was.unisolates()):
        yield Loosened("isolation", where, mark.text, before)
    elif was is not None and mark.allows_more(was):
        yield Loosened("cap", where, mark.text, before)


# keys of the configuration


def _keys_since(root: Path, commit: str) -> Iterator[Loosened]:
    for path, before in _changed(root, commit, *NAMES):
        if path not in NAMES:  # one of the names is the end of another
            continue
        old, new = _keys(root / path, before), _keys(root / path, _source(root, path) or "")
        for key in dict.fromkeys((*old, *new)):
            if old.get(key) != new.get(key):
                after = f"{key} = {new[key]}" if key in new else f"no {key} any more"
                yield Loosened("setting", path, _brief(after), _brief(old.get(key, "not set")))


def _keys(path: Path, text: str) -> dict[str, str]:
    try:
        found = keys_of(path, text) or {}
    except CheckoutError:
        return {}
    return {key: str(value).strip() for key, value in found.items() if key.startswith(_PREFIX)}


def _brief(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


# entries of the baselines


def _entries_since(checkout: Checkout, commit: str) -> Iterator[Loosened]:
    directory = checkout.directory
    if not directory.is_dir():
        return
    for path, before in _changed(directory, commit, SUFFIX):
        old = _ungated(directory, path, before)
        for nodeid, reason in _ungated(directory, path, _baseline(directory, path)).items():
            if nodeid not in old:
                yield Loosened("ungated", nodeid, f"ungated: {_brief(reason)}")


def _ungated(directory: Path, path: str, text: str) -> dict[str, str]:
    file = mirrored_file(directory, directory / path)
    try:
        found = document(text, directory / path, file) if text else None
    except BaselineError:
        return {}
    if found is None:
        return {}
    return {entry.nodeid: entry.ungated for entry in found.entries() if entry.ungated is not None}


def _baseline(directory: Path, path: str) -> str:
    try:
        return load_text(inside(directory, directory / path)) or ""
    except BaselineError:
        return ""


# files


def _changed(directory: Path, commit: str, *endings: str) -> Iterator[tuple[str, str]]:
    """Yield the files below that changed since ``commit``, each with its text at that commit."""
    raw = ("diff", "--raw", "-z", "-M", "--no-abbrev", "--no-ext-diff", "--relative")
    tokens = iter(names(directory, *raw, "--end-of-options", commit, "--", "."))
    found: dict[str, str | None] = {}
    for token in tokens:
        change = raw_change(token, tokens)
        if change is not None and change.path.endswith(endings):
            found[change.path] = change.old
    for path in names(directory, "ls-files", "--others", "--exclude-standard", "-z", "--", "."):
        if path.endswith(endings):
            found[path] = None
    if len(found) > MOST_FILES:
        raise GitError(f"{directory}: more than {MOST_FILES:,} files changed")
    texts = blobs(directory, [blob for blob in found.values() if blob])
    for path, blob in found.items():
        yield path, (texts.get(blob or "") or b"").decode("utf-8", "replace")


def _source(root: Path, path: str) -> str | None:
    """Return a file of the checkout as it is, or None if it is missing or outside."""
    file = root / path
    try:
        if file.is_symlink() or not file.is_file() or file.stat().st_size > LARGEST:
            return None
        if not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(root)):
            return None
        return file.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return None


class CheckoutMarks:
    """Checks with the source of a checkout whether a test in a report may be ungated at all."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._files: dict[str, bool] = {}

    def may_ungate(self, nodeid: str) -> bool:
        """Return whether a mark of the checkout can take this test out of the gate.

        This is also true if it cannot be determined because its file is missing. A mark is in the
        test's own file, or in one that is not a test file (a ``conftest.py``, a helper).
        """
        file = nodeid.partition("::")[0]
        if _source(self.root, file) is None:
            return True
        return self._ungates(file) or self._helpers_ungate

    def _ungates(self, file: str) -> bool:
        if file not in self._files:
            self._files[file] = any(
                mark.ungates() for mark in read(_source(self.root, file) or "").found
            )
        return self._files[file]

    @cached_property
    def _helpers_ungate(self) -> bool:
        for number, file in enumerate(self._candidates()):
            if number >= MOST_FILES:
                return True
            name = PurePosixPath(file).name
            if not (name.startswith("test_") or name.endswith("_test.py")) and self._ungates(file):
                return True
        return False

    def _candidates(self) -> Iterable[str]:
        """Return the Python files that may contain a mark."""
        listed = ("ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", "*.py")
        try:
            return names(self.root, *listed)
        except GitError:
            return self._walk()

    def _walk(self) -> Iterator[str]:
        for parent, folders, files in os.walk(self.root):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in files:
                if name.endswith(".py"):
                    yield os.path.relpath(os.path.join(parent, name), self.root)
