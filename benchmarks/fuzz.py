"""A time-boxed search by atheris for what makes the parsers of logs and messages raise.

    python -m benchmarks.fuzz [--seconds 60] [--kept DIR] [TARGET...]

Needs ``pip install atheris`` and neither torch nor a compiler. Targets are the
``log`` of a run, a ``message`` of torch's and a ``report`` of torch_xla's. An
input that makes one raise is written to ``--kept`` and printed; what is found
this way becomes a test beside the parser.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parents[1]
DATA: Final = HERE / "tests" / "logs" / "data" / "example" / "run.log"


def _log(directory: Path) -> Callable[[bytes], None]:
    from pytest_graphbreak.logs.completeness import assess
    from pytest_graphbreak.logs.reading import read
    from pytest_graphbreak.model.places import Places

    places = Places(directory)
    file = directory / "fuzzed.log"

    def run(data: bytes) -> None:
        file.write_bytes(data)
        reading = read(str(file), places)
        assess(reading)

    return run


def _message(directory: Path) -> Callable[[bytes], None]:
    from pytest_graphbreak.layers.dynamo.messages import (
        error,
        export_stop,
        guard,
        limit,
        reason,
        without_details,
    )

    def run(data: bytes) -> None:
        message = data.decode("utf-8", "surrogateescape")
        found = reason(message)
        for line in (found.text, found.explanation, *found.hints, guard((message,))):
            assert "\n" not in line, message
        for call in (error, export_stop, limit):
            call("Unsupported", message)
        assert without_details(without_details(message)) == without_details(message), message

    return run


def _report(directory: Path) -> Callable[[bytes], None]:
    from pytest_graphbreak.layers.xla.reports import Reader

    def run(data: bytes) -> None:
        text = data.decode("utf-8", "surrogateescape")
        middle = len(text) // 2
        reader = Reader()
        reader.feed(text[:middle])
        reader.feed(text[middle:])

    return run


TARGETS: Final = {"log": _log, "message": _message, "report": _report}


def fuzz(target: str, kept: Path, seconds: int) -> None:
    """Does not return: the fuzzer ends the process, with 77 where it found something."""
    import atheris

    with atheris.instrument_imports(include=["pytest_graphbreak"]):
        run = TARGETS[target](Path(tempfile.mkdtemp()))
    atheris.Setup(
        [
            *(sys.argv[0], str(_seeds(target)), f"-max_total_time={seconds}"),
            *("-max_len=20000", f"-artifact_prefix={kept}{os.sep}"),
        ],
        run,
    )
    atheris.Fuzz()


def _seeds(target: str) -> Path:
    """Pieces of real logs to begin with."""
    folder = Path(tempfile.mkdtemp())
    text = DATA.read_bytes()
    for number in range(0, min(len(text), 40_000), 4000):
        (folder / f"seed{number}").write_bytes(text[number : number + 4000])
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz")
    parser.add_argument("targets", nargs="*", default=list(TARGETS), metavar="TARGET")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--kept", type=Path, default=Path(tempfile.gettempdir(), "graphbreak-fuzz"))
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    asked.kept.mkdir(parents=True, exist_ok=True)
    if asked.once:
        fuzz(asked.targets[0], asked.kept, asked.seconds)
    code = 0
    for target in asked.targets:
        done = subprocess.run(
            [
                *(sys.executable, "-m", __spec__.name, target, "--once"),
                *("--seconds", str(asked.seconds), "--kept", str(asked.kept)),
            ],
            capture_output=True,
            text=True,
            errors="replace",
        )
        runs = [line for line in done.stderr.splitlines() if line.startswith("Done ")]
        print(f"{target}: {runs[-1] if runs else f'it raises, exit code {done.returncode}'}")
        if done.returncode:
            code = 1
            print("\n".join((done.stdout + done.stderr).splitlines()[-40:]))
    return code


if __name__ == "__main__":
    sys.exit(main())
