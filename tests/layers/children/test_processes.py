"""Processes that end with the one that answers for them, where Linux is there to be asked."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pytest_graphbreak.layers.children import processes

pytestmark = pytest.mark.pure

linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux is asked")


@linux
def test_a_child_whose_parent_is_gone_ends_at_once() -> None:
    child = os.fork()
    if child == 0:
        processes.die_with(os.getpid())  # which is not its parent
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 128 + signal.SIGKILL


@linux
def test_children_are_notified_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
    assert child.pid in processes._children()
    left = iter([[child.pid], [child.pid], []])  # the second time it is gone
    monkeypatch.setattr(processes, "_children", lambda: next(left))
    processes.end_orphans()
    assert next(left, None) is None
    child.returncode = 0  # it was waited for
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)


def test_where_linux_does_not_tell_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes.os, "getpid", lambda: -1)
    assert processes._children() == []


def test_children_that_come_without_end_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(processes, "_children", lambda: asked.append(1) or [2**22 + 1])
    processes.end_orphans()
    assert len(asked) == 1000


def test_elsewhere_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: object) -> None:
        raise AssertionError("the C library was asked")

    monkeypatch.setattr(ctypes, "CDLL", refuse)
    monkeypatch.setattr(processes.sys, "platform", "darwin")
    processes.adopt_orphans()


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
    waiting = threading.Thread(target=processes.wait_for_threads, args=(before,), daemon=True)
    waiting.start()
    waiting.join(PATIENCE)
    assert not waiting.is_alive()


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

    monkeypatch.setattr(processes.time, "sleep", look)
    processes.wait_for_threads(listed())
    assert done == ["slow"]
