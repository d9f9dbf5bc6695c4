"""Runs a command in a terminal (a pty), as a person does, and gives back what it showed."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

COLOUR = re.compile(r"\x1b\[[\d;]*m")
OURS = ("NO_COLOR", "FORCE_COLOR", "PY_COLORS", "COLUMNS", "CI", "GITHUB_ACTIONS")
"""Variables of the run that asks, which would decide how the other one looks."""

SILENCE = 300
"""Seconds after which a command that shows nothing more is killed."""


@dataclass(frozen=True)
class Shown:
    """What stood on the terminal: ``raw`` with its colours, ``text`` without."""

    code: int
    raw: str

    @property
    def text(self) -> str:
        return COLOUR.sub("", self.raw)

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


def run(
    command: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str] | None = None,
    columns: int = 80,
    answers: Sequence[str] = (),
) -> Shown:
    """Run ``command`` on a terminal of its own; the scripts of this Python come first on PATH.

    ``answers`` are typed one by one, each where a question ends with a bracket: ``[y/n/q] ``.
    """
    clean = {name: value for name, value in os.environ.items() if name not in OURS}
    path = f"{Path(sys.executable).parent}{os.pathsep}{clean.get('PATH', '')}"
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env={**clean, "TERM": "xterm-256color", "PATH": path, **(environment or {})},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        close_fds=True,
        preexec_fn=_take_terminal,
    )
    os.close(theirs)
    shown, waiting = bytearray(), list(answers)
    try:
        while select.select([ours], [], [], SILENCE)[0]:
            shown += os.read(ours, 65536)
            if waiting and shown.endswith(b"] "):
                time.sleep(0.2)  # Python shows a question a moment before it hears Ctrl-C there
                os.write(ours, waiting.pop(0).encode())
        process.kill()
    except OSError:
        pass  # Linux says so when the last writer is gone
    finally:
        os.close(ours)
    return Shown(process.wait(), shown.decode("utf-8", "replace").replace("\r\n", "\n"))


def _take_terminal() -> None:
    """Make the terminal that of a session of its own, so that Ctrl-C is a signal there.

    A run in a shell's background has turned that signal off.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
