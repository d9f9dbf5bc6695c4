"""A script in a process of its own, and the process that watches it.

The script's process sends what it observed to the one that watches: at the end of each compilation
and at the script's end, so that the report and the verdict do not depend on how the script ends, by
``os._exit``, by a signal, by becoming another program. What ``cli.run`` calls, in order::

    the command                              the script's process
    channel = Channel()
    pid, mask = fork()
    code = watch(pid, mask)                  with Reporter(channel, ...) as reporter:  the script
    status = channel.last()                      reporter.end(status)
    complete_record(status, code)

The script has the terminal, the process group and the standard input of the command. Signals that
the command gets are passed on, and if the command is killed so is the script.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from pytest_graphbreak.layers.children import server, spool
from pytest_graphbreak.layers.faults import guard
from pytest_graphbreak.layers.hooks import Note, Patch, do_nothing, note_hook
from pytest_graphbreak.layers.notifier import NOBODY, NOTIFIER, Listener
from pytest_graphbreak.model.forms import Data
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.text.files import put

_PASSED: Final = frozenset(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)
)
"""The signals that are passed on to the script."""
_FREE_SECONDS: Final = 0.5
"""The seconds that sending may take in any script."""
_MOST_SHARE: Final = 0.05
"""The share of the script's time that sending may take besides: of 60 seconds, 0.5 and 3.

Where it has taken more, nothing is sent until the script has run for longer. The last status is
always sent.
"""

ENDED, LEFT, REPLACED, RUNNING = "ended", "left", "replaced", ""


class Status(Data, frozen=True):
    """The status that a script's process sent last.

    ``state``: it ran to its end (``ENDED``), left by ``os._exit`` (``LEFT``), became another
    program (``REPLACED``), or had not ended when it last sent something (``RUNNING``).
    ``refused`` says why it was not run at all.
    """

    record: Record = Record()
    name: str = ""
    state: str = RUNNING
    refused: str = ""


class Channel:
    """The last status of a process, in a file that is replaced in one step."""

    def __init__(self) -> None:
        self._directory = Path(spool.fresh())
        self._directory.mkdir(0o700)
        self._file = self._directory / "status"

    def send(self, status: Status) -> None:
        """Send a status. Raises ``OSError`` if it cannot be written."""
        put(self._file, json.dumps(status.to_dict()).encode())

    def last(self) -> Status | None:
        """Return what was sent last; None if nothing was, as by a script that was killed early."""
        with contextlib.suppress(OSError, ValueError):
            return Status.from_dict(json.loads(self._file.read_bytes()))
        return None

    def close(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)


class Reporter(Listener):
    """Sends what was observed in the script's process: ``peek`` returns it, ``name`` what runs."""

    def __init__(
        self, channel: Channel, peek: Callable[[], Record], name: Callable[[], str]
    ) -> None:
        self._channel = channel
        self._peek = peek
        self._name = name
        self._process = os.getpid()
        self._lock = threading.Lock()
        """Held by the thread that is sending."""
        self._began = time.monotonic()
        self._spent = 0.0
        """Seconds that sending took so far."""
        self._is_over = False
        """Whether the last status was sent: nothing may replace it."""
        self._patches: list[Patch] = []

    def __enter__(self) -> Reporter:
        if NOTIFIER.listener is NOBODY:  # else this process is itself the child of a test
            NOTIFIER.listener = self
        for name, state in (("_exit", LEFT), ("execv", REPLACED), ("execve", REPLACED)):
            # The state is sent before the process ends, or becomes another program. It waits for no
            # other thread's lock: nothing comes after it, and the file is replaced in one step.
            send = note_hook(self._sender(state), do_nothing)
            self._patches.append(Patch(os, name, send))
        return self

    def __exit__(self, *_: object) -> None:
        if NOTIFIER.listener is self:
            NOTIFIER.listener = NOBODY
        for patch in self._patches:
            patch.remove()

    def _sender(self, state: str) -> Note:
        return lambda args, kwargs: self._send(state)

    def on_end(self) -> None:
        self.on_event()

    def on_event(self) -> None:
        """Send what was observed, unless that took too much time or another thread is sending."""
        now = time.monotonic()
        is_too_slow = self._spent > _FREE_SECONDS + _MOST_SHARE * (now - self._began)
        if is_too_slow or not self._lock.acquire(blocking=False):
            return
        try:
            self._send(RUNNING)
            self._spent += time.monotonic() - now
        finally:
            self._lock.release()

    def end(self, status: Status) -> None:
        """Send the last status."""
        if os.getpid() == self._process:
            self._is_over = True
            with contextlib.suppress(OSError):  # the watcher notices that it is missing
                self._channel.send(status)

    def _send(self, state: str) -> None:
        with guard():  # the script itself must not fail from this
            if os.getpid() == self._process and not self._is_over:
                self._channel.send(Status(self._peek(), self._name(), state))


def can_watch() -> bool:
    """Return whether this system can do it; else a script runs in the command's process."""
    return hasattr(os, "fork") and hasattr(signal, "pthread_sigmask")


def fork() -> tuple[int, set[signal.Signals]]:
    """Fork as ``os.fork``; the child dies with its parent, whose signals wait for ``watch``.

    Returns the id of the child, or 0 in it, and the mask of signals that was set before.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            stream.flush()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*_PASSED, signal.SIGCHLD})
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        server.die_with(parent)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return pid, {signal.Signals(number) for number in mask}


def watch(pid: int, mask: set[signal.Signals]) -> int:
    """Wait for the child, pass on the signals that this process gets, and return the exit code.

    Both arguments are what ``fork`` returned. The exit code is as shells give it. Signals that a
    terminal sends (Ctrl-C) are not passed on: the child has them already.
    """
    try:
        while True:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
            number, is_by_process = _next_signal()
            if is_by_process and number != signal.SIGCHLD:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _next_signal() -> tuple[int, bool]:
    """Return the next signal, and whether a process sent it to this one."""
    signals = {*_PASSED, signal.SIGCHLD}
    if not hasattr(signal, "sigwaitinfo"):  # macOS does not say who sent it
        number = signal.sigwait(signals)
        return number, number not in (signal.SIGINT, signal.SIGQUIT)
    about = signal.sigwaitinfo(signals)
    return about.si_signo, about.si_code <= 0  # above 0: sent by the kernel, to the whole group


def complete_record(status: Status | None, code: int) -> Record:
    """Return what was observed, with a note or an error on what may be missing.

    ``code`` is the exit code.
    """
    seen = status or Status()
    if seen.state in (ENDED, LEFT):
        return seen.record
    if seen.state == REPLACED:
        why = "the script became another program (os.exec), and what that compiled is not counted"
        return replace(seen.record, errors=(*seen.record.errors, why))
    # A script that was killed or failed is told by its exit code; one that seems to have done well
    # must not pass with a count that may be too low.
    why = "the script ended without notice, so what it compiled last may not be counted"
    if code == 0:
        return replace(seen.record, errors=(*seen.record.errors, why))
    return seen.record.with_notes(why)
