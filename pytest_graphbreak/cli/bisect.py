"""``graphbreak bisect``: finds the commit, or the release of a package, that changed a test."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pytest_graphbreak.cli.elsewhere import (
    ElsewhereError,
    add_reports,
    add_timeout,
    directory,
    keep,
)
from pytest_graphbreak.cli.messages import UNUSABLE, Progress, say
from pytest_graphbreak.cli.versions import answer
from pytest_graphbreak.cli.versions.bisecting import COUNTS, MeasuredEnd, search
from pytest_graphbreak.cli.versions.by_commit import Commits
from pytest_graphbreak.cli.versions.by_release import Releases, between
from pytest_graphbreak.cli.versions.commits import UserCheckout
from pytest_graphbreak.layers.children.runner import Runner
from pytest_graphbreak.text.output import labelled

FOUND: Final = 0
UNSURE: Final = 1
"""The answer is one of several, since those between could not be tried."""

_COMMITS_ONLY: Final = ("setup", "path", "first_parent")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = (
        "graphbreak bisect NODEID --good REV [--bad REV] [options] [-- pytest arguments]\n"
        "       graphbreak bisect NODEID --package P --good V --bad V [options] "
        "[-- pytest arguments]"
    )
    parser.add_argument("nodeid", metavar="NODEID", help="one test: tests/test_a.py::test_b")
    parser.add_argument(
        "--good",
        required=True,
        metavar="REV|V",
        help="a commit or a release where the test is right",
    )
    parser.add_argument(
        "--bad", metavar="REV|V", help="one where it is not (for commits: HEAD by default)"
    )
    parser.add_argument(
        "--package", metavar="P", help="search the releases of this package, not the commits"
    )
    parser.add_argument(
        "--setup",
        default="",
        metavar="CMD",
        help="a command that prepares each worktree, such as a build in place",
    )
    parser.add_argument(
        "--path",
        action="append",
        default=[],
        metavar="DIR",
        help="import from this directory of each worktree first; may be repeated",
    )
    parser.add_argument(
        "--first-parent", action="store_true", help="only the commits of the branch itself"
    )
    add_reports(parser)
    add_timeout(parser, 3600, "one installation or one run")


def run(args: argparse.Namespace) -> int:
    """Run the search.

    Returns 0 if one was found, 1 if it is one of several, 2 if none was found.
    """
    with directory(args.timeout) as work, Progress() as progress:
        return _bisect(args, work, progress)


def _bisect(args: argparse.Namespace, work: Runner, progress: Progress) -> int:
    among = _releases(args, work) if args.package else _commits(args, work)
    done = 0

    def begin(name: str, steps: int) -> None:
        nonlocal done
        done += 1
        left = f", about {steps} more" if steps else ""
        words = f"{among.label(name)}{left}"
        progress.step(done - 1, done + steps, words, among.status)

    def show_step(word: str, name: str, side: MeasuredEnd | None, why: str) -> None:
        progress.clear()
        say(answer.step(among, word, name, side, why))

    def differs(what: str) -> None:
        if what != COUNTS:
            words = f"the counts are equal at both ends; what differs are {what}"
            say(labelled("note", words, width=7))

    found = search(among, begin, show_step, differs)
    progress.clear()
    for line in answer.lines(found, among):
        say(line)
    if isinstance(among, Commits) and among.missing:
        missing = ", ".join(sorted(among.missing)[:5])
        say(labelled("note", f"submodules that are not in your checkout were empty: {missing}"))
    if not keep(args.reports, found.before.path, found.after.path):
        return UNUSABLE
    return FOUND if len(found.answers) == 1 else UNSURE


def _commits(args: argparse.Namespace, work: Runner) -> Commits:
    checkout = UserCheckout(Path.cwd())
    good, bad = checkout.commit(args.good), checkout.commit(args.bad or "HEAD")
    if good.hash == bad.hash:
        raise ElsewhereError(f"--good and --bad are the same commit, {good.hash[:10]}")
    bases = checkout.bases(good.hash, bad.hash)
    if not bases:
        raise ElsewhereError("--good and --bad have no commit in common")
    if bad.hash in bases:
        raise ElsewhereError(
            f"--good {args.good} comes after --bad: turn them round; what is looked for is the "
            "first commit that is no longer like --good"
        )
    for line in _notes(args, checkout, good.hash, bases[0]):
        say(line)
    return Commits(
        work,
        checkout,
        args.nodeid,
        args.rest,
        good,
        bad,
        setup=args.setup,
        more=args.path,
        first_parent=args.first_parent,
    )


def _notes(args: argparse.Namespace, checkout: UserCheckout, good: str, base: str) -> Iterator[str]:
    if args.bad is None and checkout.has_changes():
        yield "note       what is not committed is in no commit, and is left out"
    if base != good:
        yield f"note       --good is on another branch; both come from {base[:10]}"


def _releases(args: argparse.Namespace, work: Runner) -> Releases:
    for name in _COMMITS_ONLY:
        if getattr(args, name):
            option = "--" + name.replace("_", "-")
            raise ElsewhereError(f"{option} is for commits, and --package searches releases")
    if args.bad is None:
        raise ElsewhereError("--package needs --bad as well: the release where the test has moved")
    versions = between(work, args.package, args.good, args.bad)
    return Releases(work, args.package, versions, args.nodeid, args.rest)
