"""The commits of the user's repository, and worktrees of them.

Worktrees are made in a repository of ours that borrows the objects of the user's: that one is read
and never written, so that its worktrees, its index and a bisection of the user's own stay as they
are, and nothing is left in it however this ends.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pytest_graphbreak.cli.versions.inside import installed_from
from pytest_graphbreak.config.git import GitError, git, names
from pytest_graphbreak.layers.children.runner import CommandResult, Runner

_GITLINK: Final = re.compile(r"160000 commit ([0-9a-f]{40,64})\t")
_DISTANCE: Final = re.compile(r"^([0-9a-f]{40,64}) \(.*?\bdist=(\d+)\)$", re.M)
"""A line of ``git rev-list --bisect-all``, which may name branches and tags before the distance."""
_DEEPEST: Final = 8
"""The depth up to which submodules of submodules are checked out."""


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """The data of a commit that is reported."""

    hash: str
    date: str
    author: str
    subject: str
    parents: tuple[str, ...]


class UserCheckout:
    """The user's checkout, read only. ``top`` is its root, ``below`` the current directory in it.

    Raises ``GitError`` if ``start`` is not in a repository.
    """

    def __init__(self, start: Path) -> None:
        self.top = Path(_line(start, "rev-parse", "--show-toplevel"))
        self.below = Path(os.path.relpath(os.path.realpath(start), os.path.realpath(self.top)))
        self.objects = Path(
            _line(start, "rev-parse", "--path-format=absolute", "--git-path", "objects")
        )
        self.common = Path(_line(start, "rev-parse", "--path-format=absolute", "--git-common-dir"))
        self.format = _line(start, "rev-parse", "--show-object-format")

    def commit(self, revision: str) -> CommitInfo:
        """Return the commit that the user means. Raises ``GitError``."""
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        try:
            found = _line(self.top, *words)
        except GitError:
            raise GitError(f"{self.top}: there is no commit {revision}") from None
        return self.about(found)

    def about(self, hash: str) -> CommitInfo:
        form = "--format=%H%x00%P%x00%cs%x00%an%x00%s"
        output = git(self.top, "show", "--no-patch", "--no-show-signature", form, hash, "--")
        full, parents, date, author, subject = (
            output.decode("utf-8", "replace").rstrip("\n").split("\0", 4)
        )
        return CommitInfo(full, date, author, subject, tuple(parents.split()))

    def bases(self, one: str, other: str) -> list[str]:
        """Return the merge bases of two commits; empty if their histories are unrelated."""
        with contextlib.suppress(GitError):
            return _line(self.top, "merge-base", "--all", one, other).split()
        return []

    def between(
        self, good: Iterable[str], bad: str, *, first_parent: bool = False, halving: bool = False
    ) -> list[str]:
        """Return the commits of ``bad``, without itself, that no good one has, oldest first.

        With ``halving``, those that leave the fewest to try come first, the oldest of equal ones.
        """
        flags = ["--first-parent"] if first_parent else []
        range_ = [*flags, bad, *(f"^{one}" for one in good), "--"]
        listed = _line(self.top, "rev-list", "--topo-order", *range_).splitlines()
        found = [one for one in reversed(listed) if one != bad]
        if halving:  # git orders equal ones by their hash (bisect.c, best_bisection_sorted)
            listing = _line(self.top, "rev-list", "--bisect-all", *range_)
            distances = dict(_DISTANCE.findall(listing))
            found.sort(key=lambda one: -int(distances[one]))
        return found

    def has_changes(self) -> bool:
        """Return whether the checkout has uncommitted changes."""
        return bool(git(self.top, "status", "--porcelain", "--untracked-files=no"))

    def renamed(self, old: str, new: str) -> dict[str, str]:
        """Return the names in ``old`` of files that have another name in ``new``."""
        fields = names(
            self.top, "diff-tree", "-r", "-z", "-M", "--diff-filter=R", "--name-status", old, new
        )
        return {fields[n + 2]: fields[n + 1] for n in range(0, len(fields) - 2, 3)}

    def has(self, hash: str, path: str) -> bool:
        """Return whether a commit has this file or directory."""
        return bool(names(self.top, "ls-tree", "-z", "--name-only", hash, "--", path))

    def difference(self, old: str, new: str, path: str) -> str:
        """Return the diff of one file, by its name in ``new``; empty if it is unchanged."""
        both = dict.fromkeys((self.renamed(old, new).get(path, path), path))
        literal = [f":(top,literal){one}" for one in both]
        return git(self.top, "diff", "-M", *_PLAIN, old, new, "--", *literal).decode(
            "utf-8", "replace"
        )

    def changed(self, old: str, new: str) -> list[str]:
        """Return the files that differ."""
        return names(self.top, "diff-tree", "-r", "-z", "-M", "--name-only", old, new)


_PLAIN: Final = (
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "-U3",
    "--src-prefix=a/",
    "--dst-prefix=b/",
)


def _line(directory: Path, *args: str) -> str:
    return git(directory, *args).decode("utf-8", "surrogateescape").rstrip("\n")


class Worktrees:
    """Worktrees of the user's commits, in a repository of ours that borrows its objects."""

    def __init__(self, runner: Runner, checkout: UserCheckout) -> None:
        self._runner = runner
        self._checkout = checkout
        self._repository = runner.directory / "repository"
        self._trees = 0
        self._borrow(checkout.objects, checkout.common, self._repository)
        self.missing: set[str] = set()
        """Submodules that the user's checkout lacks, and that stay empty."""

    def _borrow(self, objects: Path, common: Path, to: Path) -> None:
        """Make an empty repository that reads the objects of another one.

        ``git clone --shared`` is not used: it shares no objects of a shallow clone (git 2.39), and
        copies all references.
        """
        done = self._runner.run(
            ["git", "init", "--quiet", "--bare", "--template=",
             f"--object-format={self._checkout.format}", str(to)]
        )  # fmt: skip
        if done.code:
            raise GitError(f"git init: {' '.join(done.last(1)) or 'failed'}")
        (to / "objects" / "info").mkdir(exist_ok=True)
        (to / "objects" / "info" / "alternates").write_bytes(os.fsencode(objects) + b"\n")
        with contextlib.suppress(OSError):
            shutil.copyfile(common / "shallow", to / "shallow")

    @contextlib.contextmanager
    def tree(self, commit: str) -> Iterator[Path]:
        """Yield a worktree of a commit, with its submodules; removed afterwards.

        Raises ``GitError``.
        """
        self._trees += 1
        path = self._runner.directory / f"tree{self._trees}"
        self._check_out(self._repository, commit, path)
        try:
            self._fill(self._checkout.common, commit, path, self._repository)
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def _check_out(self, repository: Path, commit: str, path: Path) -> None:
        done = self._runner.run(
            ["git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null",
             f"--git-dir={repository}", "worktree", "add", "--quiet", "--force", "--detach",
             str(path), commit]
        )  # fmt: skip
        if done.code != 0:
            raise GitError(f"{commit[:10]}: {_words(done)}")

    def _fill(
        self, common: Path, commit: str, path: Path, repository: Path, depth: int = 0
    ) -> None:
        """Check the submodules out into a worktree, as far as the user's checkout has them."""
        if depth == _DEEPEST or not (path / ".gitmodules").is_file():
            return
        for entry in names_of_gitlinks(repository, commit):
            hash, where = entry
            home = _module(common, repository, commit, where)
            inner = path / where
            if home is None or not Path(os.path.realpath(inner)).is_relative_to(
                os.path.realpath(path)
            ):
                self.missing.add(where)
                continue
            own = self._runner.directory / "modules" / hash
            with contextlib.suppress(GitError):
                if not own.exists():
                    own.parent.mkdir(exist_ok=True)
                    self._borrow(home / "objects", home, own)
                self._check_out(own, hash, inner)
                self._fill(home, hash, inner, own, depth + 1)
                continue
            self.missing.add(where)


