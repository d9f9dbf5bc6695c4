"""How fast logs are analysed, beside ``grep -c``, and with how much memory.

    python -m benchmarks.logs [--size 1.0] [--rounds 5] [--directory DIR]

Writes logs of ``--size`` GB (10^9 bytes) with module bodies like those of real
transformers: hundreds of ops with stacks of locations, signatures with an
argument for each weight, now and then a constant of megabytes in one line. Each
measurement is a process of its own; the rounds of all of them take turns, so
that load from elsewhere hits all alike. Rates are of the median round. Besides
wall time there is CPU time, which a busy machine changes less.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

STAGES = (
    "vhlo",
    "shlo",
    "shlo_frontend",
    "shlo_compiler",
    "shlo_set_mesh_attr",
    "shlo_compiler_cleaned",
    "ttir",
    "ttnn",
    "ttnn_runtime",
)
END = "------------------ END OF MLIR MODULE ------------------\n"
SITE = "/root/tt-xla/venv/lib/python3.12/site-packages"
OPS = {
    "vhlo": '"vhlo.{op}_v1"({a}, {b}) : (!vhlo.tensor_v1<2x16x64x!vhlo.f32_v1>)',
    "ttir": '"ttir.{op}"({a}, {b}) : (tensor<2x16x64xf32>, tensor<2x16x64xf32>)',
    "ttnn": '"ttnn.{op}"({a}, {b}) <{{dtype = #ttcore.supportedDataTypes<f32>}}> : (#ttnn_layout7)',
}
STABLEHLO = "stablehlo.{op} {a}, {b} : tensor<2x16x64xf32>"
NAMES = (
    "add",
    "multiply",
    "dot_general",
    "transpose",
    "reshape",
    "broadcast_in_dim",
    "exponential",
)


def header(stage: str, clock: float) -> str:
    return (
        f"2026-08-21 10:22:52.123 ({clock:8.3f}s) [        421D1300]"
        f"{'module_builder.cc':>23}:1278     1| MLIR Module {stage}:\n"
    )


def body(stage: str, name: str, rng: random.Random, constant: str) -> str:
    """The text of one module: about 60 kB, more with a constant."""
    form = OPS.get(stage.removesuffix("_runtime"), STABLEHLO)
    lines = [f'#loc{n} = loc("p{n}.1")' for n in range(1, 60)]
    lines.append(f"module @{name} attributes {{mhlo.num_partitions = 1 : i32}} {{")
    signature = ", ".join(
        f'%arg{n}: tensor<64x64xf32> {{ttir.name = "layer.{n}.weight"}} loc("p{n}.1")'
        for n in range(60)
    )
    lines.append(f"  func.func @main({signature}) -> tensor<2x16x64xf32> {{")
    if constant:
        lines.append(f'    %cst = stablehlo.constant dense<"0x{constant}"> : tensor<f32> loc(#loc)')
    for n in range(500):
        op = form.format(op=rng.choice(NAMES), a=f"%{max(n - 1, 0)}", b=f"%arg{n % 60}")
        lines.append(f"    %{n} = {op} loc(#loc{200 + n % 150})")
    lines += ["  } loc(#loc)", "} loc(#loc)", "#loc = loc(unknown)"]
    for n in range(100, 150):
        lines.append(f'#loc{n} = loc("{SITE}/transformers/models/bert/modeling_bert.py":{n}:0)')
    for n in range(150, 200):
        lines.append(f'#loc{n} = loc("forward"(#loc{n - 50}))')
    for n in range(200, 350):
        lines.append(f'#loc{n} = loc("aten__mm"(#loc{150 + n % 50}))')
    return "\n".join(lines) + "\n"


def trace(number: int) -> str:
    """What +dynamo prints for one small function: mostly bytecode."""
    prefix = f"V0821 10:22:52.100000 4242 {'torch/_dynamo/'}"
    id = f"[{number}/0]"
    lines = [
        f"{prefix}convert_frame.py:930] {id} torchdynamo start compiling forward "
        "/root/tt-xla/net.py:10, stack (elided 5 frames):",
        f'{prefix}convert_frame.py:930] {id}   File "/root/tt-xla/main.py", line 3, in <module>',
        f"{prefix}convert_frame.py:930] {id}     net(x)",
        f"{prefix}convert_frame.py:930] {id} ",
        f"{prefix}symbolic_convert.py:2706] {id} Step 1: torchdynamo start tracing forward "
        "/root/tt-xla/net.py:10",
    ]
    for n in range(400):
        lines.append(
            f"{prefix}symbolic_convert.py:955] {id} [__trace_bytecode] TRACE LOAD_FAST x{n} "
            "[NullVariable, TorchInGraphFunctionVariable(linear), LazyVariableTracker()]"
        )
    lines.append(f"{prefix}output_graph.py:1505] {id} Step 2: done compiler function tt")
    return "\n".join(lines) + "\n"


def device_log(rng: random.Random, dynamo: bool) -> Iterator[str]:
    """A run of graphs, without end."""
    constant = "".join(rng.choices("0123456789ABCDEF", k=4096)) * 1024
    pool = {
        stage: [body(stage, "NAME", rng, constant if n == 0 else "") for n in range(12)]
        for stage in STAGES
    }
    clock, number = 1.0, 0
    while True:
        number += 1
        if dynamo:
            yield trace(number)
        which = rng.randrange(12)
        for stage in STAGES:
            clock += 0.01
            yield header(stage, clock)
            yield pool[stage][which].replace("NAME", f"SyncTensorsGraph.{number}", 1)
            yield END


def headers_only() -> Iterator[str]:
    clock = 1.0
    while True:
        for stage in STAGES:
            clock += 0.001
            yield header(stage, clock)


def write(path: Path, parts: Iterator[str], size: int) -> None:
    written = 0
    with path.open("w") as file:
        while written < size:
            written += file.write(next(parts))


MEASURED = {
    "grep -c": ["grep", "-c", "MLIR Module vhlo:"],
    "analyse": [sys.executable, __file__, "--measure"],
}


def measure(path: str) -> None:
    """Runs in a process of its own; what it found and its peak memory, as JSON."""
    from pytest_graphbreak.logs.reading import read
    from pytest_graphbreak.model.places import Places

    graphs = read(path, Places(Path.cwd())).graphs
    # Not ru_maxrss: that begins with what the process was forked from.
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0])
    print(json.dumps({"graphs": graphs, "kB": peak}))


def once(command: list[str], path: Path) -> dict[str, Any]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    said = subprocess.run([*command, str(path)], stdout=subprocess.PIPE, text=True, check=True)
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    found = json.loads(said.stdout) if said.stdout.startswith("{") else {"graphs": int(said.stdout)}
    return {"wall": wall, "cpu": cpu, **found}


def table(name: str, path: Path, rounds: int) -> None:
    runs: dict[str, list[dict[str, Any]]] = {what: [] for what in MEASURED}
    for _ in range(rounds):
        for what, command in MEASURED.items():
            runs[what].append(once(command, path))
    size = path.stat().st_size
    print(f"\n{name}: {size / 1e9:.2f} GB, load {os.getloadavg()[0]:.1f}")
    print(f"{'':10} {'graphs':>8} {'MB/s wall':>10} {'MB/s cpu':>10} {'peak MB':>8}")
    for what, found in runs.items():
        wall = statistics.median(run["wall"] for run in found)
        cpu = statistics.median(run["cpu"] for run in found)
        peak = max(run.get("kB", 0) for run in found) / 1024
        graphs = {run["graphs"] for run in found}
        print(
            f"{what:10} {'/'.join(map(str, graphs)):>8} {size / wall / 1e6:>10.0f} "
            f"{size / cpu / 1e6:>10.0f} {peak:>8.0f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=float, default=1.0, help="GB of the main logs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory", type=Path, help="where logs are written (and removed)")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("log", nargs="?", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        measure(args.log)
        return
    size = int(args.size * 1e9)
    directory = Path(tempfile.mkdtemp(dir=args.directory))
    logs = {
        "modules": (device_log(random.Random(1), dynamo=False), size),
        "modules and +dynamo": (device_log(random.Random(2), dynamo=True), size),
        "headers only (TTXLA_LOGGER_FILE)": (headers_only(), size // 10),
    }
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores")
    try:
        for name, (parts, wanted) in logs.items():
            path = directory / "run.log"
            write(path, parts, wanted)
            table(name, path, args.rounds)
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
