"""The error for a request that cannot be fulfilled, and the words of other errors."""

from __future__ import annotations

from collections.abc import Sequence


class UserError(ValueError):
    """A request that cannot be fulfilled. The message has the thing, the place and the next step.

    A command ends with it and with exit code 2. ``words`` are the output of a program that failed.
    """

    words: Sequence[str] = ()

    def __init__(self, message: str, words: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.words = words


def reason(error: Exception) -> str:
    """Return why something failed, without the number and the file name of an ``OSError``.

    This is for a text that names the file already: ``No such file or directory``.
    """
    return str(getattr(error, "strerror", None) or error)


def error_words(error: BaseException) -> str:
    """Return the type and the first line of an exception: ``ValueError: no such name``.

    This is for an exception of the program or of a library, which nobody expected.
    """
    text = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def failure_words(error: Exception) -> str:
    """Return why something failed, after the name of the file if it was one.

    This is for an error that stops a command wherever it came from: ``a.json: Is a directory``.
    """
    file = getattr(error, "filename", None)
    return reason(error) if file is None else f"{file}: {reason(error)}"
