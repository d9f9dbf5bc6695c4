"""The sensors that are put into Dynamo while a window is open, and note what Dynamo does.

Sensors are global to the process: they go in with the first open window and
come out with the last. A sensor wraps a function of Dynamo, notes what it needs
while Dynamo compiles and calls the original; it reads no text, writes no log,
changes no setting, and an error in it is noted, never raised. Everything else
is worked out when a window is read (``window_reader``).

Functions are wrapped instead of reading logs: a log record exists only if somebody asked for it, is
cut short for repeated breaks, and the user can see that it is made (levels, ``caplog``; since 9.1
pytest itself hangs handlers on every logger that does not propagate). The functions are always
called.
"""

from __future__ import annotations

import functools
import inspect
import time
import weakref
from collections.abc import Sequence
from functools import partial
from types import CodeType
from typing import Any, Final

from pytest_graphbreak.layers.dynamo import counters
from pytest_graphbreak.layers.dynamo import private as names
from pytest_graphbreak.layers.dynamo.breaks import BreakSensors
from pytest_graphbreak.layers.dynamo.captures import Captures
from pytest_graphbreak.layers.dynamo.counters import Ledger
from pytest_graphbreak.layers.dynamo.events import (
    Attempt,
    Ended,
    Fault,
    Made,
    Missed,
    NotObserved,
    Stance,
    Started,
)
from pytest_graphbreak.layers.dynamo.executions import Counted, GraphRuns
from pytest_graphbreak.layers.dynamo.frames import (
    owner,
    owner_of_graph,
    torch_is_compiling,
    written_forward,
)
from pytest_graphbreak.layers.dynamo.guards import GuardSensor
from pytest_graphbreak.layers.dynamo.messages import exception_text, has_own
from pytest_graphbreak.layers.dynamo.notes import Failed, Notes, Running
from pytest_graphbreak.layers.dynamo.operations import NO_SHAPE, Shape, shape_of
from pytest_graphbreak.layers.dynamo.private import Name, keep_out
from pytest_graphbreak.layers.faults import guard, or_else
from pytest_graphbreak.layers.hooks import (
    FRAMES,
    Hook,
    LatePatch,
    Patch,
    argument,
    caller,
    do_nothing,
    note_hook,
)
from pytest_graphbreak.layers.locks import Turn
from pytest_graphbreak.layers.notifier import NOTIFIER
from pytest_graphbreak.layers.private_names import MissingName
from pytest_graphbreak.model.stacks import first_line

_KEEP_OUT: Final = (names.STRATEGY, names.STRATEGY_KIND, names.ACTION)
"""The names by which Dynamo is kept from compiling hooks: without them none is put in."""
_OF_RUNS: Final = (names.INSTALL, names.CLEANUP)
"""The names without which runs are not counted."""


