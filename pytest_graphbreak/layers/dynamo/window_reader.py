"""Reads what one window saw into a ``Record``, when it closes, or when somebody looks.

A window is a slice of the events that the sensors noted: its observer hands them to
``read_window``, and adds ``stance_notes``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pytest_graphbreak.layers.dynamo import messages
from pytest_graphbreak.layers.dynamo.events import (
    Attempt,
    Broke,
    Event,
    GivenUp,
    Made,
    Missed,
    NotObserved,
    Stance,
    Started,
    Stopped,
    attempt_name,
)
from pytest_graphbreak.layers.dynamo.explain import LAYER, EventReader, seconds_of
from pytest_graphbreak.model.merging import record_of
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import Frames, Record


def read_window(events: Sequence[Event], places: Places, errors: Sequence[str] = ()) -> Record:
    """Return everything that one window saw. ``errors`` are the window's own, and come first."""
    return _WindowReader(events, places).record(errors)


class _WindowReader(EventReader):
    """One pass over the events of a window.

    ``EventReader`` explains one at a time: ``graph``, ``graph_break``, ``recompile`` and ``eager``
    make the items of a record, ``graph_name``, ``place`` and ``follows`` say what these need.
    """

    def __init__(self, events: Sequence[Event], places: Places) -> None:
        # A function that was loaded ahead of time and given up is no graph: it is captured again,
        # and that one counts.
        given_up = {id(event.graph.attempt) for event in events if isinstance(event, GivenUp)}
        self._events = [
            event
            for event in events
            if not (isinstance(event, (Started, Made)) and id(event.attempt) in given_up)
        ]
        self._attempts = [event.attempt for event in self._events if isinstance(event, Started)]
        super().__init__(places, _names(self._attempts))

    def record(self, errors: Sequence[str]) -> Record:
        events = self._events
        graphs = [event for event in events if isinstance(event, Made)]
        missed = sum(event.graphs for event in events if isinstance(event, Missed))
        spent = self._seconds_after_breaks(graphs)
        compiled = [attempt for attempt in self._attempts if attempt.outcome == "compiled"]
        recompiles = [attempt for attempt in compiled if attempt.guards is not None]
        return record_of(
            LAYER,
            graphs=len(graphs) + missed,
            recompiles=len(recompiles),
            frames=Frames(len(self._attempts), len(compiled)),
            breaks=(
                self.graph_break(event, spent.get(id(event)))
                for event in events
                if isinstance(event, Broke)
            ),
            eager=(eager for event in events if (eager := self.eager(event)) is not None),
            recompile_list=map(self.recompile, recompiles),
            graph_list=map(self.graph, graphs),
            errors=(*errors, *self._errors(missed)),
            notes=self._notes(),
        )

    def _seconds_after_breaks(self, graphs: Sequence[Made]) -> dict[int, float]:
        """Return the seconds of the graphs after each break, by the ``id()`` of its event."""
        spent: dict[int, float] = {}
        for event in graphs:
            took, broke = seconds_of(event), self.follows(event)
            if broke is not None and took is not None:
                spent[id(broke)] = round(spent.get(id(broke), 0.0) + took, 3)
        return spent

    def _notes(self) -> list[str]:
        """Return the notes on errors that the test saw."""
        notes = []
        stopped = any(isinstance(event, Stopped) for event in self._events)
        for attempt in self._attempts:
            fault = attempt.fault
            if fault is None or fault.suppressed:
                continue
            if attempt.export and stopped:  # reported already, as code that was left to eager
                continue
            where = self.place(attempt)
            what = "fullgraph=True" if attempt.fullgraph else "dynamo"
            what = "torch.export" if attempt.export else what
            why = messages.error(fault.kind, fault.message)
            notes.append(
                f"{what}: {fault.kind} was raised to the test for {where.function} "
                f"({where.file}:{where.line}): {why}"
            )
        return notes

    def _errors(self, missed: int) -> list[str]:
        errors = [event.error for event in self._events if isinstance(event, NotObserved)]
        if missed:
            errors.append(
                f"dynamo: Dynamo counted {missed} graph{'s' * (missed > 1)} that the observer did "
                "not see (torch._dynamo.utils.counters['stats']['unique_graphs'])"
            )
        for event in self._events:
            if isinstance(event, Made) and event.after_break and not event.attempt.breaks:
                name = self.graph_name(event)
                errors.append(
                    f"dynamo: graph {name} ends at a graph break that the observer did not see"
                )
        return errors


def _names(attempts: Sequence[Attempt]) -> dict[int, str]:
    """Return a name for each attempt, unique in the window.

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
        names[id(attempt)] = attempt_name(attempt.id, rounds)
    return names


# Stances of the compiler: one other than the default compiles less.

_EFFECTS: Final = {
    "force_eager": "everything runs without the compiler",
    "eager_on_recompile": "what is not compiled yet runs without the compiler",
    "fail_on_recompile": "what would be compiled raises an error",
    "eager_then_compile": "a first call runs without the compiler",
}
"""The stances of torch 2.9 to 2.15 by which less is compiled, and how."""


def stance_notes(events: Iterable[Event], before: str, places: Places) -> Iterator[str]:
    """Yield what is to be said of the stances of a window; ``before`` was the one at its begin.

    Each is named once, by its first line: a decorator sets its stance in each call.
    """
    if effect := _EFFECTS.get(before):
        yield f'the stance of torch.compiler was "{before}" before: {effect}'
    first: dict[str, Stance] = {}
    for event in events:
        if isinstance(event, Stance):
            first.setdefault(event.stance, event)
    for name, event in first.items():
        line = next((line for line in reversed(event.above) if places.is_user(line.file)), None)
        place = "" if line is None else " at {0.file}:{0.line}".format(places.frame(*line))
        if effect := _EFFECTS.get(name):
            yield f'torch.compiler.set_stance("{name}"){place}: {effect}'
