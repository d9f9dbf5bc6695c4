"""A command that is told to end clears up first: SIGTERM and SIGHUP end it as Ctrl-C does."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType


class Terminated(KeyboardInterrupt):
    """A signal that ends a process came."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def code(stop: KeyboardInterrupt) -> int:
    """The exit code of a process that was interrupted, as shells tell it."""
    return 128 + (stop.number if isinstance(stop, Terminated) else signal.SIGINT)


@contextlib.contextmanager
def cleared_up() -> Iterator[None]:
    """In the block the signals raise ``Terminated``; those that are ignored stay so.

    After one of them nobody may read what is printed (the terminal was closed): that is no error.
    """
    before = {}
    came: list[int] = []

    def end(number: int, _: FrameType | None) -> None:
        if not came:  # once it clears up, it is not disturbed
            came.append(number)
            raise Terminated(number)

    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            with contextlib.suppress(ValueError):  # not the main thread
                before[number] = signal.signal(number, end)
    try:
        yield
    except OSError:
        if not came:
            raise
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                number = stream.fileno()
                os.dup2(os.open(os.devnull, os.O_WRONLY), number)
        raise Terminated(came[0]) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
