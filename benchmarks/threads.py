"""Threads that compile, run and read at once while windows open and close: nothing may hang.

    python -m benchmarks.threads [--rounds 100] [--threads 2 4 8] [--limit 300] [PROGRAM...]

A program is a key of ``PROGRAMS``; without one, those are run whose compiler this Python has. Each
is run with each number of threads, in a process of its own. In a round all threads do the work of
the program at once, inside of one window, while windows in the main thread open, are looked at and
close. A process that takes longer than ``--limit`` seconds prints the stacks of all its threads and
ends. Prints a line for each; the exit code is 1 where a process hung or failed, where a thread
raised, or where reads and executions are not those of torch_xla's metrics.

torch_xla itself raises where one thread syncs while another holds what is not computed yet: so the
program ``openxla`` has a lock around what syncs, and ``lazy`` has no sync.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import importlib.util
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]

Work = Callable[[int], None]
"""What one thread does in a round; its argument differs between threads and rounds."""


def dynamo() -> Work:
    """Compile with a break, run, recompile and read, on the CPU."""
    torch: Any = importlib.import_module("torch")
    importlib.import_module("torch._dynamo")

    def work(number: int) -> None:
        def function(x: Any) -> Any:
            y = x * number
            torch._dynamo.graph_break()
            return y.sum()

        compiled = torch.compile(function, backend="eager", dynamic=False)
        for size in (2, 2, 3):
            assert compiled(torch.ones(size)).item() == size * number

    return work


def lazy() -> Work:
    """Read lazy tensors of torch_xla in each of the ways that there are."""
    torch: Any = importlib.import_module("torch")
    device = importlib.import_module("torch_xla").device()

    def work(number: int) -> None:
        size = number % 5 + 1
        x = torch.arange(float(size)).to(device)
        assert (x + number).sum().item() == sum(range(size)) + size * number
        assert bool((x >= 0).all())
        assert (float(x[0]), int(x[-1])) == (0, size - 1)
        assert len((x + 1).cpu()) == len((x - 1).tolist()) == size
        assert str(x * 2).startswith("tensor(")

    return work


def openxla() -> Work:
    """Compile for torch_xla, run, sync and read, one thread at a time."""
    torch: Any = importlib.import_module("torch")
    torch_xla: Any = importlib.import_module("torch_xla")
    lock = threading.Lock()

    def function(x: Any) -> Any:
        return (x * 2).sum()

    compiled = torch.compile(function, backend="openxla")

    def work(number: int) -> None:
        size = number % 3 + 2
        with lock:
            x = torch.ones(size).to(torch_xla.device())
            assert compiled(x).item() == 2 * size
            torch_xla.sync(wait=number % 2 == 0)

    return work


def jax() -> Work:
    """Compile a function of JAX, run it for two shapes and read."""
    module: Any = importlib.import_module("jax")

    def work(number: int) -> None:
        function = module.jit(lambda x: (x * number).sum())
        for size in (2, 3):
            assert float(function(module.numpy.ones(size))) == size * number

    return work


def children() -> Work:
    """Start a process, and wait for it."""

    def work(number: int) -> None:
        subprocess.run([sys.executable, "-c", "pass"], check=True, timeout=120)

    return work


class Program(NamedTuple):
    """A program, and the modules that it needs."""

    prepare: Callable[[], Work]
    needs: tuple[str, ...] = ()


PROGRAMS: Final[Mapping[str, Program]] = {
    "dynamo": Program(dynamo, ("torch",)),
    "lazy": Program(lazy, ("torch", "torch_xla")),
    "openxla": Program(openxla, ("torch", "torch_xla")),
    "jax": Program(jax, ("jax",)),
    "children": Program(children),
}


def here() -> list[str]:
    """Return the programs whose modules this Python has."""
    return [
        name
        for name, program in PROGRAMS.items()
        if all(map(importlib.util.find_spec, program.needs))
    ]


def stress(name: str, threads: int, rounds: int) -> list[str]:
    """Run a program in this process; return what went wrong."""
    from pytest_graphbreak.measuring.measure import Measurement

    work = PROGRAMS[name].prepare()
    faults: list[str] = []

    def run(number: int) -> None:
        try:
            work(number)
        except Exception as fault:
            faults.append(f"{type(fault).__name__}: {fault}")

    for turn in range(rounds):
        before = _metrics()
        with Measurement(ROOT) as seen:
            workers = [
                threading.Thread(target=run, args=(turn * threads + number,))
                for number in range(threads)
            ]
            for worker in workers:
                worker.start()
            while any(worker.is_alive() for worker in workers):
                with Measurement(ROOT) as inner:
                    inner.peek()
                seen.peek()
                time.sleep(0.001)
            for worker in workers:
                worker.join()
        record = seen.close()
        faults += record.errors
        counted = record.executions.get("xla", 0), record.reads.get("xla", 0)
        if _metrics() != (wanted := tuple(map(sum, zip(before, counted, strict=True)))):
            faults.append(f"round {turn}: metrics {_metrics()}, counted {wanted}")
    return faults


def _metrics() -> tuple[int, ...]:
    """Return how often torch_xla ran graphs and read values, once it is done."""
    if "torch_xla" not in sys.modules:
        return 0, 0
    importlib.import_module("torch_xla.core.xla_model").wait_device_ops()
    metrics = importlib.import_module("torch_xla.debug.metrics")
    data = map(metrics.metric_data, ("ExecuteTime", "TransferFromDeviceTime"))
    return tuple(one[0] if one else 0 for one in data)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--threads", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--limit", type=int, default=300)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", choices=[*PROGRAMS, []])
    options = parser.parse_args()
    if options.inside:
        faulthandler.dump_traceback_later(options.limit, exit=True)
        faults = stress(options.programs[0], options.threads[0], options.rounds)
        print("\n".join(dict.fromkeys(faults)))
        return bool(faults)
    failed = False
    for name in options.programs or here():
        for threads in options.threads:
            failed |= not _process(name, threads, options.rounds, options.limit)
    return failed


def _process(name: str, threads: int, rounds: int, limit: int) -> bool:
    """Run a program in a process of its own, and print what became of it."""
    began = time.monotonic()
    numbers = [f"--rounds={rounds}", f"--limit={limit}"]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            __spec__.name,
            "--inside",
            *numbers,
            name,
            "--threads",
            f"{threads}",
        ],
        cwd=ROOT,
        env={"PJRT_DEVICE": "CPU", "JAX_PLATFORMS": "cpu"} | os.environ,
        capture_output=True,
        text=True,
    )
    took = time.monotonic() - began
    state = "ok" if done.returncode == 0 else f"exit code {done.returncode}"
    print(f"{name:9} {threads} threads, {rounds} rounds: {state}, {took:.0f} s", flush=True)
    if done.returncode:
        print(done.stdout[-4000:], done.stderr[-8000:], sep="\n")
    return done.returncode == 0


if __name__ == "__main__":
    raise SystemExit(main())
