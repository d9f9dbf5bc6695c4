"""The process that runs code for a command: it ends it in time, and leaves nothing behind.

An order is a command, or a function of this package. A function may run in a fork of this process,
which has imported torch and nothing else: importing torch takes longer than most runs, and what a
run does stays in its fork. Else it runs in a Python of its own, as this module's main program.

It outlives the command that started it, in a session of its own: at the end of
its input, which comes however that one ended, it ends the program that runs and
removes what the command would have removed. If it is killed itself, the system
kills the run, and the command sees it.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import importlib.util
import json
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import asdict

from pytest_graphbreak.layers.dynamo.private import COMPILE

TIMED_OUT: Final = "late"
"""The answer in place of an exit code if the time was over."""
OUT: Final = "out"
ERRORS: Final = "out.err"
_GRACE: Final = 10.0
"""Seconds to wait for a killed program."""


class Order(Struct, frozen=True):
    """What a process is to run, as a line of JSON: ``runner`` writes it.

    It is one of these three:

    - a command: the process becomes ``command`` in ``cwd`` with ``environ``;
    - a function in a Python of its own: the same, and ``command`` is this module with a file as its
      argument, a ``FunctionCall``;
    - a function in a ``fork``, which has torch: it reads that file, ``call``, itself. Where torch
      could not be imported it becomes ``command``.

    What it prints goes to the files ``OUT`` and ``ERRORS`` of ``directory``, which is removed with
    the server; after ``timeout`` seconds it is killed.
    """

    command: list[str]
    cwd: str
    environ: dict[str, str]
    timeout: float
    directory: str
    call: str = ""
    fork: bool = False

    def line(self) -> str:
        """Return the line of the server's input."""
        return f"{json.dumps(asdict(self))}\n"


class FunctionCall(Struct, frozen=True):
    """The content of the file ``call``: ``module:function``, and the file for its ``answer``.

    The function is given ``argument``, and returns what JSON can hold.
    """

    function: str
    argument: Mapping[str, Any]
    answer: str


class Server(Struct):
    """Reads one order per line (JSON); answers each with the pid and then with the exit code.

    It waits for the program with ``select``: for its input, whose end ends the program, and for
    ``_wakeup``, to which Python writes when a child ends.
    """

    has_torch: bool = False
    """Whether torch is imported here, so that a fork has it."""
    is_over: bool = False
    """Whether the input has ended."""
    _inbox: bytes = b""
    """What was read of the input and is no whole order yet."""
    _directory: str = ""
    """The directory of the last order; it is removed at the end."""
    _wakeup: tuple[int, int] = field(default_factory=os.pipe)
    _out: int = 1
    """The descriptor for answers."""

    def serve(self) -> int:
        self._out = os.dup(1)  # imported modules may print
        _replace(1, os.open(os.devnull, os.O_WRONLY))
        for end in self._wakeup:
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # so that the end of a run wakes us up
        signal.set_wakeup_fd(self._wakeup[1])
        adopt_orphans()
        while (order := self._next()) is not None:
            self._directory = order.directory
            code = self._run(order)
            self._reply(code)
        if self._directory:
            shutil.rmtree(self._directory, ignore_errors=True)
        return 0

    def _next(self) -> Order | None:
        """Return the next order, or None at the end of the input."""
        while b"\n" not in self._inbox and not self.is_over:
            self._look(60)
        line, newline, self._inbox = self._inbox.partition(b"\n")
        return Order(**json.loads(line)) if newline else None

    def _look(self, seconds: float) -> None:
        """Wait for input, the end of a child, or this many seconds."""
        ready, _, _ = select.select([0, self._wakeup[0]], [], [], seconds)
        if self._wakeup[0] in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wakeup[0], 4096)
        if 0 in ready:
            data = os.read(0, 65536)
            self._inbox += data
            self.is_over = not data

    def _run(self, order: Order) -> str:
        if order.fork and not self.has_torch:
            self.has_torch = _import_torch()
        me = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._become(order, me)
        self._reply(str(pid))
        until = time.monotonic() + order.timeout
        while not (ended := _has_ended(pid)) and not self.is_over and time.monotonic() < until:
            self._look(max(0.0, min(60.0, until - time.monotonic())))
        kill_group(pid)  # before the pid is free; also what the program left running
        code = self._reap(pid)
        end_orphans()
        return str(code) if ended and code is not None else TIMED_OUT

    def _reap(self, pid: int) -> int | None:
        """Return the exit code of a program that ended or was killed; None if it does not die."""
        until = time.monotonic() + _GRACE
        while not _has_ended(pid):
            if time.monotonic() > until:
                return None
            select.select([self._wakeup[0]], [], [], 0.1)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def _reply(self, text: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # the end of the input says the same
            os.write(self._out, f"{text}\n".encode())

    def _become(self, order: Order, parent: int) -> None:
        """Become the program in the fork: its own session and output, then the order; no return."""
        code = 70  # of a program that cannot begin, or a function that raises (sysexits.h)
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            die_with(parent)
            for end in (*self._wakeup, self._out):
                os.close(end)
            _replace(0, os.open(os.devnull, os.O_RDONLY))
            for number, name in ((1, OUT), (2, ERRORS)):
                _replace(number, _sink(os.path.join(order.directory, name)))
            if not (order.fork and self.has_torch):
                os.chdir(order.cwd)
                os.execve(order.command[0], order.command, order.environ)
            code = answer(order.call)
        except BaseException as error:
            import traceback

            traceback.print_exception(error)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)


