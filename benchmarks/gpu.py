"""CUDA graphs, Triton's kernels and inductor on a GPU, beside counters that are not ours.

    python -m benchmarks.gpu [--json FILE] [--only PART] [--jobs 4]

Each part is a small program. It runs in a process of its own twice: observed by us, and without us,
counted by torch's and Triton's own counters and by wrappers around the C++ class below
``torch.cuda.CUDAGraph``. The table has both; the exit code is 1 where any number differs or a part
failed. It needs a GPU, torch with Triton, msgspec and pyyaml; no pytest, no network. It takes two
or three minutes.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
LIMIT: Final = 150
"""Seconds that one process may take."""
END: Final = "RESULT "

KERNELS: Final = """
import triton
import triton.language as tl


@triton.jit
def scale(x, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < n)
    tl.store(x + at, values * factor, mask=at < n)


@triton.jit
def add(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n)
    tl.store(x + at, total, mask=at < n)
"""

Body = Callable[[], None]
"""The part of a program that is counted."""


# The programs. Each does what is not counted first and returns what is.


def user_graphs() -> Body:
    """Three sizes, captured in a loop, as a serving engine does; nine replays."""
    import torch

    weight = torch.randn(64, 64, device="cuda")
    inputs = {size: torch.randn(size, 64, device="cuda") for size in (1, 4, 16)}
    (inputs[1] @ weight).sum()
    torch.cuda.synchronize()

    def body() -> None:
        graphs = {}
        for size, x in inputs.items():
            graphs[size] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graphs[size]):
                torch.relu(x @ weight)
        for times, graph in enumerate(graphs.values(), 2):
            for _ in range(times):
                graph.replay()
        torch.cuda.synchronize()

    return body


def in_a_child() -> Body:
    """The same three sizes and nine replays, in a process that the program starts."""
    if "pytest_graphbreak" not in sys.modules:
        return user_graphs()  # without us they are counted where they are

    def body() -> None:
        code = "from benchmarks.gpu import user_graphs; user_graphs()()"
        subprocess.run([sys.executable, "-c", code], check=True)

    return body


def graphed_callables() -> Body:
    """A module with its backward pass, five steps."""
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU()).cuda()
    x = torch.randn(8, 32, device="cuda", requires_grad=True)

    def body() -> None:
        graphed = torch.cuda.make_graphed_callables(copy.deepcopy(model), (x,))
        for _ in range(5):
            graphed(torch.randn(8, 32, device="cuda", requires_grad=True)).sum().backward()
        torch.cuda.synchronize()

    return body


def captured_again() -> Body:
    """One CUDAGraph that is captured a second time, after a reset."""
    import torch

    x = torch.randn(8, 8, device="cuda")
    (x @ x).sum()
    torch.cuda.synchronize()

    def body() -> None:
        graph = torch.cuda.CUDAGraph()
        for _ in range(2):
            graph.reset()
            with torch.cuda.graph(graph):
                torch.sin(x)
            graph.replay()
        torch.cuda.synchronize()

    return body


def inference() -> Body:
    """mode="reduce-overhead", without gradients: a warm-up, a recording, replays."""
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.GELU()).cuda()
    compiled = torch.compile(model, mode="reduce-overhead")
    x = torch.randn(8, 32, device="cuda")

    def body() -> None:
        with torch.no_grad():
            for _ in range(6):
                compiled(x)
        torch.cuda.synchronize()

    return body


def training() -> Body:
    """mode="reduce-overhead" with a backward pass."""
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.GELU()).cuda()
    compiled = torch.compile(model, mode="reduce-overhead")
    x = torch.randn(8, 32, device="cuda")

    def body() -> None:
        for _ in range(6):
            # The gradients are outputs of a CUDA graph: the next step may not add to them.
            model.zero_grad(set_to_none=True)
            torch.compiler.cudagraph_mark_step_begin()
            compiled(x).sum().backward()
        torch.cuda.synchronize()

    return body


def skipped_cpu() -> Body:
    """A tensor on the CPU in the graph: no CUDA graph."""
    import torch

    torch._inductor.config.graph_partition = False
    table = torch.randn(32)

    def step(x: Any) -> Any:
        return x * 2 + table.sum()

    compiled = torch.compile(step, mode="reduce-overhead")
    x = torch.randn(8, 32, device="cuda")

    def body() -> None:
        with torch.no_grad():
            for _ in range(4):
                compiled(x)
        torch.cuda.synchronize()

    return body


def skipped_mutation() -> Body:
    """An input that is written to in place: no CUDA graph."""
    import torch

    def step(x: Any) -> Any:
        x.add_(1)
        return torch.sin(x)

    compiled = torch.compile(step, mode="reduce-overhead")
    x = torch.randn(8, 32, device="cuda")

    def body() -> None:
        with torch.no_grad():
            for _ in range(4):
                compiled(x)
        torch.cuda.synchronize()

    return body


def partitioned() -> Body:
    """A tensor on the CPU between two parts that can be recorded."""
    import torch

    torch._inductor.config.graph_partition = True

    def step(x: Any, y: Any) -> Any:
        head = torch.relu(x @ x)
        middle = (y + 1).to("cuda")
        return (head + middle) @ x

    compiled = torch.compile(step, mode="reduce-overhead")
    x, y = torch.randn(32, 32, device="cuda"), torch.randn(32, 32)

    def body() -> None:
        with torch.no_grad():
            for _ in range(5):
                compiled(x, y)
        torch.cuda.synchronize()

    return body


def recorded_again() -> Body:
    """A parameter that gets another address after it was recorded."""
    import torch

    model = torch.nn.Linear(32, 32).cuda()
    compiled = torch.compile(model, mode="reduce-overhead")
    x = torch.randn(8, 32, device="cuda")
    kept = []

    def body() -> None:
        with torch.no_grad():
            for _ in range(4):
                compiled(x)
            kept.append(model.weight.data)
            model.weight.data = model.weight.data.clone()
            for _ in range(3):
                compiled(x)
        torch.cuda.synchronize()

    return body


def kernels() -> Body:
    """One kernel for a size, one that is not divisible by 16, a dtype, a constant, a 1; another."""
    import torch
    from graphbreak_gpu_kernels import add, scale

    single = torch.randn(4096, device="cuda")
    half = single.half()

    def body() -> None:
        for x, count, block in (
            (single, 1024, 128),
            (single, 2048, 128),
            (single, 1001, 128),
            (half, 1024, 128),
            (single, 1024, 256),
            (single, 1, 128),
        ):
            scale[(max(1, count // block),)](x, count, 0.5, BLOCK=block)
        add[(8,)](single, single, 1024, BLOCK=128)
        torch.cuda.synchronize()

    return body


def specializes_per_step() -> Body:
    """A loop whose constant is the step: one kernel more in each."""
    import torch
    from graphbreak_gpu_kernels import scale

    x = torch.randn(65536, device="cuda")
    blocks = itertools.count(5)

    def body() -> None:
        for _ in range(4):
            scale[(8,)](x, 1024, 0.5, BLOCK=1 << next(blocks))
        torch.cuda.synchronize()

    return body


def compiled_kernels() -> Body:
    """A training step by inductor's Triton: kernels, library calls and graphs."""
    import torch

    model = torch.nn.Sequential(
        torch.nn.Linear(64, 64), torch.nn.LayerNorm(64), torch.nn.GELU(), torch.nn.Linear(64, 8)
    ).cuda()
    compiled = torch.compile(model)
    x = torch.randn(16, 64, device="cuda")

    def body() -> None:
        compiled(x).softmax(-1).sum().backward()
        with torch.no_grad():
            compiled(x)
        torch.cuda.synchronize()

    return body


