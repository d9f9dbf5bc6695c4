"""What counting executions costs a loop of calls of a small compiled function.

    python -m benchmarks.calls [--calls 100000] [--rounds 5]

The same loop, in one process and in turns: without a window of ours, and with one.
Prints the CPU time of a call, as the median of the rounds with the minimum and the
maximum, for a graph of one operation on the backend ``eager``.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext

import torch

from pytest_graphbreak import observe


def loop(compiled: Callable[[torch.Tensor], object], x: torch.Tensor, calls: int) -> float:
    """Seconds of CPU time of one call."""
    begin = time.process_time()
    for _ in range(calls):
        compiled(x)
    return (time.process_time() - begin) / calls


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calls")
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    compiled = torch.compile(lambda x: x + 1, backend="eager")
    x = torch.ones(3)
    compiled(x)
    found: dict[str, list[float]] = {"off": [], "off again": [], "counted": []}
    for _ in range(asked.rounds):
        for name, times in found.items():
            with observe() if name == "counted" else nullcontext() as seen:
                times.append(loop(compiled, x, asked.calls) * 1e6)
            if name == "counted":
                assert seen.record.executions["dynamo"] == asked.calls
    print(f"torch {torch.__version__}, {asked.calls:,} calls, {asked.rounds} rounds\n")
    print("| | microseconds of CPU time for a call |\n| --- | ---: |")
    for name, times in found.items():
        middle = statistics.median(times)
        print(f"| {name} | {middle:.1f} ({min(times):.1f} to {max(times):.1f}) |")


if __name__ == "__main__":
    main()
