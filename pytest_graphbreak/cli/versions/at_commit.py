"""New tests on the code of an earlier commit: does what they hold fail there, too?"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_graphbreak.cli.versions.commits import UserCheckout, Worktrees, paths
from pytest_graphbreak.cli.versions.environment import present
from pytest_graphbreak.cli.versions.inside import CHECKOUT
from pytest_graphbreak.cli.versions.running import Tests, python_path
from pytest_graphbreak.layers.children.runner import Runner
from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.runs.git import GitError


def outcomes(
    runner: Runner, revision: str, files: Mapping[Path, Sequence[Path]]
) -> dict[Path, str]:
    """Run test files on a worktree of ``revision``: what came of each, in words for a person.

    ``files`` are the tests, each with the files that it reads, below the checkout that contains
    the current directory. Raises ``GitError`` for a revision or a directory that git does not
    know, ``ServerError``.
    """
    checkout = UserCheckout(Path.cwd())
    commit = checkout.commit(revision)
    top = Path(os.path.realpath(checkout.top))
    places = {file: Path(os.path.realpath(file)) for file in files}
    for file, place in places.items():
        if not place.is_relative_to(top):
            raise GitError(f"{file} is not in the checkout {top}: give an --out that is")
    with Worktrees(runner, checkout).tree(commit.hash) as tree:
        for file, needed in files.items():
            for one in (file, *needed):
                copy = tree / Path(os.path.realpath(one)).relative_to(top)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(one, copy)
        here = tree / checkout.below
        variables = python_path(*(tree / one for one in paths(checkout)))
        variables[CHECKOUT] = str(top)
        names = [os.path.relpath(tree / place.relative_to(top), here) for place in places.values()]
        ran = Tests(runner, ()).run(
            present(), "at_commit", cwd=here, first=names, variables=variables
        )
    said = f"on {revision} ({commit.hash[:10]})"
    if ran.report is None:
        return dict.fromkeys(files, f"{said} it does not run: {ran.why}")
    tests = {test.nodeid.partition("::")[0]: test for test in ran.report.tests}
    return {
        file: f"{said} {_words(tests.get(Path(name).as_posix()))}"
        for file, name in zip(files, names, strict=True)
    }


def _words(test: TestReport | None) -> str:
    if test is None:
        return "it was not collected"
    if test.outcome == "passed":
        return "it passes: the break came since then"
    if test.failed_by == "gate":
        return "it fails, too: the break was there before"
    return f"it does not run: {test.outcome}"