PARTS: Final[dict[str, Callable[[], Body]]] = {
    part.__name__: part
    for part in (
        user_graphs,
        in_a_child,
        graphed_callables,
        captured_again,
        inference,
        training,
        skipped_cpu,
        skipped_mutation,
        partitioned,
        recorded_again,
        kernels,
        specializes_per_step,
        compiled_kernels,
    )
}
AGAIN: Final = {"captured_again": 1, "recorded_again": 1, "kernels": 4, "specializes_per_step": 3}
"""The recompiles that each program is written to have; torch counts none of them."""


# Counting, with us and without us, each in a process of its own.


def ours(part: str) -> dict[str, Any]:
    from pytest_graphbreak import observe
    from pytest_graphbreak.layers.inductor.skips import PREFIX

    body = PARTS[part]()
    with observe() as seen:
        body()
    record = seen.record
    graphs = [graph for graph in record.graph_list if graph.layer != "dynamo"]
    return {
        "captures": record.graphs.get("cudagraph", 0),
        "replays": record.executions.get("cudagraph", 0),
        "kernels": record.graphs.get("triton", 0),
        "skips": sum(item.count for item in record.eager if item.reason.startswith(PREFIX)),
        "graphs": record.graphs.get("inductor", 0),
        "generated": sum(graph.ops or 0 for graph in graphs if graph.layer == "inductor"),
        "again": sum(record.recompiles.get(layer, 0) for layer in ("cudagraph", "triton")),
        "shown": {
            "graphs": [
                f"{one.layer} {one.name} {one.cause} {one.where.file}:{one.where.line} "
                f"{one.where.code} | {one.reason} | {one.cached}"
                for one in graphs
            ],
            "recompiles": [f"{one.layer} {one.reason}" for one in record.recompile_list],
            "eager": [f"{one.reason} {one.where.file}:{one.where.line}" for one in record.eager],
            "runs": [
                f"{one.where.line} {one.where.code} x{one.count}"
                for one in record.execution_list
                if one.layer == "cudagraph"
            ],
            "errors": list(record.errors),
            "notes": list(record.notes),
            "blocks": blocked(body),
        },
    }