def _has_ended(pid: int) -> bool:
    """Return whether a child has ended; it is not reaped, so its id stays its own."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _replace(number: int, file: int) -> None:
    os.dup2(file, number)
    os.close(file)


def _sink(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)


def _import_torch() -> bool:
    """Import torch for later forks, if it can be; else each run reports that itself."""
    try:
        # torch.compile imports the cache of inductor, whatever the backend.
        for name in (
            "torch",
            "torch._dynamo",
            COMPILE.module,
            "torch._inductor.codecache",
            "pytest",
        ):
            if importlib.util.find_spec(name) is not None:
                importlib.import_module(name)
    except Exception:
        return False
    gc.collect()
    gc.freeze()  # a collection in a fork would write to every page, and so copy it
    return True


def answer(call: str) -> int:
    """Do what a file asks for (``runner.Runner.call``), and write its result."""
    with open(call, encoding="utf-8") as file:
        asked = FunctionCall(**json.load(file))
    module, _, function = asked.function.partition(":")
    result = getattr(importlib.import_module(module), function)(asked.argument)
    with open(asked.answer, "w", encoding="utf-8") as file:
        json.dump(result, file)
    return 0


# Functions of Linux by which no process outlives the one that is responsible for it.

# Source: include/uapi/linux/prctl.h.
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36


def die_with(parent: int) -> None:
    """In a child: be killed when ``parent`` ends, however it ends. Does nothing outside of Linux.

    It holds for the program that this process becomes (``exec``), not for its children.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before we asked
        os._exit(128 + signal.SIGKILL)


def adopt_orphans() -> None:
    """Adopt descendants whose parent ended as children of this process; only on Linux."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_orphans() -> None:
    """Kill every child of this process, and those that it adopts when they are gone."""
    for _ in range(1000):
        pids = _children()
        if not pids:
            return
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for pid in pids:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def kill_group(leader: int) -> None:
    """Kill a process and the others of its group, if it exists."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def _children() -> list[int]:
    """Return the children of the main thread of this process; none where Linux lists none."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:
            return [int(word) for word in file.read().split()]
    except (OSError, ValueError):
        return []


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(OSError, AttributeError):  # elsewhere there is no such function
        ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)


if __name__ == "__main__":
    sys.exit(answer(sys.argv[1]) if len(sys.argv) > 1 else Server().serve())
