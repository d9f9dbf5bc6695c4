"""What `accept`, `check`, `report` and `compare` cost with many tests: processor time, memory.

    python -m benchmarks.reports [--tests 100000] [--reports 20] [--files 500]

Each test has two graphs, one break with a stack, and its own node id, as a
report of a suite of models has them. Reports and baselines are written to a
temporary directory; each command is a process of its own.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.reports import Data, a_report, a_test, write


def reports(
    directory: Path, tests: int, count: int, files: int, graphs: int = 2, name: str = "graphs"
) -> list[str]:
    """Reports of ``tests`` tests in all, whose files are spread over all reports."""
    (directory / name).mkdir()
    names = []
    for number in range(count):
        some: list[Data] = []
        for test in range(number, tests, count):
            file = f"tests/models/test_{test % files}.py"
            some.append(a_test(f"{file}::test_model[case-{test // files}-bfloat16]", graphs))
        names.append(write(directory / name / f"{number}.json", a_report(*some)))
    return names


def measure(directory: Path, *args: str) -> tuple[float, int, str]:
    """Processor seconds, the largest memory in MiB, and the last line of what was said."""
    code = (
        "import resource, sys; from pytest_graphbreak.cli import main; code = main(sys.argv[1:]); "
        "used = resource.getrusage(resource.RUSAGE_SELF); "
        "print(used.ru_utime + used.ru_stime, used.ru_maxrss // 1024, file=sys.stderr); "
        "sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *args], cwd=directory, capture_output=True, text=True
    )
    *said, numbers = done.stderr.strip().splitlines()
    seconds, memory = numbers.split()
    last = (done.stdout.strip().splitlines() or said or [""])[-1]
    return float(seconds), int(memory), f"exit {done.returncode}: {last[:100]}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reports")
    parser.add_argument("--tests", type=int, default=100_000)
    parser.add_argument("--reports", type=int, default=20)
    parser.add_argument("--files", type=int, default=500)
    asked = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "pytest.ini").write_text("[pytest]\n")
        names = reports(directory, asked.tests, asked.reports, asked.files)
        reports(directory, asked.tests, asked.reports, asked.files, 3, "later")
        size = sum(Path(path).stat().st_size for path in names) / 2**20
        print(f"{asked.tests:,} tests in {asked.reports} reports, {size:.0f} MiB of JSON")
        for command in (
            ["accept", "--yes", *names],
            ["accept", "--yes", *names],
            ["check", *names],
            ["check", *names, "--markdown", "comment.md", "--html", "page.html"],
            ["report", *names],
            ["compare", "graphs", "graphs"],
            ["compare", "graphs", "later"],
            ["compare", "graphs", "later", "--markdown", "comparison.md"],
        ):
            seconds, memory, said = measure(directory, *command)
            options = [word for word in command if word.startswith("--")]
            print(f"{seconds:6.1f} s {memory:6,} MiB  {command[0]} {' '.join(options)}  ({said})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
