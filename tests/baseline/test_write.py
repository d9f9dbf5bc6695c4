"""Writing: two writers lose nothing, a killed one breaks nothing, a refused one says why."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pytest_graphbreak.baseline import BaselineError, Baselines, Measured, Values, update
from pytest_graphbreak.baseline import files as writing
from tests.conftest import Serving
from tests.forkserver import Server

pytestmark = pytest.mark.pure

ROOT = Path(__file__).parents[2]
OLD = """\
version: 1
profile: cpu
torch: "2.9"
tests:
  test_a:
    graphs: {dynamo: 1}
"""


def seen(test: str, graphs: int, file: str = "test_a.py") -> Measured:
    return Measured(
        f"{file}::{test}", "cpu", {"torch": "2.9.1"}, Values({"dynamo": graphs}), ("dynamo",)
    )


def graphs(directory: Path, test: str, file: str = "test_a.py") -> int:
    expected = Baselines(directory).expectation(f"{file}::{test}", "cpu")
    return expected.values.graphs["dynamo"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "baselines" / "test_a.yaml"
    path.parent.mkdir()
    path.write_text(OLD)
    return path


SCRIPT = """
import json, os, sys
from pathlib import Path
from pytest_graphbreak.baseline import BaselineError, Measured, Values, update

def seen(test, graphs, file="test_a.py"):
    values = Values({"dynamo": graphs})
    return Measured(f"{file}::{test}", "cpu", {"torch": "2.9.1"}, values, ("dynamo",))

directory = Path(sys.argv[1])
"""


def start(source: str, *args: object) -> subprocess.Popen[str]:
    """A process of its own that runs ``source`` after ``SCRIPT``."""
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT + textwrap.dedent(source), *map(str, args)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def visible(directory: Path) -> list[str]:
    """The names of all files and directories below, but for the lock's."""
    return sorted(item.name for item in directory.rglob("*") if writing.HIDDEN not in item.parts)


def finish(process: subprocess.Popen[str]) -> str:
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return output


# two writers


def test_two_writers_lose_nothing(path: Path) -> None:
    """Both add to one file and to files of their own, entry by entry, at the same time."""
    writer = """
    for number in range(25):
        update(directory, [seen(f"test_{sys.argv[2]}_{number}", 2)])
        update(directory, [seen("test", number, file=f"sub/test_{sys.argv[2]}.py")])
    """
    writers = [start(writer, path.parent, name) for name in ("one", "two")]
    for process in writers:
        finish(process)
    for name in ("one", "two"):
        assert graphs(path.parent, "test", f"sub/test_{name}.py") == 24
        for number in range(25):
            assert graphs(path.parent, f"test_{name}_{number}") == 2
    assert path.read_text().startswith(OLD)