def blocked(body: Body) -> str:
    """The words of a block that allows nothing, around the same program a second time."""
    from pytest_graphbreak import BudgetExceeded, observe

    try:
        with observe(max_graphs=0):
            body()
    except BudgetExceeded as error:
        return str(error)
    except Exception:
        return traceback.format_exc()
    return "nothing was compiled"


def theirs(part: str) -> dict[str, Any]:
    import torch

    counts: Counter[str] = Counter()
    wrap(torch._C._CUDAGraph, "capture_end", counts)
    wrap(torch._C._CUDAGraph, "replay", counts)
    body = PARTS[part]()
    from torch._dynamo.utils import counters
    from torch._inductor import metrics
    from torch._inductor.cudagraph_trees import CUDAGraphTreeManager

    wrap(CUDAGraphTreeManager, "__init__", counts)
    body()
    inductor = counters["inductor"]
    return {
        # Each manager captures one empty graph, which keeps its memory pool alive.
        "captures": counts["capture_end"] - counts["__init__"],
        "replays": counts["replay"],
        "kernels": cached_kernels(),
        "skips": inductor["cudagraph_skips"],
        "graphs": inductor["fxgraph_cache_miss"]
        + inductor["fxgraph_cache_hit"]
        + inductor["fxgraph_cache_bypass"],
        "generated": metrics.generated_kernel_count,
        "again": AGAIN.get(part, 0),
    }


