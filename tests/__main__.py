"""Runs the suite: ``python -m tests pure`` is the half that needs no torch, ``torch`` the rest.

A marker says where a test is run. ``pytestmark = pytest.mark.pure`` in a file: without torch, and
nowhere else. ``once``, of a file or a test: not in ``xla``, the environment after that of
``torch``, since no layer of a device and no version of torch changes it. ``jax``: also in the
environment ``jax``, which has no torch. ``nightly``: it repeats another test with more data, or
shows slowly what others show in part, and is left out of all four. ``night-pure``, ``night-torch``
and so on are the same with it, and with ten times as many examples (``tests/examples.py``).

With more arguments it runs just these, as pytest does: ``python -m tests torch
tests/judging/test_verdict.py -k name``. Each run without them has two workers; all of them are
made, and the exit code is that of the first that failed.
"""

from __future__ import annotations

import compileall
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests import examples

ROOT: Final = Path(__file__).parents[1]

APART: Final = (
    "tests/advice/test_examples_xla.py",
    "tests/advice/test_situations.py",
    "tests/advice/test_situations_xla.py",
    "tests/advice/test_table.py",
    "tests/options",
    "tests/processes",
    "tests/repair",
    "tests/layers",
    "tests/docs",
    "tests/cli",
    "tests/demo",
    "tests/golden",
    "tests/suite/test_blind.py",
    "tests/suite/test_block.py",
    "tests/suite/test_session.py",
    "tests/suite/test_strangers.py",
    "tests/logs/test_live.py",
)
"""What takes the observers apart or starts processes that other processes watch: not gated."""

GATED_JAX: Final = ("tests/jax_models",)
JAX: Final = (*GATED_JAX, "tests/layers/jax")
"""Folders of tests that all need JAX."""

ENGINES: Final = ("tests/engines",)
"""Folders of tests that no half runs: ``tox -e engines`` does, where real engines are installed."""

TIMES: Final = ROOT / "build" / "times"
"""What each test took, of the last whole run of each half: ``python -m tests.times`` sums it up."""

NIGHT: Final = "night-"
HALVES: Final = ("pure", "torch", "xla", "jax")

WORKERS: Final = ("-n2", "--dist=worksteal")

_PYTESTMARK: Final = re.compile(r"^pytestmark = (?:\[\n(?:    .*\n)*\]|.*)", re.M)


def marked(marker: str) -> list[str]:
    """The files whose ``pytestmark`` has a marker: none of them is imported to find it."""
    marks = {file: _PYTESTMARK.search(_text(file)) for file in every_file()}
    return [file for file, mark in marks.items() if mark and f"mark.{marker}" in mark[0]]


def pure() -> list[str]:
    """The files that are run without torch, and not again with each torch."""
    return marked("pure")


def once() -> list[str]:
    """The files that need torch, and do the same with any."""
    return marked("once")


def with_jax() -> list[str]:
    """The files in which some tests need JAX, but for those that are under the gate."""
    files = [file for file in every_file() if "mark.jax" in _text(file)]
    return [file for file in files if not file.startswith(GATED_JAX)]


def every_file() -> list[str]:
    return sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py"))


def _text(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


def runs(half: str) -> list[list[str]]:
    """The arguments of pytest for each run of a half."""
    part = half.removeprefix(NIGHT)
    not_now = [] if half.startswith(NIGHT) else ["not nightly"]
    if part == "jax":
        options = [*WORKERS, *_marked("jax", *not_now)]
        return [[*options, "--graph-budget", *GATED_JAX], [*options, *with_jax()]]
    options = [*WORKERS, *_marked(*not_now, *(["not once"] if part == "xla" else []))]
    if part == "pure":
        return [[*options, *pure()]]
    return _with_torch(options, [*pure(), *(once() if part == "xla" else [])])


def _marked(*markers: str) -> list[str]:
    return ["-m", " and ".join(markers)] if markers else []


def _with_torch(options: Sequence[str], left: Sequence[str]) -> list[list[str]]:
    """The run that is under the gate, and the other. ``left`` are files that are in neither."""
    without = [f"--ignore={path}" for path in (*left, *JAX, *ENGINES)]
    # Our own medicine: what compiles is held to baselines/.
    gated = [*options, "--graph-budget", *without, *(f"--ignore={path}" for path in APART)]
    # pytest runs a file that is named, even where it is to be ignored.
    apart = [path for path in APART if path not in left]
    return [[*gated, "tests"], [*options, *without, *apart]]


def main(half: str, *arguments: str) -> int:
    # Once, and not in each of some thousand processes: tox has them write no bytecode.
    compileall.compile_dir(ROOT / "pytest_graphbreak", quiet=1)
    if half.startswith(NIGHT):
        os.environ[examples.ALL] = "1"
    if arguments:
        return pytest(list(arguments))
    codes = [
        pytest([*run, f"--junit-xml={TIMES / half}-{number}.xml"])
        for number, run in enumerate(runs(half))
    ]
    return next((code for code in codes if code), 0)


def pytest(arguments: Sequence[str]) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=ROOT).returncode


if __name__ == "__main__":
    if not sys.argv[1:] or sys.argv[1].removeprefix(NIGHT) not in HALVES:
        sys.exit(f"usage: python -m tests [{NIGHT}]{'|'.join(HALVES)} [arguments of pytest]")
    sys.exit(main(*sys.argv[1:]))
