"""What many baselines cost: to read all, to look up every test, to update some, and in memory.

    python -m benchmarks.baselines [--tests 2000 20000] [--rounds 7]

Files of fifty tests, every tenth test with breaks. Each round is a process of
its own, which imports the package first and reads a tree that it did not write
itself. CPU time and wall time; memory is what the process has grown by once all is read.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

PER_FILE: Final = 50
STEPS: Final = ("load", "compare", "update nothing", "update one in a hundred")


def nodeid(number: int) -> str:
    return f"tests/group_{number // 1000}/test_{number // PER_FILE:05}.py::test_{number % PER_FILE}"


def _seen(number: int, graphs: int) -> Any:
    from pytest_graphbreak.judging.measured import measurement
    from pytest_graphbreak.model.items import Break, Frame, Graph
    from pytest_graphbreak.model.merging import record_of
    from pytest_graphbreak.model.report import RunEnvironment

    breaks = ()
    if number % 10 == 0:
        where = Frame(file="models/head.py", function="Head.forward", line=8, code="if x.item():")
        breaks = tuple(
            Break(layer="dynamo", reason="Unsupported Tensor.item() call", where=where, count=2)
            for _ in range(1)
        )
    causes = ["entry", "break", "callee", "recompile"][:graphs]
    made = tuple(
        Graph(
            layer="dynamo",
            name=f"{place}/0",
            cause=causes[place % len(causes)],
            ops=12 + number % 7,
            where=Frame(file="models/head.py", function="Head.forward", line=8, code=f"y{place}"),
            functions={f"models/head.py::Head.forward{place}": 12, "models/head.py::g": 4},
        )
        for place in range(graphs)
    )
    record = record_of("dynamo", graphs=graphs, breaks=breaks, graph_list=made)
    environment = RunEnvironment(versions={"torch": "2.13.0"})
    return measurement(nodeid(number), "cpu", environment, record)


def write(directory: Path, tests: int) -> None:
    """A tree of baselines, as an update writes it."""
    from pytest_graphbreak.baseline import update

    update(directory, [_seen(number, 1 + number % 4) for number in range(tests)], mode="update")


def measure(directory: Path, tests: int) -> dict[str, float]:
    """Seconds of CPU and of wall time for each step, and megabytes, here."""
    import yaml  # noqa: F401  # imports are no part of it

    from pytest_graphbreak.baseline import Baselines, update
    from pytest_graphbreak.judging.verdict import judge
    from pytest_graphbreak.model.record import Record

    found: dict[str, float] = {}

    def timed(name: str, run: Callable[[], Any]) -> Any:
        cpu, wall = time.process_time(), time.perf_counter()
        result = run()
        found[name] = time.process_time() - cpu
        found[f"{name}, wall"] = time.perf_counter() - wall
        return result

    before = _megabytes()
    baselines = Baselines(directory)
    timed("load", baselines.check)
    record = Record.from_dict({"layers": ["dynamo"], "graphs": {"dynamo": 1}})

    def compare() -> None:
        for number in range(tests):
            judge(
                record,
                baselines.expectation(nodeid(number), "cpu"),
                None,
                versions={"torch": "2.13.0"},
            )

    timed("compare", compare)
    found["memory"] = _megabytes() - before
    same = [_seen(number, 1 + number % 4) for number in range(tests)]
    changed = [_seen(number, 9 + number % 4) for number in range(0, tests, 100)]
    timed("update nothing", lambda: update(directory, same, mode="update"))
    timed("update one in a hundred", lambda: update(directory, changed, mode="update"))
    return found


def _megabytes() -> float:
    """Of memory that this process has now. ``ru_maxrss`` would begin with that of its parent."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def rounds(tests: int, number: int) -> list[dict[str, float]]:
    found = []
    with tempfile.TemporaryDirectory() as directory:
        tree = Path(directory, "tree")
        write(tree, tests)
        for _ in range(number):
            copy = Path(directory, "copy")
            shutil.copytree(tree, copy)
            done = subprocess.run(
                [sys.executable, "-m", __spec__.name, "--once", str(copy), "--tests", str(tests)],
                check=True,
                capture_output=True,
                text=True,
            )
            found.append(json.loads(done.stdout))
            shutil.rmtree(copy)
    return found


def table(found: dict[int, list[dict[str, float]]]) -> Iterator[str]:
    yield "| | " + " | ".join(f"{tests} tests" for tests in found) + " |"
    yield "| --- |" + " ---: |" * len(found)
    for step in STEPS:
        cells = []
        for measured in found.values():
            cpu = sorted(item[step] for item in measured)
            wall = statistics.median(item[f"{step}, wall"] for item in measured)
            cells.append(
                f"{statistics.median(cpu):.2f} s ({cpu[0]:.2f} to {cpu[-1]:.2f}), wall {wall:.2f}"
            )
        yield f"| {step} | " + " | ".join(cells) + " |"
    memory = [statistics.median(item["memory"] for item in m) for m in found.values()]
    yield "| memory | " + " | ".join(f"{megabytes:.0f} MB" for megabytes in memory) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.baselines")
    parser.add_argument("--tests", type=int, nargs="+", default=[2000, 20000])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--once", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.once:
        print(json.dumps(measure(asked.once, asked.tests[0])))
        return 0
    found = {tests: rounds(tests, asked.rounds) for tests in asked.tests}
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores, {PER_FILE} tests a file, "
        f"CPU time, median of {asked.rounds} rounds (least to most)\n"
    )
    print("\n".join(table(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
