"""What counting runs costs a loop that compiles nothing.

    python -m benchmarks.calls [--calls 100000] [--rounds 5]
    python -m benchmarks.calls --steps [--calls 600] [--rounds 7]

The same loop, in one process and in turns: without a window of ours, and with one, with runs
counted (``graph_budget_runs = report``) and not (``off``). Prints the CPU time of a call, as the
median of the rounds with the minimum and the maximum, and the median of what it is more than off in
the same round: of a compiled graph of one operation on the backend ``eager``. ``--steps``: of
``Linear(8, 8)`` and ``torch_xla.sync(wait=True)``, lazy and compiled with ``openxla``.
"""

from __future__ import annotations

import argparse
import operator
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import torch

from pytest_graphbreak.layers import observers
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import Record

VARIANTS: Final[dict[str, bool | None]] = {
    "off": None,
    "off again": None,
    "counted": True,
    "runs not counted": False,
}
"""Whether runs are counted, by the name of the variant; None without a window."""


def call_of_a_graph() -> Callable[[], object]:
    compiled = torch.compile(lambda x: x + 1, backend="eager")
    x = torch.ones(3)
    return lambda: compiled(x)


def lazy_step() -> Callable[[], object]:
    return _step(compiled=False)


def compiled_step() -> Callable[[], object]:
    return _step(compiled=True)


def _step(compiled: bool) -> Callable[[], object]:
    import torch_xla

    linear = torch.nn.Linear(8, 8).to("xla")
    model = torch.compile(linear, backend="openxla") if compiled else linear
    x = torch.ones(4, 8).to("xla")

    def step() -> object:
        with torch.no_grad():
            held = model(x)
        torch_xla.sync(wait=True)
        return held

    return step


@contextmanager
def window(runs: bool | None) -> Iterator[list[Record]]:
    """Open a window on each layer, unless ``runs`` is None; its records come at the end."""
    windows = []
    records: list[Record] = []
    for observer in observers() if runs is not None else ():
        observer.runs = bool(runs)
        windows.append(observer.open(Places(Path.cwd())))
    try:
        yield records
    finally:
        records += filter(None, [opened.close() for opened in windows])


def microseconds(call: Callable[[], object], calls: int) -> float:
    """The CPU time of one call, of all threads."""
    begin = time.process_time()
    for _ in range(calls):
        call()
    return (time.process_time() - begin) / calls * 1e6


def table(call: Callable[[], object], calls: int, rounds: int) -> dict[str, list[float]]:
    """The microseconds of a call in each round, by variant."""
    times: dict[str, list[float]] = {name: [] for name in VARIANTS}
    for _ in range(10):
        call()
    for _ in range(rounds):
        for name, runs in VARIANTS.items():
            with window(runs) as records:
                call()  # what a new window makes anew is not the cost of a step
                times[name].append(microseconds(call, calls))
            counts = [count for record in records for count in record.executions.values() if count]
            assert set(counts) == ({calls + 1} if runs else set()), counts
    return times


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calls")
    parser.add_argument("--calls", type=int)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", action="store_true", help="of torch_xla")
    options = parser.parse_args()
    torch.set_num_threads(1)
    loops = (lazy_step, compiled_step) if options.steps else (call_of_a_graph,)
    calls = options.calls or (600 if options.steps else 100_000)
    print(f"torch {torch.__version__}, {calls:,} calls, {options.rounds} rounds\n")
    print("| | microseconds of CPU time for a call | more than off |\n| --- | ---: | ---: |")
    for loop in loops:
        times = table(loop(), calls, options.rounds)
        for name, rounds in times.items():
            middle, least, most = statistics.median(rounds), min(rounds), max(rounds)
            spread = f"{middle:.1f} ({least:.1f} to {most:.1f})"
            more = statistics.median(map(operator.sub, rounds, times["off"]))
            print(f"| {loop.__name__}, {name} | {spread} | {more:.1f} |")


if __name__ == "__main__":
    main()
