"""Counts how often graphs ran on the device and the host waited for values, and for which lines.

The numbers are torch_xla's own metrics, read and never cleared: ``ExecuteTime`` and
``ExecuteReplicatedTime`` (SPMD), ``TransferFromDeviceTime``. Graphs run in threads of torch_xla's,
so the devices are waited for before the numbers are read.

The lines come from functions that are watched: of a sync, of a compiled graph that runs, of a value
that is read. Reads call no Python; so, while a window is open, Python kernels replace those of
torch_xla for ``_local_scalar_dense`` (``item()``, ``bool()``, ``float()``), ``_to_copy``
(``cpu()``, ``tolist()``, ``print``, a copy to another device) and ``_to_cpu`` (an operation that
runs on the host), and call them (``torch.library.get_kernel``, torch 2.9). Other reads have no
line.

What ran is counted in operations. A compiled graph has those of its FX graph. Lazy tensors have
those that torch_xla noted since the last run: its counters ``xla::add`` and so on, without those
that only move values. While the bridge lowers a graph it notes operations that do not run; they are
left out.
"""

from __future__ import annotations

import operator
import sys
import threading
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

from pytest_graphbreak.layers.hooks import COUNTING, around_kernel, caller
from pytest_graphbreak.layers.xla import private as native
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import NOWHERE, Frame, LineRuns
from pytest_graphbreak.model.stacks import line_of, users

LAYER: Final = "xla"
_RAN: Final = ("ExecuteTime", "ExecuteReplicatedTime")
_READ: Final = ("TransferFromDeviceTime",)
_LOOKED_UP: Final = ("CachedCompile", "UncachedCompile")
"""The counters of lookups of graphs that are about to run; the bridge may clear them."""
_DEPTH: Final = 6
"""The most frames of a stack that are kept, without those of torch and torch_xla."""
_THEIRS: Final = ("/torch/", "/torch_xla/", "/pytest_graphbreak/layers/")

_KERNELS: Final = {"_local_scalar_dense": "item", "_to_copy": "copy", "_to_cpu": "fallback"}
"""The operators that read, and the cause of a read by each."""

Stack = tuple[tuple[int, int], ...]
"""Frames from the innermost outwards: the ``id`` of the code object, and the instruction."""


class Asked(NamedTuple):
    """The cause of a run or a read, and its place."""

    cause: str
    stack: Stack


class Totals(NamedTuple):
    """The numbers of the metrics so far, and the lines that asked."""

    executions: int
    reads: int
    ran: Counter[Asked]
    read: Counter[Asked]
    ops: Counter[Asked]
    """The operations that ran, for those in ``ran`` for which they are known."""

    def since(self, before: Totals) -> Totals:
        return Totals(
            self.executions - before.executions,
            self.reads - before.reads,
            self.ran - before.ran,
            self.read - before.read,
            Counter({asked: n - before.ops[asked] for asked, n in self.ops.items()}),
        )

    def plus(self, other: Totals) -> Totals:
        return Totals(*map(operator.add, self, other))


NOTHING: Final = Totals(0, 0, Counter(), Counter(), Counter())


class _Doing(threading.local):
    """The state of torch_xla in this thread. A function that lowers calls others that do."""

    reads = False
    lowers = 0


