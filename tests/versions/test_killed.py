"""``bisect`` told to end, or killed, while a test runs: nothing is left, nothing has changed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.repair.test_server import lives, soon
from tests.versions.history import Past

TEST = """\
import os, pathlib, subprocess, sys, time


def test_a():
    if pathlib.Path("number").read_text() == "2":
        sleep = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
        rest = subprocess.Popen(sleep), subprocess.Popen(sleep, start_new_session=True)
        note = pathlib.Path(os.environ["NOTE"])
        pids = [os.getpid(), *(one.pid for one in rest)]
        note.with_suffix(".new").write_text(" ".join(map(str, pids)))
        note.with_suffix(".new").rename(note)
        time.sleep(600)
"""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)


def test_nothing_is_left_and_nothing_has_changed(tmp_path: Path) -> None:
    past = Past(tmp_path / "checkout")
    for number in "123":
        past.commit(number, {"number": number, "pytest.ini": "[pytest]\n", "test_it.py": TEST})
    hashes = past.made()
    before = past.state()
    begun = []
    for number in SIGNALS:
        temporary = tmp_path / number.name
        temporary.mkdir()
        command = [sys.executable, "-m", "pytest_graphbreak", "bisect", "test_it.py::test_a"]
        process = subprocess.Popen(
            [*command, "--good", hashes["2"], "--bad", hashes["3"]],
            cwd=past.path,
            env=os.environ
            | {"TMPDIR": str(temporary), "NOTE": str(tmp_path / f"{number.name}.pids")},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        begun.append((number, temporary, process))
    for number, temporary, process in begun:
        note = tmp_path / f"{number.name}.pids"
        soon(note.exists)
        assert list(temporary.glob("graphbreak-*/tree*"))
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
        assert "Traceback" not in said
        assert process.returncode == (-9 if number == signal.SIGKILL else 128 + number), said
        for pid in map(int, note.read_text().split()):
            soon(lambda pid=pid: not lives(pid))  # type: ignore[misc]
        soon(lambda temporary=temporary: not list(temporary.iterdir()))  # type: ignore[misc]
    assert past.state() == before
