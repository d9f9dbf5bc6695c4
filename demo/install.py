"""Installs what the demo needs, and says so first: ``python -m demo.install REQUIREMENT...``.

It is large and takes minutes, so it is not left to tox, which installs in silence.
"""

from __future__ import annotations

import importlib.metadata
import os
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
{where}:
torch 2.9 with its CUDA libraries (its wheel for Linux needs them to be there,
the demo does not use them), torch_xla 2.9, transformers, pytest. No model is
downloaded and no GPU is needed.

  1. install       3 to 6 minutes, most of it torch
  2. green         2 minutes: nine tests of real models against their baselines
  3. red           half a minute: one of them with a graph break planted

Times are those of two cores. What is downloaded stays for the next time.
"""


def main(requirements: Sequence[str]) -> int:
    """pip's exit code. Nothing is downloaded where all of it is here."""
    if all(map(_is_here, [*requirements, "pytest-graphbreak", "transformers"])):
        print("Everything is installed.", flush=True)
        return 0
    where = Path(sys.prefix)
    if where.is_relative_to(ROOT):
        where = where.relative_to(ROOT)
    print(BEFORE.format(where=where), flush=True)
    began = time.monotonic()
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
    command += [
        *requirements,
        "--editable",
        f"{ROOT}[xla]",
        "--group",
        f"{ROOT}/pyproject.toml:test",
    ]
    code = _quietly(command)
    print(f"\nInstalled in {time.monotonic() - began:.0f} s.\n" if not code else "", flush=True)
    return code


def _quietly(command: Sequence[str]) -> int:
    """pip's exit code. Its output is one line that is drawn anew; all of it where pip fails."""
    shown, lines, began = sys.stdout.isatty(), [], time.monotonic()
    environment = os.environ | {"PIP_PROGRESS_BAR": "off", "PIP_NO_INPUT": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            lines.append(line)
            step = line.strip()
            if shown and step.startswith(("Collecting", "Downloading", "Building", "Installing")):
                text = f"{time.monotonic() - began:4.0f} s  {step}"
                print(
                    f"\r\x1b[K{text[: shutil.get_terminal_size().columns - 1]}", end="", flush=True
                )
    print("\r\x1b[K" if shown else "", end="", flush=True)
    if pip.returncode:
        print("".join(lines), flush=True)
    return pip.returncode


def _is_here(requirement: str) -> bool:
    """Whether it is installed, in the version that is named with ``==`` if there is one."""
    name, _, wanted = requirement.partition("==")
    try:
        found = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return not wanted or found.partition("+")[0] == wanted


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
