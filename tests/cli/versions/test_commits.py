"""Worktrees of commits, in a repository that borrows the objects of the user's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pytest_graphbreak.cli.versions.commits import Bisection, UserCheckout
from pytest_graphbreak.cli.versions.runner import Runner
from pytest_graphbreak.runs.git import GitError
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
    bisection = Bisection(work, UserCheckout(past.path))
    for commit, text in ((two, "two"), (one, "one")):
        with bisection.tree(commit) as tree:
            assert (tree / "a.txt").read_text() == text
            assert (tree / "third party/models/model.py").read_text() == text
            assert not list((tree / "evil").iterdir())
            assert not list((tree / "never").iterdir())
        assert not tree.exists()
    assert bisection.missing == {"evil", "never"}
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
    bisection = Bisection(work, checkout)
    bisection.start(good.hash, bad.hash, first_parent=False)
    tried = []
    while (commit := bisection.next) is not None:
        with bisection.tree(commit) as tree:
            tried.append((tree / "number").read_text())
            assert not bisection.say("bad" if tried[-1] >= "5" else "good", commit)
    assert [checkout.about(one).subject for one in bisection.answers] == ["5"]
    assert 1 <= len(tried) <= 2
    assert clone.state() == before


def test_a_merge_base_that_has_moved_is_told(tmp_path: Path, work: Runner) -> None:
    past = Past(tmp_path / "checkout")
    past.commit("base", {"a": "1"})
    past.commit("side", {"a": "2"}, parents=("base",))
    past.commit("main", {"a": "3"}, parents=("base",))
    hashes = past.made()
    bisection = Bisection(work, UserCheckout(past.path))
    bisection.start(hashes["side"], hashes["main"], first_parent=False)
    assert bisection.next == hashes["base"]
    assert "merge base" in bisection.say("bad", hashes["base"])
    assert bisection.next is None


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
    with Bisection(work, checkout).tree(commit) as tree:
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
    bisection = Bisection(work, checkout)
    with pytest.raises(GitError, match="1111111111: fatal: "), bisection.tree("1" * 40):
        pytest.fail("there is no such commit")
