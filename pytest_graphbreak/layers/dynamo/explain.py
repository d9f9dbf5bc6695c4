"""What the sensors noted, made into an ``Observation``: names, causes, places, words.

Nothing here runs while Dynamo compiles. A window is a slice of the events; it
is read when it closes, or when somebody looks.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_graphbreak.layers.dynamo import messages as text
from pytest_graphbreak.layers.dynamo.events import (
    Attempt,
    Broke,
    Code,
    Event,
    Fell,
    Line,
    Made,
    Missed,
    Refused,
    Started,
    Stopped,
)
from pytest_graphbreak.model.places import Places, function_name, is_resume
from pytest_graphbreak.model.record import (
    NOWHERE,
    Break,
    Eager,
    Frame,
    Graph,
    Observation,
    Recompile,
    merge_eager,
    merge_places,
)

LAYER = "dynamo"
_NOTHING_TO_DO = ("no content in function call", "No ops traced")
"""Why Dynamo skips a frame that has nothing to compile: that is no loss."""


def observation(events: Sequence[Event], places: Places, errors: Sequence[str] = ()) -> Observation:
    """Everything that one window saw. ``errors`` are the window's own, and come first."""
    return _Reading(events, places).observation(errors)


class _Reading:
    """One pass over the events of a window."""

    def __init__(self, events: Sequence[Event], places: Places) -> None:
        self._places = places
        self._events = events
        self._attempts = [event.attempt for event in events if isinstance(event, Started)]
        self._names = _names(self._attempts)
        self._breaks = {
            id(event): self._break(event) for event in events if isinstance(event, Broke)
        }

    def observation(self, errors: Sequence[str]) -> Observation:
        made = [event for event in self._events if isinstance(event, Made)]
        missed = sum(event.graphs for event in self._events if isinstance(event, Missed))
        recompiles = [a for a in self._attempts if a.guards is not None and a.outcome == "compiled"]
        return Observation(
            LAYER,
            graphs=len(made) + missed,
            recompiles=len(recompiles),
            attempted=len(self._attempts),
            compiled=sum(attempt.outcome == "compiled" for attempt in self._attempts),
            breaks=merge_places(self._breaks.values()),
            eager=merge_eager(self._eager()),
            recompile_list=tuple(
                Recompile(
                    LAYER,
                    self._names[id(a)],
                    _failed(a),
                    self._where(a),
                    self._stack(a.above, ()) if a.above else (),
                )
                for a in recompiles
            ),
            graph_list=tuple(self._graph(event) for event in made),
            errors=tuple(dict.fromkeys([*errors, *self._errors(missed)])),
            notes=tuple(dict.fromkeys(self._notes())),
        )

    def _graph(self, event: Made) -> Graph:
        attempt = event.attempt
        cause, why = self._cause(event)
        return Graph(
            LAYER,
            self._graph_name(attempt, event.number),
            cause,
            ops=event.ops,
            inputs=event.inputs,
            outputs=event.outputs,
            sources=self._cut_from(event, cause),
            where=self._where(attempt),
            reason=why,
        )

    def _graph_name(self, attempt: Attempt, number: int) -> str:
        name = self._names.get(id(attempt), attempt.id)
        return f"{name}+{number}" if number else name

    def _cause(self, event: Made) -> tuple[str, str]:
        """Why there is this graph, and the evidence."""
        attempt = event.attempt
        if event.part:
            whole = self._graph_name(attempt, event.number - event.part)
            return "bucket", text.buckets(whole, event.parts)
        if event.number:
            return "recompile", _SPECIALIZED
        if attempt.guards is not None:
            return "recompile", text.guard(attempt.guards)
        if is_resume(attempt.code[2]):
            return "break", self._why_broke(attempt.parent)
        if attempt.parent is not None:
            return "callee", self._why_broke(attempt.parent)
        return "entry", ""

    def _why_broke(self, attempt: Attempt | None) -> str:
        """The break that ended an attempt."""
        broke = list(attempt.broke.values()) if attempt is not None else []
        return text.reason(broke[-1].message).text if broke else ""

    def _cut_from(self, event: Made, cause: str) -> tuple[str, ...]:
        if cause == "bucket":
            return (self._graph_name(event.attempt, event.number - event.part),)
        return self._sources(event.attempt) if cause in ("break", "callee") else ()

    def _sources(self, attempt: Attempt) -> tuple[str, ...]:
        """The graph that this one was cut from: of the nearest function above that made one."""
        parent = attempt.parent
        while parent is not None and not parent.graphs:
            parent = parent.parent
        return (self._graph_name(parent, 0),) if parent is not None else ()

    def _break(self, event: Broke) -> Break:
        why = text.reason(event.message)
        above = event.attempt.above if event.attempt is not None else ()
        stack = self._stack(above, event.stack)
        return Break(
            LAYER,
            why.text,
            stack[-1] if stack else NOWHERE,
            id=why.id,
            explanation=why.explanation,
            hints=why.hints,
            stack=stack,
        )

    def _stack(self, above: Sequence[Line], traced: Sequence[Line]) -> tuple[Frame, ...]:
        """The user's frames, outermost first, as one stack of real functions.

        Where the rest of a function was being compiled, the function is one frame
        and not two.
        """
        lines: list[Line] = []
        for line in (*above, *traced):
            if lines and is_resume(line[2]) and _function(lines[-1]) == _function(line):
                lines.pop()
            lines.append(line)
        user = [line for line in lines if self._places.is_user(line[0])]
        frames = [self._places.frame(*line) for line in user or lines[-1:]]
        # A comprehension is a frame at the same line, until Python 3.11.
        return tuple(frame for i, frame in enumerate(frames) if frame not in frames[i + 1 : i + 2])

    def _where(self, attempt: Attempt) -> Frame:
        """The function; of the rest of one, the line it goes on from; of a library, the call."""
        return self._function(attempt.written, attempt.above)

    def _function(self, code: Code, above: Sequence[Line] = ()) -> Frame:
        file, line, name = code
        if not self._places.is_user(file):
            stack = self._stack(above, ())
            if stack and above:
                return stack[-1]
        if is_resume(name):
            return self._places.frame(file, line, name)
        return self._places.definition(file, line, name)

    def _eager(self) -> list[Eager]:
        found = []
        for event in self._events:
            if isinstance(event, Refused) and self._places.is_written(event.code[0]):
                why = text.reason(event.message).text
                found.append(Eager(LAYER, why, self._function(event.code)))
            elif isinstance(event, Stopped):
                stack = self._stack(event.above, event.traced)
                why = text.stopped(event.kind, event.message)
                found.append(Eager(LAYER, why, stack[-1] if stack else NOWHERE))
            elif isinstance(event, Started) and (why := self._why_eager(event.attempt)):
                found.append(Eager(LAYER, why, self._where(event.attempt)))
        return found

    def _why_eager(self, attempt: Attempt) -> str:
        """Why an attempt left its function to eager; empty if it did not."""
        fault = attempt.fault
        if fault is not None:
            if not attempt.suppressed:
                return ""
            if limit := text.limit(fault.kind, fault.message):
                return limit
            return self._why_broke(attempt) or text.error(fault.kind, fault.message)
        if attempt.outcome != "skipped" or any(said in attempt.skip for said in _NOTHING_TO_DO):
            return ""
        return self._why_broke(attempt) or (text.reason(attempt.skip).text if attempt.skip else "")

    def _notes(self) -> list[str]:
        """Errors that the test itself saw: neither a break nor a loss, and yet no graph."""
        found = []
        stopped = any(isinstance(event, Stopped) for event in self._events)
        for attempt in self._attempts:
            fault = attempt.fault
            if fault is None or attempt.suppressed or (attempt.export and stopped):
                continue
            where = self._where(attempt)
            what = "fullgraph=True" if attempt.fullgraph else "dynamo"
            what = "torch.export" if attempt.export else what
            why = text.error(fault.kind, fault.message)
            found.append(
                f"{what}: {fault.kind} was raised to the test for {where.function} "
                f"({where.file}:{where.line}): {why}"
            )
        return found

    def _errors(self, missed: int) -> list[str]:
        found = [event.error for event in self._events if isinstance(event, Fell)]
        if missed:
            found.append(
                f"dynamo: Dynamo counted {missed} graph{'s' * (missed > 1)} that the observer did "
                "not see (torch._dynamo.utils.counters['stats']['unique_graphs'])"
            )
        for event in self._events:
            if not isinstance(event, Made) or not event.after_break or event.attempt.broke:
                continue
            name = self._graph_name(event.attempt, event.number)
            found.append(
                f"dynamo: graph {name} ends at a graph break that the observer did not see"
            )
        return found


def _failed(attempt: Attempt) -> str:
    """The guard that failed, and what came instead of what it expected."""
    guard = text.guard(attempt.guards or ())
    return f"{guard} ({attempt.now})" if attempt.now else guard


_SPECIALIZED = "compiled once more for a specialization of a dynamic size"


def _function(line: Line) -> tuple[str, str]:
    return line[0], function_name(line[2])


def _names(attempts: Sequence[Attempt]) -> dict[int, str]:
    """A name for each attempt, unique in the window.

    Compile ids start again at ``0/0`` when the test resets Dynamo. From the
    first id that comes a second time the names carry the number of the round:
    ``0/0#2``.
    """
    names: dict[int, str] = {}
    seen: set[str] = set()
    rounds = 1
    for attempt in attempts:
        if attempt.id in seen:
            rounds += 1
            seen.clear()
        seen.add(attempt.id)
        names[id(attempt)] = attempt.id if rounds == 1 else f"{attempt.id}#{rounds}"
    return names
