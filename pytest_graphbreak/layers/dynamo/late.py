"""Sensors of modules that torch may import only while a window is open."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from pytest_graphbreak.layers.dynamo.events import Event
from pytest_graphbreak.layers.hooks import Hook, LatePatch
from pytest_graphbreak.model.stacks import Line


class LateSensor(LatePatch):
    """Notes among ``events`` what a function does; ``above`` gives the stack that called it.

    ``WHAT`` names what it is for where the sensor itself fails, of which ``fell`` is told.
    """

    MODULE: ClassVar[str]
    FUNCTION: ClassVar[str]
    WHAT: ClassVar[str]

    def __init__(
        self,
        events: list[Event],
        above: Callable[[], tuple[Line, ...]],
        fell: Callable[[str, BaseException], None],
    ) -> None:
        self._events = events
        self._above = above
        self._fell = partial(fell, self.WHAT)
        super().__init__(self.MODULE, self.FUNCTION, self._around, self._gone)

    def _around(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def _gone(self, fault: AttributeError) -> None:
        """The function is not there."""
        self._fell(fault)
