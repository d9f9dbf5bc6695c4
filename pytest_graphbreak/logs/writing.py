"""Writes the log of a script that ``graphbreak run --log`` runs, for ``analyze`` to read."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from pytest_graphbreak.layers.imports import ImportWatch
from pytest_graphbreak.text.files import LOG_HEADER, write

TORCH_LOGS: Final = "+dynamo,recompiles"
"""``+dynamo`` logs graphs and graph breaks; only ``recompiles`` logs which guard failed."""


@contextmanager
def send_log_to(path: str) -> Iterator[None]:
    """Send what torch and native libraries write to standard error to a file meanwhile.

    File descriptor 2 is that file, as with ``2> FILE``, so that a crash loses nothing of it. What
    Python code itself writes to ``sys.stderr`` still goes to the terminal. torch's log, which would
    go there too, goes to the file; it is turned on (``TORCH_LOGS``) if the user has not set it.
    ``path`` is absolute. Raises ``OSError``.
    """
    os.makedirs(os.path.dirname(path), exist_ok=True)
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o666)
    write(log, f"{LOG_HEADER}\n".encode())
    with _native_errors_to(log) as terminal, _torch_logs_on():
        # This is not closed at the end: handlers of torch write to it until the process ends.
        stream = os.fdopen(log, "w", 1, "utf-8", "backslashreplace")
        torch = ImportWatch(["torch"], lambda: _redirect_handlers(terminal, stream))
        torch.attach()
        try:
            yield
        finally:
            torch.detach()


@contextmanager
def _native_errors_to(log: int) -> Iterator[TextIO]:
    """Let file descriptor 2 lead to the log; yield the new ``sys.stderr``.

    That one writes to a copy of the earlier descriptor, so it still leads to the terminal.
    """
    sys.stderr.flush()
    before, terminal_descriptor = sys.stderr, os.dup(2)
    os.dup2(log, 2)
    descriptor = os.dup(terminal_descriptor)
    terminal = sys.stderr = os.fdopen(descriptor, "w", 1, before.encoding, before.errors)
    try:
        yield terminal
    finally:
        # The script may have closed it, or have put another stream in its place. It is not closed
        # here, since a handler that the script made may write to it until the process ends.
        if not terminal.closed:
            terminal.flush()
        if sys.stderr is terminal:
            sys.stderr = before
        os.dup2(terminal_descriptor, 2)
        os.close(terminal_descriptor)


@contextmanager
def _torch_logs_on() -> Iterator[None]:
    """Set ``TORCH_LOGS`` meanwhile, unless the user has; what the script sets stays."""
    unset = "TORCH_LOGS" not in os.environ
    if unset:
        os.environ["TORCH_LOGS"] = TORCH_LOGS
    try:
        yield
    finally:
        if unset and os.environ.get("TORCH_LOGS") == TORCH_LOGS:
            del os.environ["TORCH_LOGS"]


def _redirect_handlers(terminal: TextIO, log: TextIO) -> None:
    """Make torch's own handlers, created when it is imported, write to the log.

    ``sys.stderr`` may be the script's own by then: pytest captures it, and closes it.
    """
    for name in list(logging.Logger.manager.loggerDict):
        if name == "torch" or name.startswith(("torch.", "torch_xla")):
            for handler in logging.getLogger(name).handlers:
                if getattr(handler, "stream", None) in (terminal, sys.stderr):
                    _write_to(handler, log)


def _write_to(handler: logging.Handler, log: TextIO) -> None:
    if isinstance(handler, logging.StreamHandler):
        handler.setStream(log)
        return
    # From 2.15 on torch's handler looks up sys.stderr at each record (torch/_logging/_internal.py).
    kind = type(handler)
    handler.__class__ = type(kind.__name__, (kind,), {"stream": log})
