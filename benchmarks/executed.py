"""Counts the instructions of a process with valgrind: a cost that no other work changes.

A count is the same to a thousandth from run to run, where times on a shared
machine differ by a third. It is no time: instructions wait for memory unlike.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_VALGRIND: Final = (
    *("valgrind", "--tool=cachegrind", "--cache-sim=no"),
    *("--cachegrind-out-file=/dev/null", "--log-fd=9"),
)


def instructions(
    command: Sequence[str],
    cwd: Path | None = None,
    environ: Mapping[str, str] = os.environ,
) -> int:
    """How many a command executes, its threads included, its child processes not.

    Raises ``SystemExit`` with what the command said, if it fails.
    """
    reading, writing = os.pipe()
    with os.fdopen(reading) as reported:
        done = subprocess.run(
            ["sh", "-c", f'exec "$@" 9>&{writing}', "sh", *_VALGRIND, *command],
            cwd=cwd,
            env={**environ} | {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            pass_fds=(writing,),
        )
        os.close(writing)
        counts = [line for line in reported if " I " in line and "refs:" in line]
    if done.returncode or not counts:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")
    return int(counts[0].rpartition(":")[2].replace(",", ""))
