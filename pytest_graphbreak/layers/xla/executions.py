"""Counts how often graphs ran on the device and the host waited for values, and for which lines.

The numbers come from torch_xla's own metrics (``meter``). They are read where a window opens and
closes, and nowhere else.

The lines come from functions of torch_xla that are watched: of a sync, of a compiled graph that
runs. The line of a read comes from ``aten::item``, which ``item()``, ``bool()``, ``float()``,
``int()`` and an index call: while a window is open a kernel of ours is in its place for tensors of
torch_xla, and calls ``aten::_local_scalar_dense`` as torch's own does. It is called, and calls,
without a lock of torch_xla's and without the interpreter's. Other reads (``cpu()``, ``tolist()``,
``print``, an operation that runs on the host, all under ``inference_mode``) are counted and have no
line: their kernels are entered with the interpreter's lock and would keep it while torch_xla waits
for the device, which is a deadlock where another thread needs both.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

from pytest_graphbreak.layers.dynamo.kept_out import keep_out, never_compile
from pytest_graphbreak.layers.faults import guard
from pytest_graphbreak.layers.hooks import COUNTING
from pytest_graphbreak.layers.imports import directory
from pytest_graphbreak.layers.xla import private as native
from pytest_graphbreak.layers.xla.meter import Meter
from pytest_graphbreak.model.items import NOWHERE, Frame, LineRuns
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.stacks import line_of, users

LAYER: Final = "xla"
_DEPTH: Final = 6
"""The most frames of a stack that are kept, without those of torch and torch_xla."""
_THEIRS: Final = ("torch", "torch_xla", "pytest_graphbreak.layers")
"""Packages whose frames are left out of stacks."""

Lookups = tuple[int | None, int | None]
"""Two counters of torch_xla: graphs found in its cache, and graphs that were not; None for zero.

