"""Runs a user's script in this process, as ``python script.py`` would.

The script is ``__main__``, ``sys.argv`` and ``sys.path[0]`` are what it expects, the threads that
it leaves behind are waited for, an exception is shown without our frames, and what ``run`` returns
is the script's own exit code. ``graphbreak run`` calls it, with the observers on.
"""

from __future__ import annotations

import atexit
import io
import os
import runpy
import sys
import threading
import time
from collections.abc import Collection, Iterator
from concurrent.futures import thread as futures
from contextlib import contextmanager
from types import CodeType, ModuleType, TracebackType
from typing import Any, Final

from msgspec import Struct

from pytest_graphbreak.text.errors import UserError

_RUNNING_FILES: Final = (
    __file__,
    runpy.__file__,
    "<frozen runpy>",
    "<frozen importlib._bootstrap>",
)
"""The files that run a script: their frames are left out of its tracebacks."""


class UserProgram(Struct, frozen=True):
    """The program to run: a script's path or a module's name, and its arguments.

    ``title`` is what reports call it; a module without one is called by the path of its file.
    """

    name: str
    args: tuple[str, ...] = ()
    is_module: bool = False
    title: str = ""

    def check(self) -> None:
        """Raise ``OSError`` if it is a script that cannot be read."""
        if not self.is_module and not os.path.isdir(self.name):
            with open(self.name, "rb"):
                pass

    def run(self) -> int:
        """Run to the end, including threads that it started, and return the exit code.

        What the script raises is shown as Python shows it, and is the exit code. A ``UserError`` of
        a program of ours is raised.
        """
        before = threading.enumerate()
        with _as_main(self):
            try:
                code = self._execute_to_code()
                wait_for_threads(before)  # what they compile belongs to the script, too
            except KeyboardInterrupt as error:  # while it waits
                _show(error)
                return 130
        return code

    def _execute_to_code(self) -> int:
        try:
            self._execute()
        except SystemExit as stop:
            return _code(stop)
        except UserError:
            raise
        except BaseException as error:
            _show(error)
            return 130 if isinstance(error, KeyboardInterrupt) else 1
        return 0

    def _execute(self) -> None:
        if self.is_module:
            runpy.run_module(self.name, run_name="__main__", alter_sys=True)
            return
        code = _compile(self.name)
        if code is None:
            runpy.run_path(self.name, run_name="__main__")
            return
        # Not runpy.run_path: the module must outlive the run, for atexit and pickle.
        module = sys.modules["__main__"] = ModuleType("__main__")
        vars(module).update(
            __builtins__=sys.modules["builtins"],
            __file__=os.path.abspath(self.name),
            __cached__=None,
            __annotations__={},
        )
        exec(code, vars(module))


def _compile(path: str) -> CodeType | None:
    """Return the code of a script; None for a directory or an archive, which runpy can run."""
    if os.path.isdir(path):
        return None
    path = os.path.abspath(path)  # the name that Python gives to the code of a script
    with io.open_code(path) as file:
        data = file.read()
    if data[:4] == b"PK\x03\x04":  # a ZIP archive
        return None
    return compile(data, path, "exec", dont_inherit=True)


@contextmanager
def _as_main(program: UserProgram) -> Iterator[None]:
    """Set ``sys`` up as the script expects it, and put it back.

    The script's exit handlers see it as the script did: the last one registered is the first run.
    """
    argv, path, main = sys.argv, sys.path, sys.modules["__main__"]
    atexit.register(_set, argv, path, main)
    sys.argv = [program.name, *program.args]
    sys.path = list(path)
    if not getattr(sys.flags, "safe_path", False):
        folder = (
            os.getcwd() if program.is_module else os.path.dirname(os.path.realpath(program.name))
        )
        sys.path[:1] = [folder]  # in place of the directory of the command that runs this
    try:
        yield
    finally:
        atexit.register(_set, sys.argv, sys.path, sys.modules.get("__main__", main))
        _set(argv, path, main)


def _set(argv: list[str], path: list[str], main: ModuleType) -> None:
    sys.argv, sys.path, sys.modules["__main__"] = argv, path, main


def _code(stop: SystemExit) -> int:
    """Return the exit code that Python makes of the argument of ``sys.exit``."""
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code & 0xFF
    settle_streams()
    print(stop.code, file=sys.stderr)
    return 1


def settle_streams() -> None:
    """Flush standard output, and open standard error again if the script closed it."""
    if sys.stdout is not None and not sys.stdout.closed:
        sys.stdout.flush()
    if sys.stderr is None or sys.stderr.closed:
        sys.stderr = open(2, "w", 1, "utf-8", "backslashreplace", closefd=False)  # noqa: SIM115


def _show(error: BaseException) -> None:
    """Print an exception as Python does if nobody caught it, without our frames."""
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in _RUNNING_FILES:
        trace = trace.tb_next
    settle_streams()
    if trace is None and isinstance(error, ImportError):  # runpy found no module of that name
        print(f"graphbreak run: {error}", file=sys.stderr)
        return
    sys.excepthook(type(error), error.with_traceback(trace), trace)


# Waiting for the threads that a script leaves behind, as Python does when it ends.
#
# Python joins those that are no daemons. Workers of a ``ThreadPoolExecutor`` that
# nobody shut down end only with the interpreter, so they are not joined: their
# work is waited for.

_POLL: Final = 0.01
"""Seconds between two looks at the workers of a pool."""


def wait_for_threads(before: Collection[threading.Thread]) -> None:
    """Wait until all threads that are not in ``before`` have ended, or have nothing to do."""
    pools_are_idle = False
    while running := list(_remaining_threads(before)):
        queues = _queues()
        if others := [thread for thread in running if thread not in queues]:
            for thread in others:
                _join(thread)
            pools_are_idle = False  # they may have given work to a pool
        elif pools_are_idle:  # since the look before, and no other thread has been started
            return
        else:
            pools: dict[int, list[threading.Thread]] = {}
            for thread in running:
                pools.setdefault(id(queues[thread]), []).append(thread)
            for workers in pools.values():
                _wait_for_pool(workers)
            pools_are_idle = True


def _join(thread: threading.Thread) -> None:
    try:
        thread.join()
    except RuntimeError:  # it is listed, and only about to start
        time.sleep(_POLL)


def _remaining_threads(before: Collection[threading.Thread]) -> Iterator[threading.Thread]:
    ignored = {threading.current_thread(), *before}
    return (
        thread for thread in threading.enumerate() if thread not in ignored and not thread.daemon
    )


def _queues() -> Any:
    """Return the work queue of each worker of a pool.

    Source: ``_threads_queues`` of concurrent/futures/thread.py, Python 3.10 to 3.13.
    """
    return getattr(futures, "_threads_queues", {})


class _Meeting:
    """A work item at which all workers of a pool meet: all items before it are done then."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self.here: set[threading.Thread] = set()

    def run(self, *_: object) -> None:
        with self._lock:
            self.here.add(threading.current_thread())
        self._is_over.wait()

    def end(self) -> None:
        self._is_over.set()


def _wait_for_pool(workers: list[threading.Thread]) -> None:
    """Wait until the workers of one pool have done all their work, or have ended."""
    meeting = _Meeting()
    queue = _queues()[workers[0]]  # the workers of a pool share it
    for _ in workers:
        queue.put(meeting)
    try:
        while any(worker.is_alive() and worker not in meeting.here for worker in workers):
            workers[0].join(_POLL)
    finally:
        meeting.end()
