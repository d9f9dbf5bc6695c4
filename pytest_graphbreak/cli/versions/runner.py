"""Runs commands one after another in a temporary directory that goes with them.

Each has a session of its own and ends with this process, however that ends: they are started by
the process that also runs what ``fix`` tries (``repair.server``).
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pytest_graphbreak.repair.scratch import scratch
from pytest_graphbreak.repair.serving import Serving

_TAIL: Final = 2**18
"""Bytes of what a command printed that are read, from the end."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended: its exit code, None where its time was over, and what it printed."""

    code: int | None
    out: str = ""
    err: str = ""

    def last(self, most: int) -> list[str]:
        """The last lines that it printed, errors last."""
        said = [*self.out.splitlines(), *self.err.splitlines()]
        return [line for line in said if line.strip()][-most:]


class Runner:
    """Runs in ``directory``, each command for at most ``timeout`` seconds."""

    def __init__(self, directory: Path, timeout: float) -> None:
        self.directory = directory
        self.timeout = timeout
        self.out = directory / "out"
        self._temporary = directory / "tmp"
        self._temporary.mkdir()
        self._serving = Serving()

    def run(
        self,
        command: Sequence[str],
        *,
        cwd: Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> CommandResult:
        """Run a command, by default where the user is; its temporary files are in our directory.

        Raises ``ServerError`` if the process that starts it was killed.
        """
        given = dict(os.environ if environ is None else environ)
        given |= dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(self._temporary))
        program = shutil.which(command[0], path=given.get("PATH"))
        if program is None:
            return CommandResult(127, err=f"{command[0]}: there is no such program")
        self.out.write_bytes(b"")
        code = self._serving.run(
            {
                "out": str(self.out),
                "alone": True,
                "command": [program, *command[1:]],
                "cwd": str(cwd or Path.cwd()),
                "environ": given,
                "timeout": self.timeout,
                "directory": str(self.directory),
                "remove": [],
            }
        )
        return CommandResult(code, tail(self.out), tail(Path(f"{self.out}.err")))

    def status(self) -> str:
        """The last line that the command has printed so far."""
        said = tail(self.out, 4096).strip().rpartition("\n")[2]
        return said.strip()

    def close(self) -> None:
        self._serving.close()


def tail(path: Path, most: int = _TAIL) -> str:
    """The end of a text that another process may still be writing; empty where there is none."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - most))
        return file.read(most).decode("utf-8", "replace")
    return ""


@contextlib.contextmanager
def runner(timeout: float) -> Iterator[Runner]:
    """A runner whose directory is gone afterwards, however the block ends."""
    with scratch() as directory:
        found = Runner(directory, timeout)
        try:
            yield found
        finally:
            found.close()
