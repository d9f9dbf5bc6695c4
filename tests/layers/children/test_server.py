"""The process that runs the trials: it leaves nothing behind, whoever dies.

Its programs import no torch, so that a run takes no time.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_graphbreak.layers.children import server
from pytest_graphbreak.layers.children.runner import serve
from pytest_graphbreak.layers.children.server import TIMED_OUT, Order
from tests.layers.children.tools import lives, soon

pytestmark = pytest.mark.once

PROGRAM = """
    import os, subprocess, sys, time

    sleep = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
    rest = subprocess.Popen(sleep), subprocess.Popen(sleep, start_new_session=True)
    with open("pids.new", "w") as file:
        print(os.getpid(), *(one.pid for one in rest), file=file)
    os.rename("pids.new", "pids")
    time.sleep({seconds})
"""
"""It has a child of its own, and one that it sent away."""


class Line:
    """What the command does: one order, and the answers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.directory = path / "bench"
        self.server = serve()

    def order(self, seconds: float, timeout: float = 60) -> None:
        self.directory.mkdir()
        text = textwrap.dedent(PROGRAM).format(seconds=seconds)
        text = f"import os; os.chdir({str(self.path)!r})\n{text}"
        order = Order(
            [sys.executable, "-S", "-c", text],
            cwd=".",
            environ=dict(os.environ),
            timeout=timeout,
            directory=str(self.directory),
        )
        self.server.stdin.write(order.line())
        self.server.stdin.flush()

    def answer(self) -> str:
        return self.server.stdout.readline().strip()

    def pids(self) -> list[int]:
        """Of the program and its two children, when they run."""
        soon(lambda: (self.path / "pids").exists())
        return list(map(int, (self.path / "pids").read_text().split()))


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    found = Line(tmp_path)
    yield found
    found.server.kill()
    found.server.wait()
    for stream in (found.server.stdin, found.server.stdout):
        stream.close()


def test_what_a_program_leaves_running_ends_with_it(line: Line) -> None:
    line.order(seconds=0)
    pid = line.answer()
    assert line.answer() == "0"
    assert [line.pids()[0], *filter(lives, line.pids())] == [int(pid)]
    assert line.directory.exists()  # the answers are in it


def test_a_program_that_takes_too_long_is_ended(line: Line) -> None:
    line.order(seconds=600, timeout=0.5)
    line.answer()
    assert line.answer() == TIMED_OUT
    assert not any(map(lives, line.pids()))


def test_the_end_of_the_command_is_the_end_of_its_program(line: Line) -> None:
    """However it ended: the system closes its end of the pipe."""
    line.order(seconds=600)
    pids = line.pids()
    line.server.stdin.close()
    assert line.server.wait(30) == 0
    assert not any(map(lives, pids))
    assert not line.directory.exists()


def test_the_program_does_not_outlive_a_server_that_is_killed(line: Line) -> None:
    line.order(seconds=600)
    program, *_ = line.pids()
    line.server.send_signal(signal.SIGKILL)
    soon(lambda: not lives(program))
    for pid in line.pids()[1:]:  # the command knows the group; who left it is beyond all of them
        os.kill(pid, signal.SIGKILL)


def spent(pid: int) -> float:
    """Seconds of processor time that a process has had."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_server_that_waits_takes_no_processor(line: Line) -> None:
    """What woke it, the end of a program, is read: else nothing would let it sleep again."""
    line.order(seconds=0)
    line.answer()
    assert line.answer() == "0"
    time.sleep(0.2)
    before = spent(line.server.pid)
    time.sleep(0.6)
    assert spent(line.server.pid) - before <= 0.03


# Processes that end with the one that answers for them, where Linux is there to be asked.

linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux is asked")


@linux
def test_a_child_whose_parent_is_gone_ends_at_once() -> None:
    child = os.fork()
    if child == 0:
        server.die_with(os.getpid())  # which is not its parent
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 128 + signal.SIGKILL


@linux
def test_children_are_notified_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
    assert child.pid in server._children()
    left = iter([[child.pid], [child.pid], []])  # the second time it is gone
    monkeypatch.setattr(server, "_children", lambda: next(left))
    server.end_orphans()
    assert next(left, None) is None
    child.returncode = 0  # it was waited for
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)