class DeviceRuns:
    """The runs and reads of this process. There is one for all windows, as of the metrics."""

    def __init__(self) -> None:
        self._kept = [0, 0]
        self._ran: Counter[Asked] = Counter()
        self._read: Counter[Asked] = Counter()
        self._ops: Counter[Asked] = Counter()
        self._noted = 0
        """The value of the counters of operations when they were last looked at."""
        self._waiting = 0
        """Operations that were noted before that, and have not run."""
        self._of_graph: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._codes: dict[int, tuple[CodeType, bool]] = {}
        self._library: Any = None
        self._lock = threading.Lock()
        self._local = _Doing()

    def keep(self) -> None:
        """Keep the values of the metrics before the user's code clears them."""
        with suppress(Exception):  # the user's call must go through
            native.wait()
            self._kept[0] += _sum(_RAN)
            self._kept[1] += _sum(_READ)
            self._waiting += self._newly_noted()
            self._noted = 0

    def begin(self) -> None:
        """Drop the operations that wait: an earlier test noted them, or nobody was watching."""
        self._newly_noted()
        self._waiting = 0

    def totals(self) -> Totals:
        """Return everything up to now, once devices are done. Only differences have a meaning."""
        if native.client_open():
            native.wait()
        with self._lock:
            asked = Counter(self._ran), Counter(self._read), Counter(self._ops)
        return Totals(self._kept[0] + _sum(_RAN), self._kept[1] + _sum(_READ), *asked)

    # Functions of torch_xla that run graphs or read values.

    def syncing(self, args: tuple[Any, ...]) -> tuple[Asked, int]:
        return Asked("sync", self._stack()), _looked_up()

    def synced(self, token: tuple[Asked, int] | None, result: Any) -> None:
        if token is not None:
            self._ran_lazily(token[0], _looked_up() - token[1])

    def _ran_lazily(self, asked: Asked, count: int) -> None:
        if count > 0:
            if not self._local.lowers:
                self._waiting += self._newly_noted()
            ops, self._waiting = self._waiting, 0
            self._note(self._ran, asked, count)
            self._note(self._ops, asked, ops)

    def calling(self, args: tuple[Any, ...]) -> None:
        asked = Asked("call", self._stack())
        self._note(self._ran, asked)
        frame = caller()
        graph = frame.f_locals.get("xla_model") if frame is not None else None
        if graph is None:
            return
        ops = self._of_graph.get(graph)
        if ops is None:
            ops = sum(node.op.startswith("call_") for node in graph.graph.nodes)
            self._of_graph[graph] = ops
        self._note(self._ops, asked, ops)

    def lowering(self, args: tuple[Any, ...]) -> bool:
        """Note that the bridge lowers a graph: operations noted meanwhile do not run."""
        if not self._local.lowers:
            self._waiting += self._newly_noted()
        self._local.lowers += 1
        return True

    def lowered(self, token: bool | None, result: Any) -> None:
        if token:
            self._newly_noted()
            self._local.lowers -= 1

    def _newly_noted(self) -> int:
        """Return operations noted since the last call. Counters may be cleared in between."""
        now = native.operations()
        before, self._noted = self._noted, now
        return now - before if now >= before else now

    def _reading(self, cause: str) -> tuple[Asked, int] | None:
        """Return None inside of another read: one kernel of torch_xla may call another."""
        if self._local.reads:
            return None
        self._local.reads = True
        return Asked(cause, self._stack()), _looked_up()

    def _was_read(self, token: tuple[Asked, int], result: Any) -> None:
        self._local.reads = False
        asked, before = token
        self._note(self._read, asked)
        self._ran_lazily(asked._replace(cause="access"), _looked_up() - before)

    def _note(self, counter: Counter[Asked], asked: Asked, count: int = 1) -> None:
        with self._lock:
            counter[asked] += count

    def _stack(self) -> Stack:
        """Return the innermost frames that are not torch's, nor ours."""
        found: list[tuple[int, int]] = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and len(found) < _DEPTH:
            code = frame.f_code
            if code is COUNTING and frame.f_back is not None:
                frame = frame.f_back.f_back  # take the caller of the code that Dynamo made
                continue
            known = self._codes.get(id(code))
            if known is None:
                theirs = any(part in code.co_filename for part in _THEIRS)
                known = self._codes[id(code)] = (code, theirs)
            if not known[1]:
                found.append((id(code), frame.f_lasti))
            frame = frame.f_back
        return tuple(found)

    # Kernels that see reads.

    def attach(self) -> None:
        """Put the kernels in. Without ``get_kernel`` reads have no line."""
        torch = sys.modules["torch"]
        if self._library is not None or not hasattr(torch.library, "get_kernel"):
            return
        library = torch.library.Library("aten", "IMPL")
        for name, cause in _KERNELS.items():
            overload = getattr(torch.ops.aten, name).default
            original = torch.library.get_kernel(overload, "XLA")
            kernel = around_kernel(original.call_boxed, self._asks(cause), self._was_read)
            with _without_warning():
                library.impl(name, kernel, "XLA", with_keyset=True, allow_override=True)
        self._library = library

    def _asks(
        self, cause: str
    ) -> Callable[[tuple[Any, ...], Mapping[str, Any]], tuple[Asked, int] | None]:
        def asks(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Asked, int] | None:
            if cause == "copy" and not _goes_through_the_host(args, kwargs.get("device")):
                return None
            return self._reading(cause)

        return asks

    def detach(self) -> None:
        if self._library is not None:
            self._library._destroy()
            self._library = None

    # What runs and reads are in a record.

    def runs(self, ran: Totals, places: Places) -> Iterator[LineRuns]:
        """Yield the lines that ran graphs."""
        yield from self._asked(ran.ran, ran.executions, places, ran.ops)

    def reads(self, ran: Totals, places: Places) -> Iterator[LineRuns]:
        """Yield the lines that read values."""
        yield from self._asked(ran.read, ran.reads, places)

    def _asked(
        self,
        counter: Mapping[Asked, int],
        total: int,
        places: Places,
        ops: Mapping[Asked, int] | None = None,
    ) -> Iterator[LineRuns]:
        """Yield the lines that asked, ``total`` in all; what nobody noted has no line."""
        left = total
        for asked, noted in counter.items():
            count = min(noted, left)
            left -= count
            if count > 0:
                known = None if ops is None else ops.get(asked)
                where = self._where(asked.stack, places)
                yield LineRuns(LAYER, asked.cause, count=count, ops=known, where=where)
        if left > 0:
            # What it computed counts with the operations of the next one that has a line.
            yield LineRuns(LAYER, "other", count=left, ops=None if ops is None else 0)

    def _where(self, stack: Stack, places: Places) -> Frame:
        lines = [line_of(self._codes[code][0], at) for code, at in reversed(stack)]
        found = users(lines, places)
        return found[-1] if found else NOWHERE


def _goes_through_the_host(args: tuple[Any, ...], device: Any) -> bool:
    """Return whether a copy reads: to the CPU, or to another device, not to another dtype."""
    if device is None or not args:
        return False
    own = args[0].device
    return device.type == "cpu" or (
        device.type == own.type and device.index not in (None, own.index)
    )


def _sum(metrics: tuple[str, ...]) -> int:
    return sum(map(native.samples, metrics))


def _looked_up() -> int:
    return sum(map(native.counter, _LOOKED_UP))


@contextmanager
def _without_warning() -> Iterator[None]:
    """Suppress torch's warning, once in a process, that a kernel replaces another one."""
    show = warnings._showwarnmsg  # type: ignore[attr-defined]
    thread = threading.get_ident()

    def shown(message: Any) -> None:
        if threading.get_ident() != thread:
            show(message)

    warnings._showwarnmsg = shown  # type: ignore[attr-defined]
    try:
        with suppress(UserWarning):  # the user's filters may make it an error; the kernel is in
            yield
    finally:
        warnings._showwarnmsg = show  # type: ignore[attr-defined]
