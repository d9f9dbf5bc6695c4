"""The sensors that are put into Dynamo while a window is open, and note what Dynamo does.

A sensor wraps a function of Dynamo, notes what it needs while Dynamo compiles and calls the
original. It reads no text, writes no log, changes no setting, and an error in it is noted, never
raised. All sensors note events in one list (``Notes``); everything else is worked out when a window
is read (``window_reader``). These modules have the hooks, and ``DynamoSensors`` puts them in:

``sensors``     attempts to compile a frame, here; stances of the compiler
``graphs``      graphs that the backend made
``breaks``      graph breaks, functions left to eager, exports that are stopped
``guards``      which guards failed before a frame is compiled again
``captures``    functions that are captured as a whole, or loaded
``executions``  runs of graphs

Sensors are global to the process: ``observer`` makes them with the first open window, calls
``attach`` as soon as Dynamo is imported, and ``detach`` with the last window.

Functions are wrapped instead of reading logs: a log record exists only if somebody asked for it, is
cut short for repeated breaks, and the user can see that it is made (levels, ``caplog``; since 9.1
pytest itself hangs handlers on every logger that does not propagate). The functions are always
called.
"""

from __future__ import annotations

import functools
import inspect
from functools import partial
from types import CodeType
from typing import Any, Final

from pytest_graphbreak.layers.dynamo import private as names
from pytest_graphbreak.layers.dynamo.breaks import BreakSensors
from pytest_graphbreak.layers.dynamo.captures import Captures
from pytest_graphbreak.layers.dynamo.counters import Ledger
from pytest_graphbreak.layers.dynamo.events import (
    Attempt,
    Ended,
    Fault,
    Missed,
    NotObserved,
    Stance,
    Started,
)
from pytest_graphbreak.layers.dynamo.executions import Counted, GraphRuns
from pytest_graphbreak.layers.dynamo.frames import owner, torch_is_compiling, written_forward
from pytest_graphbreak.layers.dynamo.graphs import GraphSensors
from pytest_graphbreak.layers.dynamo.guards import GuardSensor
from pytest_graphbreak.layers.dynamo.kept_out import keep_out
from pytest_graphbreak.layers.dynamo.messages import exception_text, has_own
from pytest_graphbreak.layers.dynamo.notes import Failed, Notes, Running
from pytest_graphbreak.layers.dynamo.private import Name
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
    """The sensors of this process, from the first open window to the last."""

    def __init__(self, runs: bool = True) -> None:
        self.attached = False
        self.notes = Notes()
        self.executions = GraphRuns() if runs else None
        """None where runs of graphs are not counted: nobody wants it, or this torch cannot."""
        self._patches: list[Patch] = []
        self._ledger = Ledger()
        self._turn = Turn()
        self._resolved: dict[Name, Any] = {}
        """What this torch has under each private name that was found."""
        self._breaks = BreakSensors(self.notes, self._resolved)
        self._captures = Captures(self.notes)
        self._graphs = GraphSensors(self.notes, self._ledger, self._captures, self._resolved)
        self._guards = GuardSensor(self.notes)
        late_hooks = {
            **self._captures.hooks,
            names.EXPORT: self._breaks.on_export,
            names.BUCKETS: self._graphs.on_bucket,
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
        self.blind: list[str] = []
        """What this torch does not show: errors of each window, also of one that opens later."""

    def attach(self) -> None:
        """Put the sensors in. ``torch._dynamo`` has to be imported. Faults become events."""
        self.attached = True
        hooks: dict[Name, Hook] = {
            names.COMPILE: self._on_compile,
            names.REASONS: self._guards.on_reasons,
            names.BACKEND: self._graphs.on_backend,
            names.INSTALL: self._on_install_global,
            **self._breaks.hooks(),
        }
        can_hook = all(map(names.is_there, _KEEP_OUT))
        if not can_hook:  # Dynamo's own counter is read all the same
            hooks, self.executions = {}, None
        for name in names.required_names(names.torch_version()):
            if name not in _OF_RUNS or self.executions is not None:
                with guard(partial(self._cannot_install, name)):
                    self._install(name, hooks.get(name))
        if not self._resolved.keys() >= {*_OF_RUNS}:
            self.executions = None  # a count of only some runs is no count
        self._ledger.begin(self._resolved.get(names.COUNTERS))
        if self.executions is not None:
            with self.notes.guard("runs of graphs"):
                self.executions.attach()
        if can_hook:
            self._attach_late()

    def _attach_late(self) -> None:
        """Put in what waits for a module of torch to be imported."""
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
        self.blind.append(error)
        self.notes.events.append(NotObserved(error))

    def _install(self, name: Name, hook: Hook | None) -> None:
        owner, attribute = names.find(name)
        target = getattr(owner, attribute)
        if name is names.COMPILE:
            self._parameters = _positions(target, ("code", "locals", "one_graph", "export"))
        if isinstance(target, type):  # what is followed of a class is that it is made
            owner, attribute = target, "__init__"
        if hook is not None:
            self._patches.append(Patch(owner, attribute, hook))
        self._resolved[name] = target

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
        """Note an attempt, first of all, and then what it is at: where that fails, it counts."""
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
        """Note what ``_compile`` returned, or the exception that it raised."""
        self.notes.thread.end(running)
        attempt = running.attempt
        if fault is not None:
            attempt.outcome = "failed"
            # What tracing or the backend raised has the id of its compilation from
            # get_exc_message of torch/_dynamo/exc.py.
            has_begun = has_own(fault, "compile_id")
            attempt.fault = Fault(type(fault).__name__, exception_text(fault), traced=has_begun)
            self.notes.thread.failed = Failed(id(fault), attempt)
        else:
            attempt.outcome = "skipped" if result.guarded_code is None else "compiled"
            if attempt.outcome == "skipped" and running.unlogged:
                self._breaks.add_break(attempt, running.unlogged)
        if not attempt.is_torchs:
            self.notes.events.append(Ended(attempt))
        if fault is None:  # else it may have come between the backend and Dynamo's counter
            self._check_count(running)
        self.note_missed()

    def _check_count(self, running: Running) -> None:
        """Note an error if Dynamo's own counter does not have the graphs of an attempt."""
        if running.counted and not self._ledger.has_counted(running.counted, running.calls):
            self.notes.events.append(
                NotObserved(
                    f"dynamo: the backend made graph {running.attempt.id}, which Dynamo's own "
                    f"counter ({names.COUNTERS.path}['stats']['unique_graphs']) does not have"
                )
            )

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


@functools.lru_cache(maxsize=4)
def _positions(function: Any, parameters: tuple[str, ...]) -> dict[str, int]:
    """Return the positions of parameters of a function. Raises ``ValueError`` if one is gone."""
    positions = {name: i for i, name in enumerate(inspect.signature(function).parameters)}
    for name in parameters:
        if name not in positions:
            raise ValueError(f"it has no parameter {name!r} any more")
    return positions
