"""Which threads are an earlier test's, and which work for the test that runs."""

from __future__ import annotations

import gc
import queue
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from pytest_graphbreak.layers.left_threads import Events, LeftThreads, OwnThreads
from pytest_graphbreak.model.stacks import Line


@pytest.fixture
def stop() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


@contextmanager
def running(thread: threading.Thread) -> Iterator[threading.Thread]:
    thread.start()
    yield thread
    thread.join()


def test_a_thread_that_goes_on_is_a_stranger_to_later_windows_alone(stop: threading.Event) -> None:
    test, before = OwnThreads(), LeftThreads()
    thread = threading.Thread(target=stop.wait, name="goes on", daemon=True)
    with running(thread):
        test.end("test_it.py::test_one")
        later = LeftThreads()
        assert thread in later
        assert thread not in before
        assert list(later.notes("jax", {thread: 2})) == [
            "jax: 2 graphs of the thread goes on not counted, which test_it.py::test_one left: "
            "join the threads that a test starts"
        ]
        stop.set()


def test_no_garbage_collection_begins_while_the_frames_are_read(
    stop: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One that does stops the process for ever: python/cpython#106883.
    frames = sys._current_frames
    collects: list[bool] = []
    monkeypatch.setattr(sys, "_current_frames", lambda: collects.append(gc.isenabled()) or frames())
    test = OwnThreads()
    thread = threading.Thread(target=stop.wait, daemon=True)
    with running(thread):
        test.end("test_it.py::test_one")
        assert thread in LeftThreads()
        stop.set()
    assert collects == [False]
    assert gc.isenabled()


def test_a_thread_of_a_wider_fixture_is_none(stop: threading.Event) -> None:
    test = OwnThreads()
    with test.excluded():
        thread = threading.Thread(target=stop.wait, daemon=True)
        thread.start()
    test.end("test_it.py::test_one")
    assert thread not in LeftThreads()
    stop.set()
    thread.join()


def test_a_thread_that_waits_for_work_works_for_who_gives_it() -> None:
    work: queue.Queue[int] = queue.Queue()
    test = OwnThreads()
    with running(threading.Thread(target=lambda: list(iter(work.get, 0)))) as server:
        with ThreadPoolExecutor(1) as pool:
            worker = pool.submit(threading.current_thread).result()
            test.end("test_it.py::test_one")
            waiting = LeftThreads()
            busy, done = threading.Event(), threading.Event()
            pool.submit(lambda: (busy.set(), done.wait()))
            busy.wait()
            working = LeftThreads()
            done.set()
        work.put(0)
    assert server not in waiting
    assert worker not in waiting
    assert worker in working


def test_a_stack_is_known_by_the_function_of_its_thread(stop: threading.Event) -> None:
    inside = threading.Event()

    def goes_on() -> None:
        inside.set()
        stop.wait()

    test = OwnThreads()
    with running(threading.Thread(target=goes_on, daemon=True)) as thread:
        inside.wait()
        test.end("test_it.py::test_one")
        left = LeftThreads()
        file = threading.__file__
        begin = [Line(file, 1, name) for name in ("_bootstrap", "_bootstrap_inner", "run")]
        assert left.of([*begin, Line(__file__, 99, "goes_on"), Line("net.py", 1, "f")]) is thread
        assert left.of([*begin, Line(__file__, 99, "another")]) is None
        assert left.of([Line(__file__, 99, "goes_on")]) is None
        stop.set()


def test_an_event_knows_the_thread_that_was_left() -> None:
    events: Events[object] = Events()
    go, mine, theirs = threading.Event(), object(), object()

    def later() -> None:
        go.wait()
        events.extend([theirs])

    test = OwnThreads()
    with running(threading.Thread(target=later)) as thread:
        test.end("test_it.py::test_one")
        go.set()
    events.append(mine)
    assert list(events) == [theirs, mine]
    assert (events.thread(theirs), events.thread(mine)) == (thread, None)
