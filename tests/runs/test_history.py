"""The history of baselines, from real git repositories."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

import pytest

from pytest_graphbreak.runs.history import History, HistoryError, read

HEAD = 'version: 1\nprofile: cpu\ntorch: "2.13"\ntests:\n'


class Repository:
    """A git repository whose commits are a day apart."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.day = 0
        (path / "baselines").mkdir()
        self.git("init", "-q", "-b", "main")

    @property
    def directory(self) -> Path:
        return self.path / "baselines"

    def object(self, kind: str, text: str) -> str:
        """Write an object of git's as it is, and return its name."""
        command = ["git", "hash-object", "-t", kind, "-w", "--literally", "--stdin"]
        done = subprocess.run(
            command, cwd=self.path, input=text, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def git(self, *args: str) -> str:
        self.day += 1
        date = f"{1767225600 + self.day * 86400} +0000"
        names = {
            f"GIT_{who}_{what}": "Ann"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        }
        dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        done = subprocess.run(
            ["git", *args],
            cwd=self.path,
            env=os.environ | names | dates | {"GIT_CONFIG_GLOBAL": os.devnull},
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout

    def put(self, text: str, name: str = "test_a.yaml") -> None:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(HEAD + text)

    def commit(self, subject: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-qm", subject)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def reported(found: History) -> dict[str, list[tuple[str, dict[str, int] | None]]]:
    return {
        f"{series.nodeid} {series.profile}": [
            (point.commit.subject, None if point.graphs is None else dict(point.graphs))
            for point in series.points
        ]
        for series in found.series
    }


def test_each_change_with_its_commit(repository: Repository) -> None:
    repository.put("  test_b:\n    graphs: {dynamo: 1}\n  test_c:\n    graphs: {dynamo: 1}\n")
    repository.commit("first")
    repository.put("  test_b:\n    graphs: {dynamo: 4}\n  test_c:\n    graphs: {dynamo: 1}\n")
    repository.commit("transformers 5.12")
    (repository.path / "README").write_text("unrelated")
    repository.commit("docs")
    repository.put("  test_b:\n    graphs: {dynamo: 2}\n")
    repository.commit("fix")
    assert reported(read(repository.directory)) == {
        "test_a.py::test_b cpu": [
            ("first", {"dynamo": 1}),
            ("transformers 5.12", {"dynamo": 4}),
            ("fix", {"dynamo": 2}),
        ],
        "test_a.py::test_c cpu": [("first", {"dynamo": 1}), ("fix", None)],
    }


def test_profiles_are_distinguished(repository: Repository) -> None:
    entry = "  test_b:\n    graphs: {xla: 1}\n    overrides:\n      tt-n150: {graphs: {xla: %d}}\n"
    repository.put(entry % 7)
    repository.commit("first")
    repository.put(entry % 9)
    repository.commit("uplift")
    assert reported(read(repository.directory)) == {
        "test_a.py::test_b cpu": [("first", {"xla": 1})],
        "test_a.py::test_b tt-n150": [("first", {"xla": 7}), ("uplift", {"xla": 9})],
    }


def test_a_renamed_file_keeps_its_history(repository: Repository) -> None:
    repository.put("  test_b:\n    graphs: {dynamo: 1}\n")
    repository.commit("first")
    (repository.directory / "models").mkdir()
    repository.git("mv", "baselines/test_a.yaml", "baselines/models/test_m.yaml")
    repository.commit("move")
    repository.put("  test_b:\n    graphs: {dynamo: 3}\n", "models/test_m.yaml")
    repository.commit("break")
    assert reported(read(repository.directory)) == {
        "models/test_m.py::test_b cpu": [("first", {"dynamo": 1}), ("break", {"dynamo": 3})]
    }


def test_a_merge_counts_when_it_lands(repository: Repository) -> None:
    repository.put("  test_b:\n    graphs: {dynamo: 1}\n")
    repository.commit("first")
    repository.git("checkout", "-qb", "branch")
    for count in (2, 3):
        repository.put(f"  test_b:\n    graphs: {{dynamo: {count}}}\n")
        repository.commit(f"branch {count}")
    repository.git("checkout", "-q", "main")
    (repository.path / "other").write_text("x")
    repository.commit("other")
    repository.git("merge", "-q", "--no-ff", "-m", "merge it", "branch")
    assert reported(read(repository.directory))["test_a.py::test_b cpu"] == [
        ("first", {"dynamo": 1}),
        ("merge it", {"dynamo": 3}),
    ]


def test_what_is_not_committed_is_the_last_point(repository: Repository) -> None:
    repository.put("  test_b:\n    graphs: {dynamo: 1}\n")
    repository.commit("first")
    repository.put("  test_b:\n    graphs: {dynamo: 2}\n")
    repository.put("  test_n:\n    graphs: {dynamo: 5}\n", "test_new.yaml")
    assert reported(read(repository.directory)) == {
        "test_a.py::test_b cpu": [("first", {"dynamo": 1}), ("not committed", {"dynamo": 2})],
        "test_new.py::test_n cpu": [("not committed", {"dynamo": 5})],
    }


def test_a_broken_file_of_an_old_commit_is_named_and_left_out(repository: Repository) -> None:
    repository.put("  test_b:\n    graphs: {dynamo: 1}\n")
    repository.commit("first")
    repository.put("<<<<<<< ours\n")
    repository.commit("a conflict")
    repository.put("  test_b:\n    graphs: {dynamo: 2}\n")
    repository.commit("fix")
    found = read(repository.directory)
    assert reported(found) == {
        "test_a.py::test_b cpu": [("first", {"dynamo": 1}), ("fix", {"dynamo": 2})]
    }
    (fault,) = found.unreadable
    assert "merge-conflict marker" in fault


def test_odd_names_and_subjects(repository: Repository) -> None:
    repository.put(
        '  "test[\\n\\e::error::]":\n    graphs: {dynamo: 1}\n', "dïr with space/test_ü.yaml"
    )
    repository.commit("::error::x \x1f\x1e </script> %H")
    (series,) = read(repository.directory).series
    assert series.nodeid == "dïr with space/test_ü.py::test[\n\x1b::error::]"
    assert series.points[0].commit.subject.startswith("::error::x")


def test_a_shallow_clone_is_reported(
    repository: Repository, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for count in (1, 2):
        repository.put(f"  test_b:\n    graphs: {{dynamo: {count}}}\n")
        repository.commit(f"commit {count}")
    clone = tmp_path_factory.mktemp("clone")
    repository.git("clone", "-q", "--depth=1", repository.path.as_uri(), str(clone / "it"))
    found = read(clone / "it" / "baselines")
    assert found.shallow
    assert reported(found) == {"test_a.py::test_b cpu": [("commit 2", {"dynamo": 2})]}
    assert not read(repository.directory).shallow


def test_without_a_repository_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="no baselines here"):
        read(tmp_path / "baselines")
    (tmp_path / "baselines").mkdir()
    with pytest.raises(HistoryError, match="git log: fatal: not a git repository"):
        read(tmp_path / "baselines")


def test_without_a_commit_it_says_so(repository: Repository) -> None:
    repository.put("  test_b:\n    graphs: {dynamo: 1}\n")
    with pytest.raises(HistoryError, match="does not have any commits yet"):
        read(repository.directory)


# what a stranger's checkout may hold


def test_links_out_of_the_checkout_are_not_followed(repository: Repository) -> None:
    secret = repository.path.parent / "secret"
    secret.write_text("profile: a secret of this machine\n")
    repository.put("  test_b:\n    graphs: {dynamo: 1}\n")
    repository.commit("first")
    for name, target in (("x", secret), ("zero", "/dev/zero"), ("gone", "nothing"), ("d", "..")):
        (repository.directory / f"test_{name}.yaml").symlink_to(target)
    found = read(repository.directory)
    assert reported(found) == {"test_a.py::test_b cpu": [("first", {"dynamo": 1})]}
    assert len(found.unreadable) == 3  # a link to nothing says nothing
    assert "a secret" not in str(found.unreadable)
    repository.commit("links")
    assert "a secret" not in str(read(repository.directory).unreadable)


def test_odd_things_below_the_baselines(repository: Repository) -> None:
    repository.put("  test_b:\n    graphs: {dynamo: 1}\n")
    repository.commit("first")
    for name in ("nested", "nested.yaml", "dir.yaml"):
        (repository.directory / name).mkdir()
    for name in ("nested", "nested.yaml"):
        repository.git("init", "-q", f"baselines/{name}")
        (repository.directory / name / "test_x.yaml").write_text("x")
    for name in ("..yaml", "...yaml", ".yaml", ".~.yaml", "a\\b.yaml"):
        (repository.directory / name).write_text("x")
    os.mkfifo(repository.directory / "test_fifo.yaml")
    assert len(reported(read(repository.directory))) == 1
    repository.git("add", "baselines/..yaml", "baselines/...yaml", "baselines/a\\b.yaml")
    repository.git("commit", "-qm", "odd")
    repository.git("mv", "baselines/..yaml", "baselines/.x.yaml")
    repository.git("commit", "-qm", "renamed")
    assert len(reported(read(repository.directory))) == 1


def test_a_commit_of_the_year_3170843(repository: Repository) -> None:
    repository.put("  test_b:\n    graphs: {dynamo: 1}\n")
    repository.git("add", "-A")
    tree = repository.git("write-tree").strip()
    text = f"tree {tree}\nauthor A <a> 1 +0000\ncommitter A <a> 99999999999999 +0000\n\nfar\n"
    repository.git("update-ref", "HEAD", repository.object("commit", text))
    (series,) = read(repository.directory).series
    assert series.points[0].commit.date == "9999-12-31"


def test_a_blob_that_is_too_large_is_named(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_graphbreak.config.git.LARGEST", 200)
    repository.put("  test_b:\n    graphs: {dynamo: 1}\n")
    repository.put(
        "".join(f"  t{n}:\n    graphs: {{dynamo: 1}}\n" for n in range(9)), "test_b.yaml"
    )
    repository.commit("first")
    found = read(repository.directory)
    assert len(found.series) == 1
    assert "test_b.yaml: is too large to read" in found.unreadable[0]


def test_a_repository_in_the_baselines_runs_nothing(repository: Repository) -> None:
    """A bare one needs no ``.git``, so a commit can hold it, with the programs it names."""
    repository.put("  test_b:\n    graphs: {dynamo: 1}\n")
    repository.commit("first")
    for name in ("HEAD", "objects", "refs", "index"):
        (repository.path / ".git" / name).rename(repository.directory / name)
    pwned = repository.path / "pwned"
    (repository.directory / "config").write_text(
        "[core]\nrepositoryformatversion = 0\nbare = false\n"
        f'worktree = {repository.path}\nfsmonitor = "touch {pwned}; false"\n'
    )
    with contextlib.suppress(HistoryError):
        read(repository.directory)
    assert not pwned.exists()


# causes


def broken(*lines: str, count: int = 1, kind: str = "breaks", reason: str = "r") -> str:
    """An entry whose baseline holds these lines as places."""
    places = "".join(
        f"      - reason: {reason}\n        where: m.py::f\n        code: {line}\n"
        for line in lines
    )
    return f"  test_b:\n    graphs: {{dynamo: {count}}}\n    {kind}:\n{places}"


def shifts(found: History) -> list[tuple[str, list[tuple[str, str, int, int]]]]:
    (series,) = found.series
    return [
        (
            point.commit.subject,
            [(one.place.kind, one.place.code, one.before, one.after) for one in point.shifts],
        )
        for point in series.points
    ]


def test_each_step_has_the_causes_that_moved(repository: Repository) -> None:
    repository.put("  test_b:\n    graphs: {dynamo: 1}\n")
    repository.commit("first")
    repository.put(broken("x.item()", "print(x)", count=3))
    repository.commit("two breaks")
    repository.put(broken("x.item()", count=2))
    repository.commit("fix one")
    repository.put(broken("y.item()", count=2))
    repository.commit("another line, as many graphs")
    repository.put(broken("y.item()", count=2, reason="in other words"))
    repository.commit("reworded")
    repository.put(broken("y.item()", count=2, kind="eager"))
    repository.commit("left")
    assert shifts(read(repository.directory)) == [
        ("first", []),
        ("two breaks", [("break", "x.item()", 0, 1), ("break", "print(x)", 0, 1)]),
        ("fix one", [("break", "print(x)", 1, 0)]),
        (
            "another line, as many graphs",
            [("break", "y.item()", 0, 1), ("break", "x.item()", 1, 0)],
        ),
        ("left", [("eager", "y.item()", 0, 1), ("break", "y.item()", 1, 0)]),
    ]


def test_a_frame_that_is_left_at_a_break_is_one_cause(repository: Repository) -> None:
    both = broken("x.item()") + broken("x.item()", kind="eager").split("\n", 2)[2]
    for subject, text in (("one", "  test_b:\n    graphs: {dynamo: 2}\n"), ("two", both)):
        repository.put(text)
        repository.commit(subject)
    repository.put("  test_b:\n    graphs: {dynamo: 2}\n")
    repository.commit("three")
    assert shifts(read(repository.directory)) == [
        ("one", []),
        ("two", [("break", "x.item()", 0, 1)]),
        ("three", [("break", "x.item()", 1, 0)]),
    ]


def caused(count: int, *causes: str, layer: str = "xla") -> str:
    """An entry with as many graphs, and why those are there that are not plain."""
    listed = "".join(f"      - {{layer: {layer}, {cause}}}\n" for cause in causes)
    held = f"    ops: {{{layer}: 9}}\n" + (f"    causes:\n{listed}" if causes else "")
    return f"  test_b:\n    graphs: {{{layer}: {count}}}\n{held}"


def test_causes_of_every_layer_move(repository: Repository) -> None:
    split = "cause: split, where: m.py::f, code: x.histc(), count: %d"
    repository.put("  test_b:\n    graphs: {xla: 3}\n")
    repository.commit("an earlier version, which knows no causes")
    repository.put(caused(3, split % 2))
    repository.commit("it says why now")
    repository.put(caused(5, split % 4))
    repository.commit("more")
    repository.put(caused(2, "cause: sync, where: m.py::g, code: sync()"))
    repository.commit("another")
    assert shifts(read(repository.directory)) == [
        ("an earlier version, which knows no causes", []),
        ("more", [("split", "x.histc()", 2, 4)]),
        ("another", [("sync", "sync()", 0, 1), ("split", "x.histc()", 4, 0)]),
    ]


def test_what_follows_a_break_and_the_only_entry_are_no_causes_of_their_own(
    repository: Repository,
) -> None:
    entries = [f"cause: entry, where: 'm.py::{name}', code: def" for name in "fgh"]
    repository.put(caused(1, layer="dynamo"))
    repository.commit("one entry, which is not written")
    repository.put(caused(2, *entries[:2], layer="dynamo"))
    repository.commit("two, and which of them is new is not known")
    repository.put(caused(3, *entries, layer="dynamo"))
    repository.commit("three")
    follows = "cause: break, where: m.py::f, code: x, count: 2"
    repository.put(caused(5, *entries, follows, layer="dynamo"))
    repository.commit("a break, reported by its place")
    assert [moved for _, moved in shifts(read(repository.directory))] == [
        [],
        [],
        [("entry", "def", 0, 1)],
        [],
    ]


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("https://github.com/o/n.git", "https://github.com/o/n/commit/"),
        ("https://user:secret@example.test/o/n/", "https://example.test/o/n/commit/"),
        ("git@github.com:o/n.git", "https://github.com/o/n/commit/"),
        ("ssh://git@example.test:2222/group/o/n.git", "https://example.test/group/o/n/commit/"),
        ("../elsewhere", ""),
        ("file:///srv/n.git", ""),
        ("javascript:alert(1)", ""),
        ("https://x y/<script>", ""),
        ("ext::sh -c whoami", ""),
    ],
)
def test_where_a_commit_can_be_seen(repository: Repository, remote: str, address: str) -> None:
    repository.put("  test_b:\n    graphs: {dynamo: 1}\n")
    repository.commit("first")
    assert read(repository.directory).address == ""
    repository.git("config", "remote.origin.url", remote)
    assert read(repository.directory).address == address


# what runs


def test_executions_and_reads_move_with_graphs_and_alone(repository: Repository) -> None:
    """A baseline that begins to record them is no step, and neither is one that stops."""
    entry = "  test_b:\n    graphs: {xla: 1}\n"
    ran = "    executions: {xla: %d}\n    reads: {xla: %d}\n    work: {xla: 9}\n"
    for subject, text in (
        ("an earlier version", ""),
        ("it records what runs now", ran % (3, 1)),
        ("a sync in the loop", ran % (36, 1)),
        ("off", ""),
        ("on", ran % (36, 2)),
        ("no read", ran.replace("    reads: {xla: %d}\n", "") % 36),
    ):
        repository.put(entry + text)
        repository.commit(subject)
    (series,) = read(repository.directory).series
    assert [(point.commit.subject, point.moved_runs) for point in series.points] == [
        ("an earlier version", {}),
        ("a sync in the loop", {("executions", "xla"): (3, 36)}),
        ("no read", {("reads", "xla"): (2, 0)}),
    ]
    assert series.points[1].ran["reads", "xla"] == (1, 1)
