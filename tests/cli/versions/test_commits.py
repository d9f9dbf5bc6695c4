"""Worktrees of commits, in a repository that borrows the objects of the user's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pytest_graphbreak.cli.elsewhere import ElsewhereError
from pytest_graphbreak.cli.versions.by_commit import Commits
from pytest_graphbreak.cli.versions.commits import UserCheckout, Worktrees
from pytest_graphbreak.config.git import GitError
from pytest_graphbreak.layers.children.runner import Runner
from tests.cli.versions.history import Past

MODULES = """\
[submodule "models"]
\tpath = third party/models
\turl = ../nowhere
[submodule "../../../evil"]
\tpath = evil
\turl = ../nowhere
[submodule "never fetched"]
\tpath = never
\turl = ../nowhere
"""


def with_submodule(past: Past, inner: Past) -> tuple[str, str]:
    """Two commits with a submodule, at its first and at its second commit."""
    hashes = inner.made()
    links = {"evil": hashes["one"], "never": "1" * 40}
    for name in ("one", "two"):
        files = {".gitmodules": MODULES, "a.txt": name}
        past.commit(name, files, links={**links, "third party/models": hashes[name]})
    made = past.made()
    home = past.path / ".git" / "modules"
    home.mkdir()
    subprocess.run(["git", "clone", "-q", "--bare", inner.path, home / "models"], check=True)
    return made["one"], made["two"]


def test_submodules_are_those_of_the_commit(tmp_path: Path, work: Runner) -> None:
    past, inner = Past(tmp_path / "my checkout"), Past(tmp_path / "inner")
    for name in ("one", "two"):
        inner.commit(name, {"model.py": name})
    one, two = with_submodule(past, inner)
    before = past.state()
    worktrees = Worktrees(work, UserCheckout(past.path))
    for commit, text in ((two, "two"), (one, "one")):
        with worktrees.tree(commit) as tree:
            assert (tree / "a.txt").read_text() == text
            assert (tree / "third party/models/model.py").read_text() == text
            assert not list((tree / "evil").iterdir())
            assert not list((tree / "never").iterdir())
        assert not tree.exists()
    assert worktrees.missing == {"evil", "never"}
    assert past.state() == before
    assert inner.git("worktree", "list").count("\n") == 1


def test_a_shallow_clone_and_a_linked_worktree_are_searched(tmp_path: Path, work: Runner) -> None:
    past = Past(tmp_path / "far")
    for number in "123456":
        past.commit(number, {"number": number, "sub/x": ""})
    past.made()
    clone = Past(tmp_path / "clone")
    source = f"file://{past.path}"
    subprocess.run(
        ["git", "clone", "-q", "--depth=4", "--branch=c6", source, clone.path], check=True
    )
    linked = tmp_path / "linked"
    clone.git("worktree", "add", "-q", "--detach", str(linked))
    before = clone.state()
    checkout = UserCheckout(linked / "sub")
    assert checkout.below == Path("sub")
    good, bad = checkout.commit("HEAD~3"), checkout.commit("HEAD")
    worktrees = Worktrees(work, checkout)
    left = checkout.between([good.hash], bad.hash)
    assert [checkout.about(one).subject for one in left] == ["4", "5"]
    for commit, text in zip(left, ("4", "5"), strict=True):
        with worktrees.tree(commit) as tree:
            assert (tree / "number").read_text() == text
    assert clone.state() == before


def test_those_in_the_middle_are_tried_first(tmp_path: Path) -> None:
    past = Past(tmp_path / "checkout")
    for number in range(9):
        past.commit(str(number), {"a": str(number)})
    past.commit("side", {"b": ""}, parents=("3",))
    past.commit("merge", {}, parents=("8", "side"))
    hashes = past.made()
    names = {hash: name for name, hash in hashes.items()}
    checkout = UserCheckout(past.path)
    left = checkout.between([hashes["0"]], hashes["8"], halving=True)
    assert {names[one] for one in left} == set("1234567")
    assert names[left[0]] in "45"
    both = checkout.between([hashes["2"], hashes["7"]], hashes["merge"])
    assert {names[one] for one in both} == {"8", "side"}
    first = checkout.between([hashes["2"]], hashes["merge"], first_parent=True)
    assert [names[one] for one in first] == list("345678")
    assert checkout.bases(hashes["side"], hashes["8"]) == [hashes["3"]]


def test_equally_good_commits_are_tried_in_the_order_of_the_history(tmp_path: Path) -> None:
    """Git alone orders them by their hash (bisect.c, best_bisection_sorted)."""
    orders = set()
    for salt in range(5):
        past = Past(tmp_path / f"checkout{salt}")
        for number in range(8):
            past.commit(str(number), {"a": f"{number} {salt}"})
        hashes = past.made()
        names = {hash: name for name, hash in hashes.items()}
        left = UserCheckout(past.path).between([hashes["0"]], hashes["7"], halving=True)
        orders.add("".join(names[one] for one in left))
    assert orders == {"342516"}


def test_a_merge_base_that_has_moved_is_reported(tmp_path: Path, work: Runner) -> None:
    past = Past(tmp_path / "checkout")
    past.commit("base", {"a": "1"})
    past.commit("side", {"a": "2"}, parents=("base",))
    past.commit("main", {"a": "3"}, parents=("base",))
    hashes = past.made()
    base, side, main = (hashes[name] for name in ("base", "side", "main"))
    checkout = UserCheckout(past.path)
    ends = checkout.about(side), checkout.about(main)
    commits = Commits(work, checkout, "a", [], *ends)
    assert commits.between([side], main, []) == [base]
    assert commits.between([side, base], main, []) == []
    with pytest.raises(ElsewhereError, match="merge base"):
        commits.between([side], base, [])


def test_hooks_and_filters_of_the_repository_are_not_run(tmp_path: Path, work: Runner) -> None:
    past = Past(tmp_path / "checkout")
    past.commit("one", {"a.txt": "text", ".gitattributes": "*.txt filter=evil\n"})
    [commit] = past.made().values()
    hook = past.path / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hook\n")
    hook.chmod(0o755)
    past.git("config", "filter.evil.smudge", f"touch {tmp_path}/filter; cat")
    past.git("config", "core.fsmonitor", f"touch {tmp_path}/monitor")
    checkout = UserCheckout(past.path)
    checkout.has_changes()
    with Worktrees(work, checkout).tree(commit) as tree:
        assert (tree / "a.txt").read_text() == "text"
    assert {path.name for path in tmp_path.iterdir()} == {"checkout", "tmp"}


def test_names_are_no_options_and_no_patterns(tmp_path: Path, work: Runner) -> None:
    past = Past(tmp_path / "checkout")
    strange = "-n [a]*?.py"
    past.commit("one", {strange: "1\n" * 9, "-n aa.py": "1\n"})
    past.commit("\x1b[31mtwo", {strange: "1\n" * 9 + "2\n", "-n aa.py": "2\n"})
    one, two = past.made().values()
    checkout = UserCheckout(past.path)
    assert checkout.has(two, strange)
    assert not checkout.has(two, "-n *")
    assert "-n aa.py" not in checkout.difference(one, two, strange)
    assert "\n+2" in checkout.difference(one, two, strange)
    for revision in ("--all", "", "HEAD HEAD", "HEAD:a", "HEAD^{tree}", "a\nb", "\x1b"):
        with pytest.raises(GitError, match="there is no commit"):
            checkout.commit(revision)
    worktrees = Worktrees(work, checkout)
    with pytest.raises(GitError, match="1111111111: fatal: "), worktrees.tree("1" * 40):
        pytest.fail("there is no such commit")
