"""Explains what the sensors noted, one attempt or event at a time: names, causes, places, words.

``window_reader`` does so for all events of a window, and ``logs.dynamo``, which makes the same
attempts and events of a log: a cause, a source and a place are worked out in one place. Nothing
here runs while Dynamo compiles.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from pytest_graphbreak.layers import origins
from pytest_graphbreak.layers.dynamo import messages
from pytest_graphbreak.layers.dynamo.events import (
    Attempt,
    Broke,
    Event,
    Made,
    Refused,
    Started,
    Stopped,
)
from pytest_graphbreak.layers.dynamo.operations import functions
from pytest_graphbreak.layers.dynamo.reached import through
from pytest_graphbreak.model import stacks
from pytest_graphbreak.model.items import NOWHERE, Break, Eager, Frame, Graph, Recompile
from pytest_graphbreak.model.merging import round_seconds
from pytest_graphbreak.model.places import Places, is_resume
from pytest_graphbreak.model.stacks import Line

LAYER: Final = "dynamo"
_NOTHING_TO_DO = ("no content in function call", "No ops traced")
"""Why Dynamo skips a frame that has nothing to compile, which is no loss."""
_SPECIALIZED = "compiled once more for a specialization of a dynamic size"


class EventReader:
    """Explains attempts and events one by one: why there is a graph, break or recompile, and where.

    ``names`` are those of attempts, by their ``id()``; others are called by their compile id.
    """

    def __init__(self, places: Places, names: Mapping[int, str] | None = None) -> None:
        self._places = places
        self._names = names or {}

    def graph(self, event: Made) -> Graph:
        cause, why = self._cause(event)
        where = self.place(event.attempt)
        return Graph(
            LAYER,
            self.graph_name(event),
            cause,
            ops=event.ops,
            inputs=event.inputs,
            outputs=event.outputs,
            sources=self._sources(event, cause),
            where=where,
            reason=why,
            stack=self._capture_stack(event.attempt, where),
            functions=functions(event.calls, self._places),
            cached=event.cached,
            seconds=seconds_of(event),
            owner=event.attempt.owner or None,
        )

    def _capture_stack(self, attempt: Attempt, where: Frame) -> tuple[Frame, ...]:
        """Return the stack that had a function captured or loaded as a whole, with the function."""
        if not attempt.is_capture:
            return ()
        stack = self._stack(attempt.above)
        return stack if stack and stack[-1] == where else (*stack, where)

    def graph_name(self, event: Made) -> str:
        return self._name(event.attempt, event.number)

    def recompile(self, attempt: Attempt) -> Recompile:
        """Return the recompile of a frame: which guard failed, and what came instead."""
        guard = messages.guard(attempt.failed_guard)
        value = messages.readable(attempt.guard_value)
        return Recompile(
            LAYER,
            self._name(attempt),
            _recompile_reason(guard, value),
            where=self.place(attempt),
            stack=self._stack(attempt.above),
            guard=self._guard(attempt),
            origin=self._origin(attempt, guard),
            seconds=round_seconds(attempt.seconds),
            owner=attempt.owner or None,
        )

    def _origin(self, attempt: Attempt, guard: str) -> Frame:
        """Return the line that sets the attribute or global that the guard names, if only one can.

        Dynamo writes a global as ``G['name']``, and a local variable as ``L['name']``.
        """
        subject = messages.subject(guard)
        is_global = f"G['{subject}']" in attempt.failed_guard
        callers = [line for line in attempt.above if self._places.is_user(line.file)]
        place = origins.setter(subject, is_global, attempt.written, callers, self._places.lines)
        return self._places.frame(*place) if place else NOWHERE

    def _guard(self, attempt: Attempt) -> Frame:
        """Return the user's line that the failed guard comes from, if Dynamo says it."""
        lines = messages.guard_lines(attempt.failed_guard)
        full_lines = [line._replace(file=self._full_path(line, attempt)) for line in lines]
        stack = self._stack([line for line in full_lines if self._places.is_user(line.file)])
        return stack[-1] if stack else NOWHERE

    def _full_path(self, line: Line, attempt: Attempt) -> str:
        return self._places.full_path(line.file, line.line, line.code or "", attempt.code.file)

    def graph_break(self, event: Broke, spent: float | None = None) -> Break:
        """Return a break, with the seconds that the graphs after it took."""
        why = event.reason
        above = event.attempt.above if event.attempt is not None and not event.full_stack else ()
        stack = self._stack((*above, *event.stack))
        return Break(
            LAYER,
            why.text,
            where=stack[-1] if stack else NOWHERE,
            id=why.id,
            explanation=f"{why.explanation}{_in_fsdp(event.stack)}",
            hints=why.hints,
            stack=stack,
            disabled=self._disabled_line(event.disabled),
            raised=_of_torch(event.raised),
            through=through(event, self._places),
            seconds=spent,
            owner=(event.attempt and event.attempt.owner) or None,
        )

    def _disabled_line(self, function: Line) -> Frame:
        """Return the first line of the user's function that is disabled: its decorator or def."""
        return self._places.frame(*function) if self._places.is_user(function.file) else NOWHERE

    def eager(self, event: Event) -> Eager | None:
        """Return the code that an event says was left to eager, if it says so."""
        if isinstance(event, Refused) and self._places.is_written(event.code.file):
            why = messages.reason(event.message).text
            return Eager(
                LAYER, why, self._function(event.code), caller=self._caller_that_broke(event.parent)
            )
        if isinstance(event, Stopped):
            stack = self._stack((*event.above, *event.traced))
            why = messages.export_stop(event.kind, event.message)
            return Eager(LAYER, why, stack[-1] if stack else NOWHERE)
        if isinstance(event, Started) and (why := _why_eager(event.attempt)):
            return self.left_to_eager(event.attempt, why)
        return None

    def left_to_eager(self, attempt: Attempt, why: str) -> Eager:
        """Return the function that an attempt left to eager."""
        spent, owner = round_seconds(attempt.seconds), attempt.owner or None
        caller = self._caller_that_broke(attempt.parent)
        return Eager(LAYER, why, self.place(attempt), caller=caller, seconds=spent, owner=owner)

    def _caller_that_broke(self, parent: Attempt | None) -> Frame:
        """Return the function that left the compiler: so Dynamo came to those that it calls."""
        return self.place(parent) if parent is not None and parent.why_broke else NOWHERE

    def place(self, attempt: Attempt) -> Frame:
        """Return the function; for the rest of one, where it goes on; for a library, the call."""
        return self._function(attempt.written, attempt.above)

    def _name(self, attempt: Attempt, number: int = 0) -> str:
        name = self._names.get(id(attempt), attempt.id)
        return f"{name}+{number}" if number else name

    def _cause(self, event: Made) -> tuple[str, str]:
        """Return why there is this graph, and the evidence.

        - ``bucket``: DDP cut a graph, and this is no first part of it;
        - ``recompile``: the same attempt once more (``0/0+1``), or guards failed (``0/1``);
        - ``break``: the rest of a function that broke;
        - ``callee``: a function that was called by one that broke;
        - ``entry``: nothing that Dynamo compiled led to it.
        """
        attempt = event.attempt
        if event.bucket:
            first = self._name(attempt, event.number - event.bucket)
            return "bucket", f"DDP cut graph {first} into {event.buckets} gradient buckets"
        if event.number:  # the same attempt called its backend once more, and DDP cut nothing
            return "recompile", _SPECIALIZED
        if attempt.guards is not None:
            return "recompile", messages.guard(attempt.failed_guard)
        why = attempt.parent.why_broke if attempt.parent is not None else ""
        if is_resume(attempt.code.name):
            return "break", why
        return ("callee", why) if attempt.parent is not None else ("entry", "")

    def follows(self, event: Made) -> Broke | None:
        """Return the break that a graph exists for."""
        parent = event.attempt.parent
        if parent is None or self._cause(event)[0] not in ("break", "callee"):
            return None
        # An attempt that restarts meets its breaks again: the last one is where it ended.
        return next(reversed(parent.breaks.values()), None)

    def _sources(self, event: Made, cause: str) -> tuple[str, ...]:
        """Return the graph that this one was cut from: the nearest function above that made one."""
        if cause == "bucket":
            return (self._name(event.attempt, event.number - event.bucket),)
        if cause not in ("break", "callee"):
            return ()
        parent = event.attempt.parent
        while parent is not None and not parent.graphs:
            parent = parent.parent
        return (self._name(parent),) if parent is not None else ()

    def _stack(self, lines: Sequence[Line]) -> tuple[Frame, ...]:
        return stacks.users(lines, self._places)

    def _function(self, code: Line, above: Sequence[Line] = ()) -> Frame:
        if not self._places.is_user(code.file) and (stack := self._stack(above)):
            return stack[-1]
        if not code.file:
            return NOWHERE
        if is_resume(code.name):
            return self._places.frame(code.file, code.line, code.name)
        return self._places.definition(code.file, code.line, code.name)