def wrap(owner: Any, name: str, counts: Counter[str]) -> None:
    original = getattr(owner, name)

    def counting(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        counts[name] += 1
        return result

    setattr(owner, name, counting)


def cached_kernels() -> int:
    """The kernels that Triton holds for our two functions: one for each specialization."""
    module: Any = sys.modules.get("graphbreak_gpu_kernels")
    if module is None:
        return 0
    return sum(
        len(cache[0] if isinstance(cache, tuple) else cache)
        for function in (module.scale, module.add)
        for cache in function.device_caches.values()
    )


COUNTERS: Final = {"ours": ours, "theirs": theirs}


def child(part: str, who: str) -> int:
    """Count one part in this process and print what was counted, or why not."""
    try:
        found = COUNTERS[who](part)
    except BaseException:
        print(END + json.dumps({"failed": traceback.format_exc()}), flush=True)
        return 1
    print(END + json.dumps(found), flush=True)
    return 0


# Running all parts, and the table.


def counted(part: str, who: str, folder: str) -> dict[str, Any]:
    """Run one part in a process of its own."""
    (cache := Path(folder, f"{part}-{who}")).mkdir()
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(
            filter(None, (str(ROOT), folder, os.environ.get("PYTHONPATH", "")))
        ),
        "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
        "TRITON_CACHE_DIR": str(cache / "triton"),
    }
    command = [sys.executable, "-m", "benchmarks.gpu", "--part", part, "--by", who]
    began = time.monotonic()
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith(END)]
        found: dict[str, Any] = json.loads(lines[-1][len(END) :]) if lines else {}
        if not lines:
            found["failed"] = f"exit {done.returncode}\n{(done.stdout + done.stderr)[-3000:]}"
        elif "failed" in found:
            found["failed"] += done.stderr[-1500:]
    except subprocess.TimeoutExpired as error:
        found = {"failed": f"no result in {LIMIT} s\n{str(error.stderr)[-2000:]}"}
    return {**found, "seconds": round(time.monotonic() - began, 1)}


COLUMNS: Final = ("graphs", "generated", "skips", "captures", "replays", "kernels", "again")


def row(part: str, pair: dict[str, dict[str, Any]]) -> tuple[str, bool]:
    """Return the line of a part, and whether both counters agree."""
    left, right = pair["ours"], pair["theirs"]
    cells, same = [], True
    for column in COLUMNS:
        one, other = left.get(column), right.get(column)
        equal = one is not None and one == other
        same = same and equal
        cells.append(f"{one}" if equal else f"{one}/{other}")
    same = same and not left.get("shown", {}).get("errors")
    words = "ok" if same else "failed" if "failed" in left or "failed" in right else "differs"
    return f"| {part} | {' | '.join(cells)} | {words} |", same


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", metavar="FILE", help="write all numbers, lines and reasons")
    parser.add_argument("--only", choices=PARTS, help="run one part")
    parser.add_argument("--jobs", type=int, default=4, help="processes at a time (default: 4)")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--by", choices=COUNTERS, default="ours", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.part:
        return child(args.part, args.by)
    parts = [args.only] if args.only else [*PARTS]
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="graphbreak-gpu-") as folder:
        Path(folder, "graphbreak_gpu_kernels.py").write_text(KERNELS)
        with ThreadPoolExecutor(args.jobs) as pool:
            runs = {
                (part, who): pool.submit(counted, part, who, folder)
                for part in parts
                for who in COUNTERS
            }
            results = {part: {who: runs[part, who].result() for who in COUNTERS} for part in parts}
    return show(results, args.json, time.monotonic() - began)


def show(results: dict[str, dict[str, dict[str, Any]]], file: str | None, took: float) -> int:
    """Print the table and the failures, write the JSON, and return the exit code."""
    print(f"| part | {' | '.join(COLUMNS)} | |")
    print(f"| --- | {'---: | ' * len(COLUMNS)}--- |")
    good = 0
    for part, pair in results.items():
        text, same = row(part, pair)
        good += same
        print(text)
    for part, pair in results.items():
        for who, found in pair.items():
            if "failed" in found:
                print(f"\n{part}, {who}:\n{found['failed']}")
            elif errors := found.get("shown", {}).get("errors"):
                print(f"\n{part}, {who}: {'; '.join(errors)}")
    print(f"\n{good} of {len(results)} parts agree; {took:.0f} s")
    if file:
        Path(file).write_text(json.dumps({"seconds": took, "parts": results}, indent=1))
    return 0 if good == len(results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
