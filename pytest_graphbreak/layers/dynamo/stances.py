"""The sensor for ``torch.compiler.set_stance``: a stance other than the default compiles less.

A stance that was set while nobody watched is known, and its place is not.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final

from pytest_graphbreak.layers.dynamo import private as names
from pytest_graphbreak.layers.dynamo.events import Event, Stance
from pytest_graphbreak.layers.dynamo.late import LateSensor
from pytest_graphbreak.layers.hooks import Hook
from pytest_graphbreak.model.places import Places

_DEFAULT: Final = "default"
_EFFECTS: Final = {
    "force_eager": "everything runs without the compiler",
    "eager_on_recompile": "what is not compiled yet runs without the compiler",
    "fail_on_recompile": "what would be compiled raises an error",
    "eager_then_compile": "a first call runs without the compiler",
}
"""The stances of torch 2.9 to 2.15 by which less is compiled, and how."""


class StanceSensor(LateSensor):
    """Notes the stances that are set, with the stack that set them."""

    MODULE, FUNCTION = names.SET_STANCE
    WHAT = "torch.compiler.set_stance"

    def _watch_call(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        """Handle ``_set_stance(stance)``."""
        __tracebackhide__ = True
        result = original(*args, **kwargs)
        try:
            if (stance := current()) != _DEFAULT:
                self._events.append(Stance(stance, self._above()))
        except Exception as fault:
            self._sensor_failed(fault)
        return result

    def _on_missing(self, fault: Exception) -> None:
        """Do nothing: then stances are named without a place."""


def current() -> str:
    """Return the stance that the compiler has now; the default if torch does not say."""
    stance = getattr(sys.modules.get(names.STANCE.module), names.STANCE.chain, None)
    return str(getattr(stance, "stance", _DEFAULT))


def notes(events: Iterable[Event], before: str, places: Places) -> Iterator[str]:
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
        if effect := _EFFECTS.get(name):
            yield f'torch.compiler.set_stance("{name}"){_place_words(event, places)}: {effect}'


def _place_words(event: Stance, places: Places) -> str:
    """Return the nearest line of the user's that set a stance."""
    for line in reversed(event.above):
        if places.is_user(line.file):
            place = places.frame(*line)
            return f" at {place.file}:{place.line}"
    return ""
