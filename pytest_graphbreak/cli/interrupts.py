"""Signals that end a command: SIGTERM and SIGHUP end it as Ctrl-C does, after clearing up."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType


class Terminated(KeyboardInterrupt):
    """Raised for a signal that ends the process."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def exit_code(stop: KeyboardInterrupt) -> int:
    """Return the exit code of a process that was interrupted, as shells do."""
    return 128 + (stop.number if isinstance(stop, Terminated) else signal.SIGINT)


@contextlib.contextmanager
def cleared_up() -> Iterator[None]:
    """Raise ``Terminated`` for signals in the block; signals that are ignored stay ignored.

    After a signal, output may fail because the terminal was closed; that is not an error.
    """
    before = {}
    came: list[int] = []

    def end(number: int, _: FrameType | None) -> None:
        if not came:  # the clearing up is not interrupted
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
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        raise Terminated(came[0]) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
