"""Threads that compile, run and read while windows open and close neither hang nor miscount.

``benchmarks/threads.py`` has the programs, and does a hundred rounds of each.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.threads import ROOT, here


def programs() -> list[object]:
    """Return the programs; those without torch_xla are run on one torch."""
    marks = {name: pytest.mark.once for name in here() if "xla" not in name}
    return [pytest.param(name, marks=marks.get(name, ())) for name in here()]


@pytest.mark.usefixtures("xla_forks")
@pytest.mark.parametrize("program", programs())
def test_a_program_of_threads(program: str) -> None:
    options = ["--inside", "--rounds=2", "--threads=8", "--limit=240"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.threads", program, *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
