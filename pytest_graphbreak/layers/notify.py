"""Tells whoever listens when something was compiled: a child process, which writes it down at once.

In the process of the test nobody listens, and it costs an attribute.
"""

from __future__ import annotations

from typing import Protocol


class Listener(Protocol):
    """Called by the sensors, while torch compiles. None of these may raise."""

    def begins(self) -> None:
        """A compilation begins in this thread."""

    def ends(self) -> None:
        """The compilation that began last in this thread came to its end."""

    def noted(self) -> None:
        """Something was noted that belongs to no such compilation."""


class Notifier:
    """At most one listener at a time."""

    def __init__(self) -> None:
        self.listener: Listener | None = None


NOTIFIER = Notifier()
