"""Follows the child processes of a test, and adds what they compiled to its record.

While a window is open, a child that is spawned finds two environment variables:
``GRAPHBREAK_CHILDREN`` is an ``About``, which names a directory for reports (``spool``), and
``PYTHONPATH`` begins with a directory whose ``sitecustomize`` waits for torch and calls ``begin``.
A child that is forked starts by a hook of ``os``. Either becomes a ``Child`` (``process``), which
writes what it sees to the spool, to its end. Its own children write to a directory in that.

In the process of the test ``measuring.measure`` opens a ``Following`` with each window, which reads
the spool and takes off what was there before.

These are not followed: a Python that ignores its environment (``-I``, ``-E``, ``-S``), a child that
is given an environment without the two variables, and a process that was started outside of any
window.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from pytest_graphbreak.layers import observers
from pytest_graphbreak.layers.children import spool
from pytest_graphbreak.layers.children.process import Child
from pytest_graphbreak.layers.children.spool import VARIABLE, About, ProcessRecord
from pytest_graphbreak.layers.faults import guard
from pytest_graphbreak.layers.notifier import NOBODY, NOTIFIER
from pytest_graphbreak.model.merging import added_since, number_names, of_process
from pytest_graphbreak.model.places import Places, places
from pytest_graphbreak.model.record import Record

_SITE = str(Path(__file__).with_name("site"))
_PATH = "PYTHONPATH"


class _Family:
    """This process as a parent: it sets the two variables, and puts them back.

    They are set while a window is open (``enter`` and ``leave``), while tests run of which a later
    window may count the children (``follow_between_windows``), and to the end of a process that
    turns out to be a child itself (``adopt``). A fork is such a child.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._open_windows = 0
        self._between: list[Places] = []
        """The ``places`` of each ``follow_between_windows`` that is under way."""
        self._is_followed = False
        """Whether the variables are in the environment."""
        self._pid = 0
        """The process that ``spool`` was named by: a fork has one of its own."""
        self.spool = ""
        """The directory that children of this process report to."""
        self._child: Child | None = None
        """This process as a child; None in that of the test."""
        self._places: Places | None = None
        """The names of source files in what children report."""
        self._had_path = False
        """Whether ``PYTHONPATH`` was set when this began to follow."""

    def enter(self, places: Places) -> None:
        """Open a window; children are followed from the first one on."""
        with self._lock:
            self._take_spool()
            self._open_windows += 1
            if self._open_windows == 1:
                self._follow(places)

    def leave(self) -> None:
        """Close a window; the last one puts the environment back as it was."""
        with self._lock:
            self._open_windows -= 1
            if self._open_windows or self._child is not None:
                return
            self._unfollow()
            spool.sweep(self.spool)

    @contextlib.contextmanager
    def follow_between_windows(self, places: Places) -> Iterator[None]:
        """Follow children between windows, too: a fixture may start one before the first."""
        with self._lock:
            self._take_spool()
            self._between.append(places)
            if not self._open_windows:
                self._follow(places)
        try:
            yield
        finally:
            with self._lock:
                self._between.remove(places)
                if not self._open_windows and self._child is None:
                    self._unfollow()

    def _follow(self, places: Places) -> None:
        """Set the variables, also where somebody removed them since."""
        if self._child is not None:  # they are set to its end
            return
        self._places = places
        if not self._is_followed:
            self._is_followed, self._had_path = True, _PATH in os.environ
        os.environ[VARIABLE] = self._about()
        _strip_path()
        path = os.environ.get(_PATH)
        os.environ[_PATH] = f"{_SITE}{os.pathsep}{path}" if path else _SITE

    def _unfollow(self) -> None:
        """Take the variables out, or set them as ``follow_between_windows`` needs them."""
        if self._between:
            self._follow(self._between[-1])
            return
        self._is_followed = False
        os.environ.pop(VARIABLE, None)
        _strip_path()
        if not self._had_path and not os.environ.get(_PATH):
            os.environ.pop(_PATH, None)

    def adopt(self, child: Child, places: Places) -> None:
        """Make this process the child of a test; its own children belong to that test too."""
        self._child, self._places = child, places
        self._take_spool()

    def _take_spool(self) -> None:
        """Have children write to the spool of this process, not to that of its parent."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self.spool = spool.fresh()
            atexit.register(self._end, self._pid)
        if self._child is not None:
            self.spool = self._child.about_children.spool

    def _end(self, pid: int) -> None:
        # A fork inherits what is registered; the spool of a child is its test's to remove.
        if pid == os.getpid() and self._child is None:
            spool.remove(self.spool)

    def on_fork(self) -> None:
        """Set up a forked process, in it: if children are followed, it is one of that test."""
        self._lock = threading.RLock()  # a thread that this process does not have may hold it
        is_parent = self._open_windows > 0 or bool(self._between)
        is_watched = is_parent or self._child is not None
        self._open_windows = 0
        self._between = []
        NOTIFIER.listener = NOBODY  # that of the process that was forked
        with guard():
            if is_watched and self._places is not None:
                about = About.load(os.environ.get(VARIABLE) or self._about())
                self.adopt(Child(about, observers(), self._places, forked=True), self._places)

    def _about(self) -> str:
        """Return the value of ``GRAPHBREAK_CHILDREN``."""
        assert self._places is not None
        places = self._places
        return About(self.spool, str(places.root), self._pid, places.infra).dump()


FAMILY = _Family()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=FAMILY.on_fork)


def begin(about: str) -> None:
    """Report what is compiled here to the test that started this process.

    ``sitecustomize`` calls this in a spawned child, with the value of ``GRAPHBREAK_CHILDREN``.
    """
    test = About.load(about)
    if test.owner == os.getpid():  # the test's process became another program: nobody reads
        os.environ.pop(VARIABLE, None)
        return
    test_places = places(Path(test.root))
    test_places.pass_over(test.infra)
    FAMILY.adopt(Child(test, observers(), test_places, forked=False), test_places)


class Following:
    """One stretch of time in which the children of this process are followed."""

    def __init__(self, places: Places) -> None:
        """Begin to follow."""
        self._pid = os.getpid()
        self.unfinished: tuple[str, ...] = ()
        """The processes that were compiling at the last look, and how that may end."""
        FAMILY.enter(places)
        self._seen: tuple[Record, ...] | None = None
        """What was seen in all, once this is closed."""
        self._earlier: tuple[Record, ...] = ()
        """What was seen before the last ``exclude``."""
        self._begin()

    def _begin(self) -> None:
        """Leave out what was reported up to now."""
        reports = spool.read(FAMILY.spool)
        self._before = {child.node: child.record for child in reports}
        self._ended_before = {child.node for child in reports if not child.alive}

    @contextlib.contextmanager
    def exclude(self) -> Iterator[None]:
        """Leave out what children do inside."""
        self._earlier = self.peek()
        try:
            yield
        finally:
            self._begin()

    def peek(self) -> tuple[Record, ...]:
        """Return one record for each child that did something since we opened."""
        return (*self._earlier, *self._records()) if self._seen is None else self._seen

    def close(self) -> tuple[Record, ...]:
        if self._seen is None:
            self._seen = ()
            if os.getpid() == self._pid:  # a fork of ours reports to us, and not to itself
                try:
                    self._seen = (*self._earlier, *self._records())
                finally:
                    FAMILY.leave()
        return self._seen

    def _records(self) -> tuple[Record, ...]:
        """Return one record for each child, without what was there before."""
        reports = []
        for child in spool.read(FAMILY.spool):
            if child.node not in self._ended_before:
                new = added_since(child.record, self._before.get(child.node))
                if _did_something(new) or _note(child):
                    reports.append((child, new))
        names = number_names((child.name for child, _ in reports), [new for _, new in reports])
        self.unfinished = tuple(
            f"in the process {name}: {_note(child)}"
            for (child, _), name in zip(reports, names, strict=True)
            if child.compiling
        )
        return tuple(
            of_process(new.with_notes(_note(child)), name)
            for (child, new), name in zip(reports, names, strict=True)
        )


def _did_something(new: Record) -> bool:
    # A count of None is not known, and may be of something.
    counts = (*new.executions.values(), *new.reads.values())
    return new.active or bool(new.errors) or any(count != 0 for count in counts)


def _note(child: ProcessRecord) -> str:
    """Return a note of what may be missing of a process; empty if nothing is.

    A process that could not be watched (``unseen``) has only that in its directory.
    """
    if child.unseen:
        return f"what it compiled is not counted: {child.unseen}"
    if child.compiling:
        if child.alive:
            return "it was still compiling when the test ended: the rest is not counted"
        return "it ended in the middle of a compilation, which is not counted"
    if child.is_incomplete:
        words = "it was still running" if child.alive else "it was killed"
        return f"{words}: device graphs since its last compilation may be missing"
    return ""


def _strip_path() -> None:
    """Take our directory out of ``PYTHONPATH``; the rest stays as it is."""
    value = os.environ.get(_PATH)
    if value and _SITE in (entries := value.split(os.pathsep)):
        os.environ[_PATH] = os.pathsep.join(entry for entry in entries if entry != _SITE)
