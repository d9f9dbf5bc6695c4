"""The commits that ``bisect`` searches; the test runs in a worktree of each."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from pytest_graphbreak.cli.elsewhere import WORDS, ElsewhereError
from pytest_graphbreak.cli.versions.commits import CommitInfo, UserCheckout, Worktrees, paths
from pytest_graphbreak.cli.versions.environment import SuiteRun, Tests, present
from pytest_graphbreak.cli.versions.inside import CHECKOUT
from pytest_graphbreak.config.git import GitError
from pytest_graphbreak.layers.children.runner import Runner
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.report import TestReport


class Commits:
    """Commits as ``bisecting.Bisectable``, with their hashes as names.

    ``nodeid`` names the test as in the user's checkout; if its file had another name in a commit,
    that file is run. ``setup`` is a command of the user's that prepares a worktree, ``more`` are
    directories to import from, relative to the root of the repository.
    """

    def __init__(
        self,
        runner: Runner,
        checkout: UserCheckout,
        nodeid: str,
        arguments: Sequence[str],
        good: CommitInfo,
        bad: CommitInfo,
        *,
        setup: str = "",
        more: Sequence[str] = (),
        first_parent: bool = False,
    ) -> None:
        self.good, self.bad = good.hash, bad.hash
        self.checkout = checkout
        self.about = {good.hash: good, bad.hash: bad}
        self._runner = runner
        self._setup = setup
        self._first_parent = first_parent
        self.names = checkout.between([good.hash], bad.hash, first_parent=first_parent)
        self._bases = [one for one in checkout.bases(good.hash, bad.hash) if one != good.hash]
        self._worktrees = Worktrees(runner, checkout)
        self._tests = Tests(runner, arguments)
        self._file, self._mark, self._rest = nodeid.partition("::")
        self._path = os.path.normpath(checkout.below / self._file)
        self._reference = self._where_it_is()
        self._imports = list(dict.fromkeys([*map(Path, more), *paths(checkout)]))
        self._runs = 0

    @property
    def missing(self) -> set[str]:
        """The submodules that are missing in the checkout."""
        return self._worktrees.missing

    def _where_it_is(self) -> str:
        """Return a commit in which the test file has the name that was typed."""
        if self._path.startswith("..") or os.path.isabs(self._path):
            raise ElsewhereError(f"{self._file}: not in the repository at {self.checkout.top}")
        for hash in (self.bad, self.checkout.commit("HEAD").hash, self.good):
            if self.checkout.has(hash, self._path):
                return hash
        raise ElsewhereError(
            f"{self._file}: this file is in neither --bad nor --good; is it committed?"
        )

    def between(self, good: Sequence[str], bad: str, skipped: Collection[str]) -> list[str]:
        """See ``Bisectable``. If both ends have branched, the merge bases are tried first."""
        if bad in self._bases:
            raise ElsewhereError(
                f"The merge base {bad} is bad: what moved the test was undone between it and --good"
            )
        if pending := [one for one in self._bases if one not in {*good, *skipped}]:
            return pending
        return self.checkout.between(good, bad, first_parent=self._first_parent, halving=True)

    def before(self, name: str) -> str:
        parents = self.commit(name).parents
        return parents[0] if parents else self.good

    def commit(self, name: str) -> CommitInfo:
        if name not in self.about:
            self.about[name] = self.checkout.about(name)
        return self.about[name]

    def title(self, name: str) -> str:
        one = self.commit(name)
        return f"{one.hash[:10]}  {one.date}  {one.subject}"

    def label(self, name: str) -> str:
        return name[:10]

    def difference(self, before: str, after: str, file: str) -> str:
        for path in dict.fromkeys((os.path.normpath(self.checkout.below / file), file)):
            if not path.startswith((os.pardir, os.sep)):
                with contextlib.suppress(GitError):
                    if found := self.checkout.difference(before, after, path):
                        return found
        return ""

    def changed(self, before: str, after: str) -> list[str]:
        return self.checkout.changed(before, after)

    def status(self) -> str:
        return self._tests.status()

    def measure(self, name: str) -> SuiteRun:
        self._runs += 1
        try:
            with self._worktrees.tree(name) as tree:
                return self._run(name, tree)
        except GitError as error:
            return SuiteRun(why=f"it cannot be checked out: {error}")

    def _run(self, name: str, tree: Path) -> SuiteRun:
        file = self._named(name)
        if not (tree / file).is_file():
            return SuiteRun(why=f"there is no {file}")
        here = tree / self.checkout.below
        if not here.is_dir():
            here = tree
        if self._setup:
            done = self._runner.run(["sh", "-c", self._setup], cwd=here)
            if done.code != 0:
                last = " ".join(done.last(1))
                return SuiteRun(
                    why=f"--setup ended with {done.code}: {last}", words=done.last(WORDS)
                )
        nodeid = f"{os.path.relpath(tree / file, here)}{self._mark}{self._rest}"
        variables = _variables(self.checkout, tree, self._imports)
        return self._tests.run(
            present(), f"run{self._runs}", cwd=here, first=[nodeid], variables=variables
        )

    def _named(self, name: str) -> str:
        """Return the name of the test file in a commit."""
        if self.checkout.has(name, self._path):
            return self._path
        with contextlib.suppress(GitError):
            return self.checkout.renamed(name, self._reference).get(self._path, self._path)
        return self._path


def _variables(checkout: UserCheckout, tree: Path, imports: Iterable[Path]) -> dict[str, str]:
    """Return the variables of a run in a worktree, whose ``imports`` precede what is installed."""
    path = [*(str(tree / one) for one in imports), os.environ.get("PYTHONPATH")]
    joined = os.pathsep.join(filter(None, path))
    return {"PYTHONPATH": joined, CHECKOUT: os.path.realpath(checkout.top)}


def found(revision: str, folder: Path) -> tuple[UserCheckout, CommitInfo]:
    """Return the checkout of the current directory and a commit of it.

    Raises ``GitError`` for a revision or a directory that git does not know, and if ``folder``,
    where files for that commit will be, is not in the checkout.
    """
    checkout = UserCheckout(Path.cwd())
    commit = checkout.commit(revision)
    if not Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(checkout.top)):
        raise GitError(f"{folder} is not in the checkout {checkout.top}: give an --out that is")
    return checkout, commit


def outcomes(
    runner: Runner,
    revision: str,
    files: Mapping[Path, Sequence[Path]],
    breaks: Callable[[Path, Record], bool],
) -> dict[Path, str]:
    """Run test files on a worktree of ``revision``, and return the outcome of each as text.

    ``files`` are the tests, each with the files that it reads, below the checkout that contains the
    current directory, and in one directory. ``breaks`` says whether a record has the break of a
    test. Raises ``GitError`` as ``found`` does, and ``ServerError``.
    """
    checkout, commit = found(revision, next(iter(files)).parent)
    top = Path(os.path.realpath(checkout.top))
    places = {file: Path(os.path.realpath(file)) for file in files}
    with Worktrees(runner, checkout).tree(commit.hash) as tree:
        for file, needed in files.items():
            for one in (file, *needed):
                copy = tree / Path(os.path.realpath(one)).relative_to(top)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(one, copy)
        here = tree / checkout.below
        variables = _variables(checkout, tree, paths(checkout))
        names = [os.path.relpath(tree / place.relative_to(top), here) for place in places.values()]
        ran = Tests(runner, ()).run(
            present(), "at_commit", cwd=here, first=names, variables=variables
        )
    said = f"on {revision} ({commit.hash[:10]})"
    if ran.report is None:
        return dict.fromkeys(files, f"{said} it does not run: {ran.why}")
    tests = {test.nodeid.partition("::")[0]: test for test in ran.report.tests}
    return {
        file: f"{said} {_words(tests.get(Path(name).as_posix()), partial(breaks, file))}"
        for file, name in zip(files, names, strict=True)
    }


def _words(test: TestReport | None, breaks: Callable[[Record], bool]) -> str:
    if test is None:
        return "it was not collected"
    if test.outcome == "passed":
        return "it passes: the break came since then"
    if test.failed_by == "gate" and breaks(test.record):
        return "it fails, too: the break was there before"
    if test.failed_by == "gate":
        return "it fails, but for other breaks: this line does not break there"
    return f"it does not run: {test.outcome}"