Each graph that runs is looked up, so they differ before and after a call that runs one.
"""

Stack = tuple[tuple[int, int], ...]
"""Frames from the innermost outwards: the ``id`` of the code object, and the instruction."""


class Request(NamedTuple):
    """The cause of a run or a read, and the stack of the line that asked for it."""

    cause: str
    stack: Stack


READ: Final = "item"
"""The cause of a read. Those of runs are ``sync``, ``call`` (of a compiled function) and ``access``
(a value was read that had to be computed first)."""


class Moment(NamedTuple):
    """The numbers of the metrics at one moment, and of the requests that were noted."""

    executions: int = 0
    reads: int = 0
    requests: int = 0


class Totals(NamedTuple):
    """How much ran and was read in a window, and how often each line asked for it."""

    executions: int
    reads: int
    requests: Counter[Request]


class _Lowering(threading.local):
    """How many functions that lower graphs are running in this thread: they call each other."""

    depth = 0


class DeviceRuns:
    """The runs and reads of this process. There is one for all windows, as of the metrics.

    ``sensors`` calls ``attach`` and ``detach``, and puts the hooks (``before_sync``, ...) around
    functions of torch_xla. A window (``observer``) asks for the ``mark`` where it opens and where
    it closes, and at the end for the ``totals`` and their ``lines``.

    A step notes by appending to a list, which any thread and any signal handler may do at any
    moment; all is added up when a window is read.
    """

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._requests: list[Request] = []
        self._same: dict[Request, Request] = {}
        """Each place once, so that a step adds no more than a reference."""
        self._codes: dict[int, CodeType] = {}
        self._is_users: dict[int, bool | None] = {}
        """By the ``id`` of code, whose its frames are::

            True     the user's: a stack ends there
            False    a library's, which is kept in a stack
            None     torch's or ours, which no stack has
        """
        self._theirs: tuple[str, ...] = ()
        """The directories of ``_THEIRS``."""
        self._places: Places | None = None
        """Tells the user's files from libraries'; None before ``attach``."""
        self._library: Any = None
        """Holds our kernel: torch takes that out once this is collected (torch/library.py)."""
        self._watched = False
        """Whether a window counts runs: else the kernel only passes calls on."""
        self._counter_value: Callable[[str], int | None] = lambda name: None
        """The function of torch_xla, once runs are counted: a step calls it four times."""
        self._lowering = _Lowering()

    def mark(self) -> Moment:
        """Return how much there was up to now. Only differences have a meaning."""
        return Moment(*self._meter.runs(), len(self._requests))

    def totals(self, spans: Iterable[tuple[Moment, Moment]]) -> Totals:
        """Return what there was in these stretches."""
        executions = reads = 0
        requests: Counter[Request] = Counter()
        for begin, end in spans:
            executions += end.executions - begin.executions
            reads += end.reads - begin.reads
            requests.update(self._requests[begin.requests : end.requests])
        return Totals(executions, reads, requests)

    def _note(self, request: Request) -> None:
        self._requests.append(self._same.setdefault(request, request))

    # Functions of torch_xla that run graphs.

    def _lookups(self) -> Lookups:
        """Return how many graphs about to run were found in the cache, and how many compiled.

        Counters may be cleared: only whether they differ has a meaning.
        """
        value = self._counter_value
        return value("CachedCompile"), value("UncachedCompile")

    def before_sync(self, args: tuple[Any, ...]) -> Lookups:
        return self._lookups()

    def after_sync(self, before: Lookups | None, result: Any) -> bool:
        """Note what a sync ran; return whether something was compiled, and not for the bridge."""
        after = self._lookups()
        if before is None or before == after:  # ``before_sync`` failed, or nothing was pending
            return False
        self._note(Request("sync", self._stack()))
        return before[1] != after[1] and not self._lowering.depth

    def before_call(self, args: tuple[Any, ...]) -> None:
        self._note(Request("call", self._stack()))

    def before_lower(self, args: tuple[Any, ...]) -> bool:
        """Note that the bridge lowers a graph: what it syncs meanwhile is its own."""
        self._lowering.depth += 1
        return True

    def after_lower(self, token: bool | None, result: Any) -> None:
        if token:  # None if ``before_lower`` failed
            self._lowering.depth -= 1

    def _stack(self) -> Stack:
        """Return the frames from the innermost that is not torch's to the user's, if any."""
        frames: list[tuple[int, int]] = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and len(frames) < _DEPTH:
            code = frame.f_code
            # Code that Dynamo made calls the function that counts runs of its graphs
            # (``hooks.count_calls``): the caller of that code is taken.
            if code is COUNTING and frame.f_back is not None:
                frame = frame.f_back.f_back
                continue
            try:
                is_users = self._is_users[id(code)]
            except KeyError:
                is_users = self._classify(code)
            if is_users is not None:
                frames.append((id(code), frame.f_lasti))
                if is_users:
                    break
            frame = frame.f_back
        return tuple(frames)

    def _classify(self, code: CodeType) -> bool | None:
        """Return whose frames of this code are, and remember it."""
        self._codes[id(code)] = code  # its id stays its own
        file = code.co_filename
        theirs = file.startswith(self._theirs)
        is_users = None if theirs else self._places is not None and self._places.is_user(file)
        self._is_users[id(code)] = is_users
        return is_users

    # The kernel that sees reads.

    def attach(self, places: Places) -> None:
        """Put the kernel in, for good; ``places`` says which frames are the user's.

        Raises ``MissingName``.
        It stays when nobody watches, and then only passes calls on: torch's table of kernels must
        not change while another thread calls one (``OperatorEntry::lookup`` takes no lock).
        """
        if self._places is not places:  # of a pytest run in a test, say
            self._places = places
            self._is_users = {}
        self._theirs = tuple(map(directory, _THEIRS))
        self._watched = True
        self._counter_value = native.function("_xla_counter_value")
        if self._library is None:
            library = sys.modules["torch"].library.Library("aten", "IMPL")
            with suppress(RuntimeError):  # somebody else has put one there: reads have no line
                library.impl("item", self._kernel(), "AutogradXLA")
            self._library = library

    def detach(self) -> None:
        self._watched = False
        self._requests.clear()
        self._same.clear()
        self._lowering = _Lowering()  # an exception may have ended something half-way

    def _kernel(self) -> Callable[[Any], Any]:
        """Return ``aten::item`` as ``item`` of ATen/native/Scalar.cpp has it, with our notes."""
        torch: Any = sys.modules["torch"]
        value_of = torch.ops.aten._local_scalar_dense.default
        kinds = (torch.Tensor, torch.nn.Parameter)

        def item(tensor: Any) -> Any:
            count = tensor.numel()
            if count != 1:
                raise RuntimeError(f"a Tensor with {count} elements cannot be converted to Scalar")
            if not self._watched or type(tensor) not in kinds:
                return value_of(tensor)
            before = self._lookups()
            value = value_of(tensor)
            with guard():  # the value must get to the user's code
                self._note_read(before)
            return value

        never_compile(item.__code__)
        keep_out(self._lookups)
        keep_out(self._note_read)
        return item

    def _note_read(self, before: Lookups) -> None:
        stack, after = self._stack(), self._lookups()
        self._note(Request(READ, stack))
        if after != before:  # the value had to be computed first: a graph ran for it
            self._note(Request("access", stack))

    # What runs and reads are in a record.

    def lines(self, ran: Totals, places: Places) -> tuple[Sequence[LineRuns], Sequence[LineRuns]]:
        """Return the lines that ran graphs, and those that read values."""
        runs = {key: count for key, count in ran.requests.items() if key.cause != READ}
        reads = {key: count for key, count in ran.requests.items() if key.cause == READ}
        return (
            [*self._lines(runs, ran.executions, places)],
            [*self._lines(reads, ran.reads, places)],
        )

    def _lines(
        self, requests: Mapping[Request, int], total: int, places: Places
    ) -> Iterator[LineRuns]:
        """Yield the lines that asked, ``total`` in all; what nobody noted has no line.

        With 7 runs by the metric and 5 noted requests these are 5 runs with lines, and 2 without.
        """
        remaining = total
        for request, noted in requests.items():
            count = min(noted, remaining)
            remaining -= count
            if count > 0:
                where = self._frame(request.stack, places)
                yield LineRuns(LAYER, request.cause, count=count, where=where)
        if remaining > 0:
            yield LineRuns(LAYER, count=remaining)

    def _frame(self, stack: Stack, places: Places) -> Frame:
        lines = [line_of(self._codes[code], at) for code, at in reversed(stack)]
        frames = users(lines, places)
        return frames[-1] if frames else NOWHERE