def names_of_gitlinks(repository: Path, commit: str) -> Iterator[tuple[str, str]]:
    """Yield the submodules of a commit: their commit and their path."""
    listed = git(repository, f"--git-dir={repository}", "ls-tree", "-r", "-z", commit)
    for entry in listed.decode("utf-8", "surrogateescape").split("\0"):
        if found := _GITLINK.match(entry):
            yield found[1], entry[found.end() :]


def _module(common: Path, repository: Path, commit: str, where: str) -> Path | None:
    """Return where the user's checkout keeps the objects of a submodule, or None.

    This is below ``modules``, by the name that ``.gitmodules`` of this commit gives it.
    """
    found = git(
        repository, f"--git-dir={repository}", "config", "-z", "--blob", f"{commit}:.gitmodules",
        "--get-regexp", r"^submodule\..*\.path$",
    )  # fmt: skip
    for entry in found.decode("utf-8", "surrogateescape").split("\0"):
        key, _, path = entry.partition("\n")
        name = key.removeprefix("submodule.").removesuffix(".path")
        modules = common / "modules"
        home = modules / name
        inside = Path(os.path.realpath(home)).is_relative_to(os.path.realpath(modules))
        if path == where and inside and (home / "objects").is_dir():
            return home
    return None


def _words(done: CommandResult) -> str:
    return " ".join(line.strip() for line in done.last(3)) or "git failed"


def paths(checkout: UserCheckout) -> list[Path]:
    """Return the directories of the checkout from which this Python imports, relative to its root.

    They are put first for a worktree, since an editable install points to the checkout.
    """
    top = Path(os.path.realpath(checkout.top))
    found = [Path(os.path.realpath(entry)) for entry in sys.path if entry]
    for name in sorted(installed_from(top)):
        with contextlib.suppress(ImportError, ValueError, AttributeError):
            spec = importlib.util.find_spec(name)
            homes = list(spec.submodule_search_locations or ()) if spec is not None else []
            found += [Path(os.path.realpath(home)).parent for home in homes]
            if spec is not None and not homes and spec.origin:
                found.append(Path(os.path.realpath(spec.origin)).parent)
    inside = [path.relative_to(top) for path in found if _is_source(path, top)]
    if (top / "src").is_dir():
        inside.append(Path("src"))
    return list(dict.fromkeys(inside))


def _is_source(path: Path, top: Path) -> bool:
    packages = {"site-packages", "dist-packages"} & set(path.parts)
    own = path.is_relative_to(os.path.realpath(sys.prefix))
    return path.is_relative_to(top) and not packages and not own