def seconds_of(event: Made) -> float | None:
    """Return the seconds of a graph: tracing and backend of its frame, or of the backend alone."""
    if event.backend_seconds is not None:
        return round_seconds(event.backend_seconds)
    took = event.attempt.seconds
    return None if took is None else round_seconds(took / event.buckets)


def _of_torch(line: Line) -> Frame:
    """Return a line of torch, its file from the package on: ``torch/_dynamo/exc.py``."""
    file = line.file.replace("\\", "/").rpartition("/torch/")[2]
    return Frame(f"torch/{file}", line.name, line.line) if file else NOWHERE


_EXPECTED_TYPE: Final = re.compile(r"\), type=[\"']?(?:[\w.]*\.)?(\w+)")


def _recompile_reason(guard: str, value: str) -> str:
    """Return the reason of a recompile: the failed guard, and what came in its place.

    A guard that says less than the value, by an address or by names of torch, comes after it, or is
    left out.
    """
    if not value:
        return guard
    if guard.startswith("___check_obj_id("):
        return f"{value} ({guard})"
    if guard.startswith("___check_type_id("):
        expected = _EXPECTED_TYPE.search(guard)
        return f"{value}, {expected[1]} before" if expected else value
    if " dispatch key set mismatch" in guard:
        guard = guard.partition(". expected ")[0]
    return f"{guard} ({value})"


def _in_fsdp(stack: Sequence[Line]) -> str:
    """Return what is added to the explanation of a break that hooks of FSDP make."""
    files = (line.file.replace("\\", "/") for line in stack)
    if any("/torch/distributed/fsdp/" in file for file in files):
        return " It is called by a hook of FSDP (torch/distributed/fsdp)."
    return ""


def _why_eager(attempt: Attempt) -> str:
    """Return why an attempt left its function to eager; empty if it did not."""
    fault = attempt.fault
    if fault is not None:
        if not fault.suppressed:
            return ""
        if limit := messages.limit(fault.kind, fault.message):
            return limit
        return attempt.why_broke or messages.error(fault.kind, fault.message)
    if attempt.outcome != "skipped" or any(words in attempt.skip for words in _NOTHING_TO_DO):
        return ""
    return attempt.why_broke or (messages.reason(attempt.skip).text if attempt.skip else "")