def test_threads_of_one_process(path: Path) -> None:
    def write(name: str) -> None:
        for number in range(10):
            update(path.parent, [seen(f"test_{name}_{number}", 2)])

    threads = [threading.Thread(target=write, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(Baselines(path.parent).entries())) == 21


# the lock


@contextmanager
def another_process(source: str, directory: Path) -> Iterator[None]:
    """Another process has run ``source``, and lives: it is killed at the end."""
    wait = 'print("held", flush=True)\nsys.stdin.read()'
    holder = start(f"{textwrap.dedent(source)}\n{wait}", directory)
    try:
        assert holder.stdout.readline() == "held\n"
        yield
    finally:
        holder.kill()
        holder.communicate()


HOLDER = """
from pytest_graphbreak.baseline.files import hold_lock
lock = hold_lock(directory, 5)
lock.__enter__()
"""


def test_a_lock_that_is_held_times_out(path: Path) -> None:
    with another_process(HOLDER, path.parent):
        with pytest.raises(BaselineError) as raised:
            update(path.parent, [seen("test_a", 2)], lock_timeout=0.3)
        lock = writing.lock_path(path.parent)
        assert str(lock) in str(raised.value)
        assert "wait for it and try again" in str(raised.value)
        assert path.read_text() == OLD
    # The lock of a dead process is free.
    update(path.parent, [seen("test_a", 2)], lock_timeout=5)
    assert graphs(path.parent, "test_a") == 2


def test_the_lock_lies_with_the_baselines_and_git_ignores_it(path: Path, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    update(path.parent, [seen("test_a", 2)])
    assert visible(path.parent) == ["test_a.yaml"]
    assert writing.lock_path(path.parent).is_relative_to(path.parent)
    status = ["git", "status", "--porcelain", "--untracked-files=all"]
    reported = subprocess.run(status, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert reported.stdout == "?? baselines/test_a.yaml\n"
    (tmp_path / "link").symlink_to(path.parent)
    assert writing.lock_path(tmp_path / "link") == writing.lock_path(path.parent)
    assert writing.lock_path(tmp_path) != writing.lock_path(path.parent)


def test_a_lock_that_can_not_be_made(path: Path) -> None:
    (path.parent / writing.HIDDEN).write_text("")  # a file, no directory
    with pytest.raises(BaselineError, match=r"the lock .* cannot be taken"):
        update(path.parent, [seen("test_a", 2)])
    assert path.read_text() == OLD


@pytest.mark.parametrize("name", [writing.HIDDEN, f"{writing.HIDDEN}/lock"])
def test_a_lock_that_is_a_link_is_not_followed(name: str, path: Path, tmp_path: Path) -> None:
    """A checkout may come with one: it would make files, or empty them, elsewhere."""
    (tmp_path / "trap").mkdir()
    (tmp_path / "trap/kept").write_text("kept")
    (path.parent / name).parent.mkdir(exist_ok=True)
    target = tmp_path / ("trap/kept" if name.endswith("lock") else "trap")
    (path.parent / name).symlink_to(target)
    with pytest.raises(BaselineError, match="is a symbolic link"):
        update(path.parent, [seen("test_a", 2)])
    assert [item.name for item in (tmp_path / "trap").iterdir()] == ["kept"]
    assert (tmp_path / "trap/kept").read_text() == "kept"


def test_the_temporary_file_of_a_living_writer_stays(path: Path) -> None:
    """One that does not know this lock, such as an older version, is left alone as well."""
    temporary = path.parent / f".graphbreak-{'0' * 16}.tmp"
    script = f"""
    import fcntl
    file = open({str(temporary)!r}, "w")
    fcntl.flock(file, fcntl.LOCK_EX)
    """
    with another_process(script, path.parent):
        update(path.parent, [seen("test_a", 2)])
        assert temporary.exists()
    update(path.parent, [seen("test_a", 3)])
    assert not temporary.exists()


def test_a_preview_needs_no_lock(path: Path) -> None:
    from pytest_graphbreak.baseline import preview

    with writing.hold_lock(path.parent, 1):
        assert len(preview(path.parent, [seen("test_a", 2)]).of_kind("changed")) == 1


# killed

STEPS = (
    *("open", "write", "fchmod", "fchown", "fsync", "close"),
    *("replace", "mkdir", "listdir", "unlink"),
)

KILLED = """
import signal
step, number = sys.argv[2], int(sys.argv[3])
original, calls = getattr(os, step), 0

def counted(*args, **kwargs):
    global calls
    calls += 1
    if calls == number and step == "write":
        original(args[0], bytes(args[1])[:20])  # half of it
    if calls == number:
        os.kill(os.getpid(), signal.SIGKILL)
    result = original(*args, **kwargs)
    if calls == number - 1 and sys.argv[4] == "after":
        os.kill(os.getpid(), signal.SIGKILL)
    return result

import filelock, secrets, tempfile  # nothing is imported once the counting begins
tempfile.gettempdir()
setattr(os, step, counted)
update(directory, [seen("test_a", 2), seen("test_b", 3), seen("test", 1, file="sub/test_new.py")])
print("done", calls)
"""


@pytest.fixture(scope="session")
def server_of_writers(serving: Serving) -> Iterator[Server]:
    with serving("baseline", ["pytest_graphbreak.baseline", "filelock", "secrets"]) as server:
        yield server


@pytest.fixture
def writers(server_of_writers: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new Python is a fork of one that has imported what writes: a hundred of them are killed."""
    monkeypatch.setattr(sys, "executable", server_of_writers.python)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.usefixtures("writers")
def test_killed_at_any_step(path: Path, step: str, when: str) -> None:
    """The old file or the new one, at every call of every system call that a write makes."""
    killed = 0
    for number in range(1, 60):
        path.write_text(OLD)
        (path.parent / "sub" / "test_new.yaml").unlink(missing_ok=True)
        process = start(KILLED, path.parent, step, number + (when == "after"), when)
        output, errors = process.communicate(timeout=120)
        text = path.read_text()
        if process.returncode == 0:
            assert output.startswith("done")
            break
        assert process.returncode == -signal.SIGKILL, errors
        killed += 1
        new = OLD.replace("dynamo: 1", "dynamo: 2") + "  test_b:\n    graphs: {dynamo: 3}\n"
        assert text in (OLD, new)
        baselines = Baselines(path.parent)
        baselines.check()
        # What is left over is no baseline, and goes with the next write.
        update(path.parent, [seen("test_a", 5), seen("test", 6, file="sub/test_new.py")])
        assert visible(path.parent) == ["sub", "test_a.yaml", "test_new.yaml"]
        assert graphs(path.parent, "test_a") == 5
    else:
        pytest.fail("the update never came to its end")
    assert killed > 0 or step == "unlink"


def test_a_file_of_the_user_s_is_not_taken_for_a_left_over(path: Path) -> None:
    names = [".graphbreak-notes.tmp", ".graphbreak-0123456789abcdef.tmp.keep", "a.tmp"]
    for name in names:
        (path.parent / name).write_text("mine")
    (path.parent / ".graphbreak-0123456789abcdef.tmp").write_text("left over")
    update(path.parent, [seen("test_a", 2)])
    assert visible(path.parent) == sorted([*names, "test_a.yaml"])


def test_a_link_with_the_name_of_a_left_over_is_not_followed(path: Path, tmp_path: Path) -> None:
    """Whether a writer holds it cannot be asked, so it stays."""
    theirs = tmp_path / "theirs"
    theirs.write_text("mine")
    link = path.parent / ".graphbreak-0123456789abcdef.tmp"
    link.symlink_to(theirs)
    update(path.parent, [seen("test_a", 2)])
    assert link.is_symlink()
    assert theirs.read_text() == "mine"


# refused by the system


def test_a_disk_that_fails_when_all_is_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(handle: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(BaselineError, match=r"Input/output error.*it is as it was; make room"):
        update(path.parent, [seen("test_a", 2)])
    assert visible(path.parent) == ["test_a.yaml"]
    assert path.read_text() == OLD


def as_nobody(directory: Path, action: str = "update(directory, [seen('test_a', 2)])") -> str:
    """Do it as a user who may not: another one, if the current one is root."""
    script = f"""
    from pytest_graphbreak.baseline import Baselines
    import logging, tempfile
    from filelock import FileLock

    # What only root can read is imported before: filelock imports its parts when it locks.
    with tempfile.TemporaryDirectory() as name, FileLock(f"{{name}}/lock"):
        pass
    if os.geteuid() == 0:
        os.setgid(65534), os.setuid(65534)
    try:
        {action}
    except BaselineError as error:
        print(error)
    """
    return finish(start(script, directory))


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A baseline in a directory that every user can reach."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        path = Path(name, "test_a.yaml")
        path.write_text(OLD)
        yield path


def test_a_directory_that_can_not_be_written(open_path: Path) -> None:
    open_path.parent.chmod(0o555)
    try:
        output = as_nobody(open_path.parent)
    finally:
        open_path.parent.chmod(0o755)
    assert f"{open_path.parent}: cannot be written: the lock " in output
    assert "cannot be taken (Permission denied); make it a directory that can be written" in output
    assert open_path.read_text() == OLD


def test_a_file_whose_directory_can_not_be_written(open_path: Path) -> None:
    (open_path.parent / "sub").mkdir()
    (open_path.parent / "sub/test_a.yaml").write_text(OLD)
    os.chmod(open_path.parent, 0o777)
    (open_path.parent / "sub").chmod(0o555)
    output = as_nobody(open_path.parent, "update(directory, [seen('test_a', 2, 'sub/test_a.py')])")
    place = open_path.parent / "sub/test_a.yaml"
    assert f"{place}: cannot be written (Permission denied); it is as it was" in output
    assert "make its directory writable" in output
    assert place.read_text() == OLD


def test_a_file_that_can_not_be_read(open_path: Path) -> None:
    open_path.parent.chmod(0o777)
    open_path.chmod(0)
    output = as_nobody(open_path.parent)
    assert f"{open_path}: cannot be read (Permission denied)" in output


def test_a_directory_that_can_not_be_read(open_path: Path) -> None:
    (open_path.parent / "sub").mkdir(mode=0)
    output = as_nobody(open_path.parent, "Baselines(directory).check()")
    assert f"{open_path.parent / 'sub'}: cannot be read (Permission denied)" in output


def test_a_place_where_a_file_is_in_the_way(path: Path) -> None:
    with pytest.raises(BaselineError, match=r"test_b\.yaml: cannot be written"):
        update(path.parent, [seen("test", 1, file="test_a.yaml/test_b.py")])


# what a new file is like


def test_mode_and_links_stay(path: Path, tmp_path: Path) -> None:
    path.chmod(0o640)
    real = path.parent / "real.yaml"
    path.rename(real)
    path.symlink_to("real.yaml")
    update(path.parent, [seen("test_a", 2)])
    assert path.is_symlink()
    assert "dynamo: 2" in real.read_text()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_links_that_lead_out_are_not_written_through(path: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (path.parent / "sub").symlink_to(tmp_path / "outside")
    with pytest.raises(BaselineError, match="symbolic link leads out"):
        update(path.parent, [seen("test_a", 2), seen("test", 1, file="sub/test_b.py")])
    assert list((tmp_path / "outside").iterdir()) == []
    assert path.read_text() == OLD


def test_nothing_to_do_touches_nothing(tmp_path: Path) -> None:
    assert update(tmp_path / "none", []).items == ()
    assert not (tmp_path / "none").exists()
