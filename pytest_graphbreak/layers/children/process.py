"""Watches what a child process of a test compiles, and reports it to the test.

The report is written to the spool, a directory that the test reads, whenever a compilation ends, so
that a child that is killed loses only the compilation that it was at, and once more when the
process ends in order. Runs of compiled graphs are counted in a file as they happen (``RunCounts``).
"""

from __future__ import annotations

import atexit
import os
import re
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from pytest_graphbreak.layers.children.spool import VARIABLE, About, Node, RunCounts, is_alive
from pytest_graphbreak.layers.faults import guard
from pytest_graphbreak.layers.hooks import Patch, do_nothing, note_hook
from pytest_graphbreak.layers.locks import READER_WAIT, Turn
from pytest_graphbreak.layers.notifier import NOTIFIER, CountedFunction, Listener
from pytest_graphbreak.layers.protocol import Observer, Window
from pytest_graphbreak.model.merging import merge
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import Record


class Child(Listener):
    """This process as the child of a test. It is watched to its end.

    ``observer`` makes it as soon as a compiler is imported, or the process is forked. From then on
    sensors call the methods of a ``Listener``: ``on_begin`` and ``on_end`` around a compilation,
    ``on_event`` after others, ``on_run`` at each run; ``end`` is called as the process ends.
    """

    def __init__(
        self, test: About, observers: Sequence[Observer], places: Places, *, forked: bool
    ) -> None:
        self._test = test
        self._pid = os.getpid()
        self._node = Node(test.spool)
        self._forked = forked
        self._worker_at_start = _worker()
        self._running: list[None] = []
        """An item for each compilation that is under way: any thread appends and removes one."""
        self._is_marked = False
        """Whether the spool says that a compilation is under way."""
        self._turn = Turn()
        self._written: Record | None = None
        """The record of the last report; None while the test knows nothing of this process."""
        self._places = places
        self._run_counts: RunCounts | None = None
        self._numbers: dict[tuple[int, Any], int] = {}
        """The index in ``_run_counts`` of each compiled function, by ``id()``, and key: the place
        and the thread that call it. Index 0 is for runs that could not be counted."""
        self._is_silent = False
        """Whether some compilations do not notify us."""
        self.about_children = About(self._node.path, test.root, test.owner, test.infra)
        """What the children of this process find in their environment."""
        self._watched = [observer for observer in observers if _can_watch(observer, forked)]
        self._windows: list[Window] = [observer.open(places) for observer in self._watched]
        os.environ[VARIABLE] = self.about_children.dump()
        NOTIFIER.listener = self
        self._register_exit()
        for observer in self._watched:
            observer.when_silent(self._note_silence)

    def on_begin(self) -> None:
        self._running.append(None)
        self._mark_running()

    def on_end(self) -> None:
        del self._running[-1:]
        self.on_event()
        if not self._running:
            self._mark(False)
            self._is_marked = False
            if self._running:  # another thread began meanwhile
                self._mark_running()

    def _mark_running(self) -> None:
        if not self._is_marked:
            self._is_marked = True
            self._mark(True)

    def on_event(self) -> None:
        """Report what was observed. If another thread is writing, let it write once more."""
        self._turn.take(partial(self._write, final=False))

    def on_run(self, compiled: CountedFunction, key: Any) -> None:
        number = self._numbers.get((id(compiled), key))
        if number is None:
            number = self._first_run(compiled, key)
        if self._run_counts is not None:
            self._run_counts.counts[number] += 1

    def _first_run(self, compiled: CountedFunction, key: Any) -> int:
        """Return the index for a compiled function and a key of it that were not met before."""
        number = 0  # a count there makes all runs of this process unknown
        with guard():
            self._begin_to_count_runs()
            if self._run_counts is not None:
                number = self._run_counts.add(compiled.line(key, self._places))
        self._numbers[id(compiled), key] = number
        if self._written is None:
            self.on_event()
        return number

    def _begin_to_count_runs(self) -> None:
        """Make the counts that the test reads, if it is alive. Raises ``OSError``."""
        if self._run_counts is None and is_alive(self._test.owner):
            self._run_counts = self._node.open_run_counts()

    def end(self) -> None:
        """Write the last report, at each of the ways in which a process ends."""
        if os.getpid() != self._pid:  # a fork of it, which inherited what calls this
            return
        self._turn.take(partial(self._write, final=True), READER_WAIT)

    def _record(self, final: bool) -> Record:
        seen = [window.close() if final else window.peek() for window in self._windows]
        return merge([item for item in seen if item is not None])

    def _note_silence(self) -> None:
        """Report that from now on some compilations do not notify us, so the test can note it."""
        self._is_silent = True
        self.on_event()

    def _write(self, final: bool) -> None:
        with guard():  # the child itself must not fail from this
            record = self._record(final)
            if not self._is_news(record, final) or not is_alive(self._test.owner):
                return
            self._written = record
            self._begin_to_count_runs()  # an empty file says: no runs; without it none are known
            # On a device, or where we are not notified, more may be compiled up to the last report.
            has_device = self._is_silent or any(observer.defers() for observer in self._watched)
            self._node.write(record, self._name(), final=final, device=has_device)

    def _is_news(self, record: Record, final: bool) -> bool:
        """Return whether the test has to be told of a record."""
        if self._written is not None:  # that this process has ended is news, too
            return final or record != self._written
        ran = any(record.executions.values()) or any(record.reads.values())
        return self._is_silent or bool(record.active) or ran

    def _mark(self, compiling: bool) -> None:
        with guard():
            if is_alive(self._test.owner):
                self._node.mark_compiling(compiling, self._name())

    def _name(self) -> str:
        """Return the name of the process, without what changes from run to run."""
        worker = _worker()
        # In a fork by hand the worker is still that of the parent.
        if worker is not None and not (self._forked and worker is self._worker_at_start):
            return _worker_name(worker)
        return "fork" if self._forked else _script()

    def _register_exit(self) -> None:
        atexit.register(self.end)
        if self._forked:
            # multiprocessing ends a forked process by this, and so does code that forks by hand.
            Patch(os, "_exit", note_hook(lambda args, kwargs: self.end(), do_nothing))


def _can_watch(observer: Observer, forked: bool) -> bool:
    """Return whether to watch: not what the test's window sees, or what a fork cannot follow."""
    return not observer.shared and (not forked or observer.follows_fork())


def _worker() -> Any:
    """Return this process as ``multiprocessing`` knows it, or None if it is none of its workers."""
    module = sys.modules.get("multiprocessing.process")
    process = module.current_process() if module is not None else None
    return None if process is None or process.name == "MainProcess" else process


def _worker_name(process: Any) -> str:
    """Return the name that somebody gave, or the default one without its number."""
    name, kind = str(process.name), type(process).__name__
    for default in (kind, kind.replace("Process", "PoolWorker")):
        if re.fullmatch(rf"{re.escape(default)}-[\d:]+", name):
            return default
    return name


def _script() -> str:
    """Return what this Python runs: ``train.py``, ``pytest``, ``python -c``."""
    path = sys.argv[0] if sys.argv else ""
    if path in ("", "-c", "-m", "-"):
        return f"python {path}".strip()
    directory, name = os.path.split(path)
    return os.path.basename(directory) if name == "__main__.py" and directory else name
