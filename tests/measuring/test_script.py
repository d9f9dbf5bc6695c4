"""How a script is run: what no torch is needed for."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_graphbreak.measuring import script

pytestmark = pytest.mark.pure


def test_python_that_trusts_no_directory_gets_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``python -P``: modules beside the script are not found, as without us."""
    (tmp_path / "beside.py").write_text("")
    net = tmp_path / "net.py"
    net.write_text("import sys\nprint(sys.path[0])\n")
    for safe, first in ((False, str(tmp_path)), (True, sys.path[0])):
        monkeypatch.setattr(sys, "flags", SimpleNamespace(safe_path=safe))
        assert script.UserProgram(str(net), ()).run() == 0
        assert capsys.readouterr().out == f"{first}\n"


CALLER = """
import atexit, sys
from pytest_graphbreak.measuring.script import UserProgram
atexit.register(lambda: print(sys.argv[0]))
UserProgram(sys.argv[1]).run()
print(sys.argv[0])
"""
LEAVES_A_HANDLER = """
import atexit, pickle, sys
class A: pass
atexit.register(lambda: print(pickle.loads(pickle.dumps(A)), sys.argv))
"""


def test_its_exit_handlers_see_what_it_saw(tmp_path: Path) -> None:
    """They run at the end of the process; those of the program that called see its own."""
    (tmp_path / "net.py").write_text(LEAVES_A_HANDLER)
    command = [sys.executable, "-c", CALLER, "net.py"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert said.stdout == "-c\n<class '__main__.A'> ['net.py']\n-c\n", said.stderr


# What a script leaves running is waited for; what was there before is not.

PATIENCE = 20.0


@pytest.fixture
def before() -> list[threading.Thread]:
    return threading.enumerate()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def waits(before: list[threading.Thread]) -> None:
    """Fails, and does not hang, where waiting has no end."""
    waiting = threading.Thread(target=script.wait_for_threads, args=(before,), daemon=True)
    waiting.start()
    waiting.join(PATIENCE)
    assert not waiting.is_alive()


@pytest.mark.parametrize(
    ("end", "code"), [("raise ValueError", 1), ("raise KeyboardInterrupt", 130), ("exit(3)", 3)]
)
def test_so_it_is_however_the_script_ends(end: str, code: int, tmp_path: Path) -> None:
    net, done = tmp_path / "net.py", tmp_path / "done"
    work = f"time.sleep(0.3), open({str(done)!r}, 'w')"
    net.write_text(
        f"import threading, time\nthreading.Thread(target=lambda: ({work})).start()\n{end}\n"
    )
    assert script.UserProgram(str(net)).run() == code
    assert done.exists()


@pytest.mark.parametrize("end", ["pass", "exit(3)"])
def test_an_interrupt_ends_the_wait(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(before: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(script, "wait_for_threads", interrupt)
    net = tmp_path / "net.py"
    net.write_text(end)
    assert script.UserProgram(str(net)).run() == 130


def test_a_thread_is_joined_with_those_that_it_starts(before: list[threading.Thread]) -> None:
    done: list[str] = []

    def second() -> None:
        time.sleep(0.1)
        done.append("second")

    def first() -> None:
        time.sleep(0.1)
        threading.Thread(target=second).start()
        done.append("first")

    threading.Thread(target=first).start()
    waits(before)
    assert done == ["first", "second"]


def test_what_was_there_before_and_daemons_are_left_alone() -> None:
    stop = threading.Event()
    threading.Thread(target=stop.wait).start()
    before = threading.enumerate()
    threading.Thread(target=stop.wait, daemon=True).start()
    waits(before)
    stop.set()


def test_the_work_of_a_pool_is_done_and_the_pool_lives_on(
    before: list[threading.Thread], pool: ThreadPoolExecutor
) -> None:
    done: list[int] = []

    def work(number: int) -> None:
        time.sleep(0.02 * number)
        done.append(number)

    for number in range(6):
        pool.submit(work, number)
    waits(before)
    assert sorted(done) == list(range(6))
    assert pool.submit(lambda: 3).result(PATIENCE) == 3


def test_a_pool_that_was_shut_down_is_no_obstacle(
    before: list[threading.Thread], pool: ThreadPoolExecutor
) -> None:
    pool.submit(time.sleep, 0.2)
    pool.shutdown(wait=False)
    waits(before)


def test_threads_that_a_pool_starts_are_joined(
    before: list[threading.Thread], pool: ThreadPoolExecutor
) -> None:
    done = threading.Event()

    def late() -> None:
        time.sleep(0.2)
        done.set()

    pool.submit(lambda: threading.Thread(target=late).start())
    waits(before)
    assert done.is_set()


def test_a_thread_that_is_about_to_start_is_joined_when_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``threading`` lists it before its first instruction, and it cannot be joined then."""
    done: list[str] = []
    slow = threading.Thread(target=lambda: done.append("slow"))
    listed = threading.enumerate
    monkeypatch.setattr(threading, "enumerate", lambda: [*listed(), *[slow] * (not done)])

    def look(seconds: float) -> None:
        if not slow.ident:
            slow.start()

    monkeypatch.setattr(script.time, "sleep", look)
    script.wait_for_threads(listed())
    assert done == ["slow"]
