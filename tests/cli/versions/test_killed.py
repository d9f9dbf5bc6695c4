"""``bisect`` and ``upgrade`` told to end, or killed: nothing is left, nothing has changed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.cli.versions.history import Past
from tests.layers.children.test_server import lives, soon

SLEEP = """\
import os, pathlib, subprocess, sys, time


def sleep():
    code = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
    rest = subprocess.Popen(code), subprocess.Popen(code, start_new_session=True)
    note = pathlib.Path(os.environ["NOTE"])
    pids = [os.getpid(), *(one.pid for one in rest)]
    note.with_suffix(".new").write_text(" ".join(map(str, pids)))
    note.with_suffix(".new").rename(note)
    time.sleep(600)
"""
"""A process with a child of its own, and one that it sent away."""
TEST = f"""\
{SLEEP}

def test_a():
    if pathlib.Path("number").read_text() == "2":
        sleep()
"""
BACKEND = f"""\
{SLEEP}

def build_wheel(*_):
    sleep()
"""
PROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "slow"
version = "1"
"""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)


class Begun(NamedTuple):
    number: signal.Signals
    temporary: Path
    note: Path
    process: subprocess.Popen[str]


def killed(path: Path, number: signal.Signals, cwd: Path, *args: str) -> Begun:
    """Begin a command that is to get a signal, with temporary files of its own."""
    temporary = path / number.name
    temporary.mkdir()
    note = path / f"{number.name}.pids"
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest_graphbreak", *args],
        cwd=cwd,
        env=os.environ | {"TMPDIR": str(temporary), "NOTE": str(note)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    return Begun(number, temporary, note, process)


def assert_gone(one: Begun, made: str) -> None:
    """Send the signal once the command has ``made`` something and its program runs."""
    soon(one.note.exists)
    assert list(one.temporary.glob(made))
    one.process.send_signal(one.number)
    _, said = one.process.communicate(timeout=60)
    assert "Traceback" not in said
    killed = one.number == signal.SIGKILL
    assert one.process.returncode == (-9 if killed else 128 + one.number), said
    soon(lambda: not any(map(lives, map(int, one.note.read_text().split()))))
    soon(lambda: not list(one.temporary.iterdir()))


def test_no_worktree_is_left(tmp_path: Path) -> None:
    past = Past(tmp_path / "checkout")
    for number in "123":
        past.commit(number, {"number": number, "pytest.ini": "[pytest]\n", "test_it.py": TEST})
    hashes = past.made()
    before = past.state()
    args = ("bisect", "test_it.py::test_a", "--good", hashes["2"], "--bad", hashes["3"])
    for one in [killed(tmp_path, number, past.path, *args) for number in SIGNALS]:
        assert_gone(one, "graphbreak-*/tree*")
    assert past.state() == before


def test_no_environment_is_left_while_pip_works(tmp_path: Path) -> None:
    project = tmp_path / "slow"
    project.mkdir()
    (project / "backend.py").write_text(BACKEND)
    (project / "pyproject.toml").write_text(PROJECT)
    for one in [killed(tmp_path, number, tmp_path, "upgrade", "./slow") for number in SIGNALS]:
        assert_gone(one, "graphbreak-*/environment/pyvenv.cfg")
    assert sorted(path.name for path in project.iterdir()) == ["backend.py", "pyproject.toml"]
