"""Makes the environment of the demo: ``python -m demo.install DIR``, DIR as tox's ``work_dir``.

It is tox's environment ``xla``, which is large and takes minutes to make. So what that takes is
said first, and a line shows how far it is: tox would be silent.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
BEFORE: Final = """\
The demo downloads about 4 GB, which take 7 GB in
{where}
and are the environment of the tests, too: torch 2.9 with its CUDA libraries
(its wheel for Linux needs them to be there, the demo does not use them),
torch_xla 2.9, transformers, pytest. No model is downloaded, no GPU is needed.

  1. install       1 to 3 minutes, most of it torch
  2. green         half a minute: four tests of models against their baselines
  3. red           15 seconds: one of them with a graph break planted

Times are those of two cores. What is downloaded stays for the next time.
"""
NEEDED: Final = ("torch-xla", "transformers", "pytest-graphbreak")
STEPS: Final = ("Resolved", "Downloading", "Downloaded", "Prepared", "Installed", "Bytecode")
"""How the lines of uv begin that say how far it is."""


def main(work_dir: str) -> int:
    """Return tox's exit code. Nothing is downloaded where all of it is there."""
    environment = Path(work_dir, "xla")
    if _is_ready(environment / "bin" / "python"):
        print("Everything is installed.", flush=True)
        return 0
    near = environment.is_relative_to(ROOT)
    where = environment.relative_to(ROOT) if near else environment
    print(BEFORE.format(where=where), flush=True)
    began = time.monotonic()
    tox = [sys.executable, "-m", "tox", "run", "--workdir", work_dir, "-e", "xla", "--notest"]
    code = _with_progress([*tox, "-vv"])  # twice: then tox shows what uv prints
    print(f"\nInstalled in {time.monotonic() - began:.0f} s.\n" if not code else "", flush=True)
    return code


def _is_ready(python: Path) -> bool:
    """Whether this Python has all that the demo needs; tox holds the versions."""
    if not python.exists():
        return False
    code = f"import importlib.metadata as m; [m.version(name) for name in {NEEDED}]"
    return subprocess.run([python, "-c", code], capture_output=True).returncode == 0


def _with_progress(command: Sequence[str]) -> int:
    """Return the exit code. The output is one line, drawn anew; all of it after a failure."""
    shown, lines, began = sys.stdout.isatty(), [], time.monotonic()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            step = line.strip()
            if shown and step.startswith(STEPS):
                text = f"{time.monotonic() - began:4.0f} s  {step}"
                width = shutil.get_terminal_size().columns - 1
                print(f"\r\x1b[K{text[:width]}", end="", flush=True)
    print("\r\x1b[K" if shown else "", end="", flush=True)
    if process.returncode:
        print("".join(lines), flush=True)
    return process.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
