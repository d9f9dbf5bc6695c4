"""An error for a user who asked for something that cannot be done."""

from __future__ import annotations

from collections.abc import Sequence


class UserError(ValueError):
    """What was asked for cannot be done. The message names the thing, the place and the next step.

    A command ends with it and with exit code 2. ``words`` are those of a program that failed.
    """

    words: Sequence[str] = ()

    def __init__(self, message: str, words: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.words = words
