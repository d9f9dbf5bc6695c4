"""Stances of the compiler: one other than the default compiles less, which a window's notes say.

A stance that was set while nobody watched is known, and its place is not.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

from pytest_graphbreak.layers.dynamo import private as names
from pytest_graphbreak.layers.dynamo.events import Event, Stance
from pytest_graphbreak.layers.dynamo.notes import Notes
from pytest_graphbreak.layers.hooks import LatePatch, do_nothing, note_hook
from pytest_graphbreak.model.places import Places

_DEFAULT: Final = "default"
_EFFECTS: Final = {
    "force_eager": "everything runs without the compiler",
    "eager_on_recompile": "what is not compiled yet runs without the compiler",
    "fail_on_recompile": "what would be compiled raises an error",
    "eager_then_compile": "a first call runs without the compiler",
}
"""The stances of torch 2.9 to 2.15 by which less is compiled, and how."""


def stance_sensor(notes: Notes) -> LatePatch:
    """Return the sensor that notes each stance that is set, with its place.

    Torch may have no such function: then stances are named without a place.
    """
    failed = partial(notes.sensor_failed, "torch.compiler.set_stance")
    note = note_hook(partial(_note_stance, notes), failed, after=True)
    return LatePatch(*names.SET_STANCE, note, do_nothing)


def _note_stance(notes: Notes, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Handle ``_set_stance(stance)``, which was called."""
    if (stance := current_stance()) != _DEFAULT:
        notes.events.append(Stance(stance, notes.above()))


def current_stance() -> str:
    """Return the stance that the compiler has now; the default if torch does not say."""
    stance = getattr(sys.modules.get(names.STANCE.module), names.STANCE.chain, None)
    return str(getattr(stance, "stance", _DEFAULT))


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
