"""``graphbreak bisect``: the commit that moved a test, found without a trace."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.cli.conftest import Workspace
from tests.cli.versions.history import BROKEN, HEAD, TEST, Past, sixty

pytestmark = [
    pytest.mark.usefixtures("forks"),
    pytest.mark.skipif(
        importlib.util.find_spec("torch_xla") is not None,
        reason="what git does depends on no device, and is tested without one",
    ),
]

NODEID = "tests/test_head.py::test_head"
TORN = "raise ValueError('\\x1b[31m##[error]\\n::error::x')\n"
START = {"net/__init__.py": "", "net/head.py": HEAD, "tests/test_head.py": TEST}


@pytest.fixture
def past(workspace: Workspace) -> Past:
    for path in workspace.path.iterdir():
        if path.is_dir():
            for file in path.iterdir():
                file.unlink()
    return Past(workspace.path)


def test_one_planted_break_among_sixty_commits(workspace: Workspace, temporary: Path) -> None:
    past = sixty(workspace.path)
    hashes = past.made()
    past.git("bisect", "start")  # one of the user's own goes on
    before, files = past.state(), workspace.files()
    nodeid = "tests/models/test_heads.py::test_head"
    said = workspace.run(
        "bisect", nodeid, "--good", hashes["1"], "--reports", str(temporary / "kept")
    )
    assert said.code == 0, said.err
    assert f"{nodeid} moved with\n\n  {hashes['38'][:10]}  2026-02-08  38\n" in said.out
    assert f"before  {hashes['37'][:10]}   dynamo 1\n" in said.out
    assert f"after   {hashes['38'][:10]}   dynamo 2, 1 break\n" in said.out
    assert "  + GB0124  Unsupported Tensor.item() call" in said.out
    assert "      from tests/models/test_heads.py:7 in test_head\n" in said.out
    assert "what it changes at net/heads.py:7\n" in said.out
    assert "\n    +        if y.max().item() > 5:\n" in said.out
    assert said.out.endswith("it changes  net/heads.py, notes/3.txt\n")
    assert "[3] " in said.err
    assert past.state() == before
    assert workspace.files() == files
    assert [path.name for path in temporary.iterdir()] == ["kept"]
    kept = sorted(path.name for path in (temporary / "kept").iterdir())
    assert kept == ["after.json", "before.json"]
    assert workspace.run("check", str(temporary / "kept" / "after.json")).code == 1


def test_what_cannot_be_tried_is_skipped(workspace: Workspace, past: Past, temporary: Path) -> None:
    past.commit("good", START)
    past.commit("torn", {"net/head.py": TORN})
    past.commit("gone", removed=("tests/test_head.py",))
    past.commit("back", {"tests/test_head.py": TEST, "net/head.py": BROKEN})
    past.commit("bad", {"notes.txt": ""})
    hashes = past.made()
    said = workspace.run("bisect", NODEID, "--good", hashes["good"], "--bad", hashes["bad"])
    assert said.code == 1, said.err
    assert f"{NODEID} moved with one of these" in said.out
    assert "skipped: ValueError: \\x1b[31m\\x23#[" in said.out
    assert "skipped: there is no tests/test_head.py" in said.out
    named = said.out.partition("moved with")[2].partition("\nbefore ")[0]
    assert [name for name in hashes if hashes[name][:10] in named] == ["torn", "gone", "back"]
    assert (
        f"\n  {hashes['back'][:10]}  2026-01-05  back\n\nbefore  {hashes['good'][:10]}" in said.out
    )
    assert f"\nafter   {hashes['back'][:10]}" in said.out
    assert all(line.isprintable() for line in said.out.split("\n"))
    assert not list(temporary.iterdir())


def test_what_is_searched_may_be_fewer_graphs_and_a_later_step_is_reported(
    workspace: Workspace, past: Past
) -> None:
    twice = BROKEN.replace("y = y + 1", "y = y + 1\n        print(len(y))")
    past.commit("two", START | {"net/head.py": twice})
    past.commit("one", {"net/head.py": BROKEN})
    past.commit("none", {"net/head.py": HEAD})
    hashes = past.made()
    said = workspace.run("bisect", NODEID, "--good", hashes["two"])
    assert said.code == 0, said.err
    assert f"moved with\n\n  {hashes['one'][:10]}" in said.out
    assert "  - GB" in said.out
    assert "\n    -        print(len(y))\n" in said.out
    assert "It moved again after that: dynamo 1 at --bad." in said.out
    assert f"--good {hashes['one'][:10]}" in said.out


def test_setup_makes_each_worktree_ready_and_path_says_where_to_import_from(
    workspace: Workspace, past: Past
) -> None:
    past.commit("good", {f"lib/{name}": text for name, text in START.items()})
    past.commit("bad", {"lib/net/head.py": BROKEN})
    hashes = past.made()
    nodeid = f"lib/{NODEID}"
    said = workspace.run(
        "bisect", nodeid, "--good", hashes["good"], "--path", "made", "--setup", "cp -r lib made"
    )
    assert said.code == 0, said.err
    assert "made/net/head.py:7 in Head.forward" in said.out
    assert "Its difference touches neither these places" in said.out
    assert "it changes  lib/net/head.py" in said.out
    said = workspace.run(
        "bisect", nodeid, "--good", hashes["good"], "--setup", "echo no >&2; exit 3"
    )
    assert said.code == 2
    assert "--setup ended with 3: no" in said.err


def test_ends_that_do_not_do(workspace: Workspace, past: Past, temporary: Path) -> None:
    (workspace.path / "own_tool.py").write_text("")
    (workspace.path / ".gitignore").write_text("own_tool.py\n")
    own = (
        f"import sys\nsys.path.append({str(workspace.path)!r})\n"
        "import own_tool\n\ndef test_a(): pass\n"
    )
    more = {
        "tests/test_two.py": "def test_a(): pass\ndef test_b(): pass\n",
        "tests/test_own.py": own,
    }
    past.commit("good", START | more)
    past.commit("bad", {"notes.txt": ""})
    hashes = past.made()
    good = ("--good", hashes["good"])
    for args, words in (
        ((NODEID, "--good=--output=x"), "there is no commit --output=x"),
        ((NODEID, "--good", "nowhere"), "there is no commit nowhere"),
        ((NODEID, "--good", "HEAD"), "are the same commit"),
        ((NODEID, "--good", "HEAD", "--bad", hashes["good"]), "turn them round"),
        (("tests/none.py::test_a", *good), "in neither --bad nor --good; is it committed?"),
        (("../x.py::test_a", *good), "not in the repository"),
        (("tests/test_head.py::test_none", *good), "not found:"),
        (("tests/test_two.py", *good), "2 tests have this id; give one of them"),
        (("tests/test_own.py::test_a", *good), "the test imports own_tool from "),
        ((NODEID, *good), "the same at --good and at --bad"),
        ((NODEID, *good, "--", "--no-such-option"), "unrecognized arguments"),
        ((NODEID, *good, "--package", "torch"), "--package needs --bad"),
        ((NODEID, *good, "--package", "torch", "--setup", "x"), "--setup is for commits"),
    ):
        said = workspace.run("bisect", *args)
        assert said.code == 2
        assert words in said.err, said.err
        assert "Traceback" not in said.err
    assert not list(temporary.iterdir())


def test_what_is_left_out_of_the_search_is_said(
    workspace: Workspace, past: Past, temporary: Path
) -> None:
    past.commit("start", START)
    past.commit("good", {"notes.txt": ""}, parents=("start",))
    past.commit("failing", {"tests/test_head.py": f"{TEST}    assert False\n"}, parents=("start",))
    past.commit("bad", {"tests/test_head.py": TEST, "net/head.py": BROKEN})
    hashes = past.made()
    (workspace.path / "net" / "__init__.py").write_text("# not committed\n")
    taken = temporary.parent / "taken"
    taken.write_text("")
    args = ("--good", hashes["good"], "--reports", str(taken))
    said = workspace.run("bisect", NODEID, *args)
    assert said.code == 2
    assert "note       what is not committed is in no commit, and is left out\n" in said.out
    base = hashes["start"][:10]
    assert f"note       --good is on another branch; both come from {base}\n" in said.out
    assert "skipped: the test fails by itself" in said.out
    assert f"graphbreak: {taken}: cannot be written: File exists" in said.err


def test_outside_of_a_repository(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(workspace.path.parent))
    said = workspace.run("bisect", NODEID, "--good", "HEAD")
    assert said.code == 2
    assert "not a git repository" in said.err
