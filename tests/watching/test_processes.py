"""Processes that end with the one that answers for them, where Linux is there to be asked."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys

import pytest

from pytest_graphbreak.watching import processes

linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux is asked")


@linux
def test_a_child_whose_parent_is_gone_ends_at_once() -> None:
    child = os.fork()
    if child == 0:
        processes.die_with(os.getpid())  # which is not its parent
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 128 + signal.SIGKILL


@linux
def test_children_are_told_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
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