class DynamoSensors:
    """The sensors of this process, from the first open window to the last.

    Without ``runs`` runs of graphs are not counted.
    """

    def __init__(self, runs: bool = True) -> None:
        self.attached = False
        self.notes = Notes()
        self.executions = GraphRuns() if runs else None
        self._patches: list[Patch] = []
        self._ledger = Ledger()
        self._turn = Turn()
        self._resolved: dict[Name, Any] = {}
        """What this torch has under each private name that was found."""
        self._breaks = BreakSensors(self.notes, self._resolved)
        self._captures = Captures(self.notes)
        self._guards = GuardSensor(self.notes)
        late_hooks = {
            **self._captures.hooks,
            names.EXPORT: self._breaks.on_export,
            names.BUCKETS: self._on_bucket,
        }
        self._late = [
            *(
                LatePatch(name.module, name.chain, hook, partial(self._cannot_install, name))
                for name, hook in late_hooks.items()
            ),
            # Torch may have no such function: then stances are named without a place.
            LatePatch(*names.SET_STANCE, self._stance_hook(), do_nothing),
        ]
        self._parameters: dict[str, int] = {}
        """The positions of those parameters of Dynamo's ``_compile`` that are read."""
        self._blind: list[str] = []
        """What cannot be seen in this torch: an error of each window."""
        self._makers: dict[int, tuple[weakref.ref[Any], Attempt]] = {}
        """The attempt that each ``OutputGraph`` is of, by the ``id()`` of that."""

    def attach(self) -> None:
        """Put the sensors in. ``torch._dynamo`` has to be imported. Faults become events."""
        self.attached = True
        hooks: dict[Name, Hook] = {
            names.COMPILE: self._on_compile,
            names.REASONS: self._guards.on_reasons,
            names.BACKEND: self._on_backend,
            names.INSTALL: self._on_install_global,
            **self._breaks.hooks(),
        }
        can_hook = all(map(names.is_there, _KEEP_OUT))
        if not can_hook:  # Dynamo's own counter is read all the same
            hooks, self.executions = {}, None
        for name in names.required_names(names.torch_version()):
            if name in _OF_RUNS and self.executions is None:
                continue
            errors_before = len(self._blind)
            with guard(partial(self._cannot_install, name)):
                self._install(name, hooks.get(name))
            if len(self._blind) > errors_before and name in _OF_RUNS:
                self.executions = None  # a count of only some runs is no count
        self._ledger.begin(self._resolved.get(names.COUNTERS))
        if self.executions is not None:
            with self.notes.guard("runs of graphs"):
                self.executions.attach()
        if can_hook:
            self._captures.runs = self.executions
            # An export or a load may stand in a function that left the compiler, whose calls Dynamo
            # compiles. ``Patch`` marks the hooks alone, so that the original may be compiled: these
            # are what the hooks call.
            for ours in (*self._captures.ours, self._breaks.note_stop, Notes.guard):
                keep_out(ours)
            for late in self._late:
                late.attach()

    def _cannot_install(self, name: Name, fault: Exception) -> None:
        is_said = isinstance(fault, MissingName)
        error = str(fault) if is_said else names.missing_name(name, exception_text(fault))
        self._blind.append(error)
        self.notes.events.append(NotObserved(error))

    def _install(self, name: Name, hook: Hook | None) -> None:
        owner, attribute = names.find(name)
        target = getattr(owner, attribute)
        self._resolved[name] = target
        if name is names.COMPILE:
            self._parameters = _positions(target, ("code", "locals", "one_graph", "export"))
        if isinstance(target, type):  # what is followed of a class is that it is made
            owner, attribute = target, "__init__"
        if hook is not None:
            self._patches.append(Patch(owner, attribute, hook))

    def blind(self) -> list[str]:
        """Return the errors of every window, whenever it opened: what this torch does not show."""
        return list(self._blind)

    @property
    def counters(self) -> Any:
        """Dynamo's own counters, or None while it is not watched. They are only read."""
        return self._resolved.get(names.COUNTERS)

    def detach(self) -> None:
        """Take the sensors out."""
        for late in reversed(self._late):
            late.detach()
        if self.executions is not None:
            self.executions.detach()
        for patch in reversed(self._patches):
            patch.remove()
        self._patches.clear()

    def note_missed(self, patience: float = 0.0) -> None:
        """Note graphs that Dynamo counted since the last call and no sensor saw.

        For ``patience`` see ``Turn``.
        """
        self._turn.take(self._note_missed, patience)

    def _note_missed(self) -> None:
        with self.notes.guard("Dynamo's counter"):
            if missed := self._ledger.count_missed():
                self.notes.events.append(Missed(missed))

    # Frames: one attempt for each call of _compile.

    def _on_compile(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        running = Running(Attempt())
        with self.notes.guard("frames"):
            self._start(running.attempt, args, kwargs)
        if "skip" in kwargs:  # frames that Dynamo leaves out of its own logs: leave ours out, too
            kwargs["skip"] += FRAMES
        listener = NOTIFIER.listener
        try:
            self.notes.thread.begin(running)
            listener.on_begin()
            result = original(*args, **kwargs)
        except BaseException as fault:
            with self.notes.guard("frames"):
                self._end(running, None, fault)
            raise
        else:
            with self.notes.guard("frames"):
                self._end(running, result, None)
            return result
        finally:
            self.notes.thread.end(running)  # where ``_end`` failed before it did
            listener.on_end()

    def _start(self, attempt: Attempt, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.note_missed()
        attempt.is_torchs = torch_is_compiling(caller())
        if not attempt.is_torchs:
            self.notes.events.append(Started(attempt))
        self.notes.thread.failed = None
        attempt.id = str(kwargs["compile_id"])
        position = self._parameters
        code: CodeType = argument("code", position["code"], args, kwargs)
        values = argument("locals", position["locals"], args, kwargs)
        attempt.code = first_line(code)
        attempt.written = first_line(or_else(None, written_forward, code, values) or code)
        attempt.export = bool(argument("export", position["export"], args, kwargs))
        attempt.fullgraph = bool(argument("one_graph", position["one_graph"], args, kwargs))
        attempt.above, attempt.parent = self.notes.look_up(caller())
        attempt.owner = or_else("", owner, caller(), values)
        self.notes.latest[attempt.code] = attempt
        self._guards.note_modules(attempt, values)

    def _end(self, running: Running, result: Any, fault: BaseException | None) -> None:
        self.notes.thread.end(running)
        attempt = running.attempt
        if fault is not None:
            attempt.outcome = "failed"
            # torch._dynamo.exc.get_exc_message marks what tracing or the backend raised.
            has_begun = has_own(fault, "compile_id")
            attempt.fault = Fault(type(fault).__name__, exception_text(fault), traced=has_begun)
            self.notes.thread.failed = Failed(id(fault), attempt)
        else:
            attempt.outcome = "skipped" if result.guarded_code is None else "compiled"
            if attempt.outcome == "skipped" and running.unlogged:
                self._breaks.add_break(attempt, running.unlogged)
        if not attempt.is_torchs:
            self.notes.events.append(Ended(attempt))
        # What ended it by an exception may have come between the backend and Dynamo's counter.
        since = running.counted if fault is None else None
        if since is not None and not self._ledger.has_counted(since, running.calls):
            self.notes.events.append(
                NotObserved(
                    f"dynamo: the backend made graph {attempt.id}, which Dynamo's own counter "
                    f"({names.COUNTERS.path}['stats']['unique_graphs']) does not have"
                )
            )
        self.note_missed()

    # Graphs: one for each call of the backend that returned. Of all calls that torch makes (2.6 to
    # 2.13), only those of DDP take another way.

    def _on_backend(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        """Handle ``call_user_compiler(output, gm, ...)``."""
        __tracebackhide__ = True
        shape, before = NO_SHAPE, None
        with self.notes.guard("graphs"):
            # It is read now, since a backend may change the graph that it is given.
            gm = argument("gm", 1, args, kwargs)
            shape = shape_of(gm)
            if (running := self.notes.thread.current()) and not running.attempt.owner:
                running.attempt.owner = or_else("", owner_of_graph, gm)
            before = counters.cache_counts(self.counters)
        began = time.perf_counter()
        outer, self.notes.thread.buckets = self.notes.thread.buckets, []
        try:
            result = original(*args, **kwargs)
        finally:
            buckets, self.notes.thread.buckets = self.notes.thread.buckets, outer
        with self.notes.guard("graphs"):
            now = counters.cache_counts(self.counters)
            cached = None if before is None else counters.cache_state(before, now)
            took = time.perf_counter() - began
            self._note_graph(args[0], buckets or [shape], cached, took)
        return result

    def _note_graph(
        self, output: Any, shapes: Sequence[Shape], cached: str | None, took: float
    ) -> None:
        """Note a graph that came back from the backend, by one call or, in buckets, by several."""
        running = self.notes.thread.current()
        attempt = self._maker(output) if running is None else running.attempt
        if attempt is None:
            # torch.export and ahead-of-time compilation trace without a frame.
            attempt = self._captures.capture(getattr(output, "root_tx", None))
        if attempt.is_torchs:
            attempt.is_torchs = False
            self.notes.events.append(Started(attempt))
        first = attempt.graphs
        # Dynamo does not count a graph of an attempt that ended with one: a specialization's.
        if running is not None or first == 0:
            count_before = self._ledger.count_seen()
            self._makers[id(output)] = (weakref.ref(output), attempt)
            if running is not None:
                running.counted = running.counted or count_before
                running.calls += 1
        after_break = _ends_at_break(output)
        for bucket, shape in enumerate(shapes):
            event = Made(
                attempt,
                first + bucket,
                *shape,
                after_break=after_break and bucket == len(shapes) - 1,
                bucket=bucket,
                buckets=len(shapes),
                cached=cached,
                backend_seconds=took / len(shapes) if running is None else None,
            )
            self.notes.events.append(event)
            self.notes.thread.latest_graph = event
        attempt.graphs += len(shapes)

    # DDP cuts one captured graph and calls the backend for each part.
    #
    # Inside the forward pass of ``DistributedDataParallel`` Dynamo's backend is
    # ``DDPOptimizer``: it cuts the graph where DDP's gradient buckets end, and hands each
    # part to the user's backend by ``SubmodCompiler.compile_submod``
    # (torch/_dynamo/backends/distributed.py, 2.9 to 2.13). With one bucket nothing is cut.
    # Dynamo imports the module when it first compiles inside DDP.

    def _on_bucket(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        """Handle ``compile_submod(self, input_mod, ...)``."""
        __tracebackhide__ = True
        shape = NO_SHAPE
        with self.notes.guard("the buckets of DDP"):
            shape = shape_of(argument("input_mod", 1, args, kwargs))
        result = original(*args, **kwargs)
        self.notes.thread.buckets.append(shape)
        return result

    # Stances. One that was set while nobody watched is known, and its place is not.

    def _stance_hook(self) -> Hook:
        """Return the hook of ``_set_stance(stance)``."""
        failed = partial(self.notes.sensor_failed, "torch.compiler.set_stance")
        return note_hook(self._note_stance, failed, after=True)

    def _note_stance(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if (stance := names.current_stance()) != names.DEFAULT_STANCE:
            self.notes.events.append(Stance(stance, self.notes.above()))

    # Runs of graphs.

    def _on_install_global(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        """Handle ``install_global_unsafe(output, name, value)``."""
        __tracebackhide__ = True
        result = original(*args, **kwargs)
        with self.notes.guard("runs of graphs"):
            if self.executions is not None:
                name = argument("name", 1, args, kwargs)
                self.executions.add(args[0].global_scope, name, self.notes.thread.latest_graph)
        return result

    def ran(self) -> Counted:
        """Return all runs of graphs up to now."""
        return {} if self.executions is None else self.executions.calls_so_far()

    def _maker(self, output: Any) -> Attempt | None:
        """Return the attempt that made a graph which is compiled again while it runs.

        That happens for a specialization (``mark_dynamic(specialize_on=...)``).
        Dynamo does not count it; for the device it is one graph more.
        """
        maker = self._makers.get(id(output))
        return maker[1] if maker is not None and maker[0]() is output else None


def _ends_at_break(output: Any) -> bool:
    """Return whether a graph break ended the graph of an ``OutputGraph``."""
    reason = getattr(output, "compile_subgraph_reason", None)
    return bool(getattr(reason, "graph_break", False))


@functools.lru_cache(maxsize=4)
def _positions(function: Any, parameters: tuple[str, ...]) -> dict[str, int]:
    """Return the positions of parameters of a function. Raises ``ValueError`` if one is gone."""
    positions = {name: i for i, name in enumerate(inspect.signature(function).parameters)}
    for name in parameters:
        if name not in positions:
            raise ValueError(f"it has no parameter {name!r} any more")
    return positions
