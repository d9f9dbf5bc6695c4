"""What inductor compiles, on a CPU: our counts beside torch's own, in a process without us.

    python -m benchmarks.inductor [--only NAME] [--first N] [--after N] [--json FILE]

Forty small modules, each with a forward and a backward pass and once without gradients; every
fourth asks for CUDA graphs, which inductor skips on a CPU. Torch's counters (``fxgraph_cache_*``,
``metrics.generated_kernel_count``, ``extern_calls``, ``cudagraph_skips``) are read without us, cold
and in a second process with a warm cache; ours likewise. The exit code is 1 where a number differs.

It needs g++ and takes about ten minutes on two idle cores. The C++ that the first process compiled
is used by the third, whose graphs are compiled anew.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
END: Final = "RESULT "
CALLS: Final = re.compile(r"(\d+) calls? of libraries")
COLUMNS: Final = ("graphs", "kernels", "calls", "skips")

Module = Callable[[Any, Any], Any]
"""A function of ``x`` [8, 16] and ``w`` [16, 16], both with gradients."""


def modules() -> dict[str, Module]:
    """Return forty programs by name."""
    import torch
    from torch.nn import functional as nn

    def attention(x: Any, w: Any) -> Any:
        heads = (x @ w).view(2, 4, 4, 4).transpose(1, 2)
        return nn.scaled_dot_product_attention(heads, heads, heads).sum(-1)

    def normed(x: Any, w: Any) -> Any:
        return nn.layer_norm(nn.gelu(x @ w), (16,)) + x

    def loop(x: Any, w: Any) -> Any:
        for _ in range(4):
            x = torch.tanh(x @ w)
        return x

    def branches(x: Any, w: Any) -> Any:
        return torch.where(x > 0, x * 2, torch.sin(x @ w))

    return {
        "add": lambda x, w: x + 1,
        "sin": lambda x, w: torch.sin(x) * torch.cos(x),
        "matmul": lambda x, w: x @ w,
        "matmul_relu": lambda x, w: torch.relu(x @ w),
        "softmax": lambda x, w: (x @ w).softmax(-1),
        "log_softmax": lambda x, w: nn.log_softmax(x, -1) @ w,
        "gelu": lambda x, w: nn.gelu(x) @ w,
        "silu": lambda x, w: nn.silu(x @ w) * x,
        "layer_norm": normed,
        "batch_norm": lambda x, w: nn.batch_norm(x @ w, None, None, training=True),
        "group_norm": lambda x, w: nn.group_norm(x, 4) @ w,
        "rms": lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) @ w,
        "dropout": lambda x, w: nn.dropout(x, 0.1) @ w,
        "attention": attention,
        "histc": lambda x, w: (x @ w) * torch.histc(x.detach(), 4).sum(),
        "sort": lambda x, w: x.sort(-1).values @ w,
        "topk": lambda x, w: (x @ w).topk(4).values,
        "cumsum": lambda x, w: x.cumsum(-1) @ w,
        "cumprod": lambda x, w: x.sigmoid().cumsum(0) * 2,
        "argmax": lambda x, w: (x @ w) * x.argmax(-1, keepdim=True),
        "gather": lambda x, w: x.gather(1, x.argsort(-1)) @ w,
        "scatter": lambda x, w: torch.zeros_like(x).scatter(1, x.argsort(-1), x) @ w,
        "index": lambda x, w: x[torch.arange(7, -1, -1)] @ w,
        "embedding": lambda x, w: nn.embedding(x.detach().abs().long() % 16, w).sum(1),
        "conv": lambda x, w: nn.conv1d(x[None], w[:3].reshape(2, 8, 3)),
        "pool": lambda x, w: nn.max_pool1d(x[None], 2) * 2,
        "mean_pool": lambda x, w: nn.avg_pool1d(x[None], 4),
        "pad": lambda x, w: nn.pad(x, (1, 1)).sum(-1),
        "cat": lambda x, w: torch.cat([x, x @ w, w], 0),
        "stack": lambda x, w: torch.stack([x, x @ w]).amax(0),
        "split": lambda x, w: sum(part * 2 for part in (x @ w).split(4, -1)),
        "einsum": lambda x, w: torch.einsum("bi,ij,bj->b", x, w, x),
        "bmm": lambda x, w: torch.bmm(x.view(2, 4, 16), w.expand(2, 16, 16)),
        "addmm": lambda x, w: torch.addmm(x[0], x, w),
        "where": branches,
        "clamp": lambda x, w: (x @ w).clamp(-1, 1).abs(),
        "var": lambda x, w: x.var(-1) + w.std(),
        "norm": lambda x, w: x / x.norm(dim=-1, keepdim=True),
        "fft": lambda x, w: torch.fft.rfft(x).abs() + 1,
        "loop": loop,
    }


def run(names: list[str], by: str) -> dict[str, dict[str, int]]:
    """Run these modules in this process, and return what ``by`` counts of each."""
    import torch

    found = {}
    known = modules()
    for number, name in enumerate(known):
        if name not in names:
            continue
        torch._dynamo.reset()
        torch.manual_seed(0)
        mode = "reduce-overhead" if number % 4 == 3 else None
        compiled = torch.compile(known[name], mode=mode)
        x, w = torch.randn(8, 16, requires_grad=True), torch.randn(16, 16, requires_grad=True)

        def steps(compiled: Any = compiled, x: Any = x, w: Any = w) -> None:
            compiled(x, w).sum().backward()
            with torch.no_grad():
                compiled(x, w)

        found[name] = COUNTERS[by](steps)
    return found


def theirs(steps: Callable[[], None]) -> dict[str, int]:
    from torch._dynamo.utils import counters
    from torch._inductor import metrics

    counters.clear()
    metrics.reset()
    steps()
    inductor = counters["inductor"]
    states = ("miss", "hit", "bypass")
    return {
        "graphs": sum(inductor[f"fxgraph_cache_{state}"] for state in states),
        "kernels": metrics.generated_kernel_count,
        "calls": inductor["extern_calls"],
        "skips": inductor["cudagraph_skips"],
        "loaded": inductor["fxgraph_cache_hit"],
    }


def ours(steps: Callable[[], None]) -> dict[str, int]:
    from pytest_graphbreak import observe
    from pytest_graphbreak.layers.inductor.skips import PREFIX

    with observe() as seen:
        steps()
    record = seen.record
    if record.errors:
        raise RuntimeError(record.errors)
    graphs = [graph for graph in record.graph_list if graph.layer == "inductor"]
    return {
        "graphs": record.graphs.get("inductor", 0),
        "kernels": sum(graph.ops or 0 for graph in graphs),
        "calls": sum(
            int(calls[1]) for graph in graphs if (calls := CALLS.search(graph.reason)) is not None
        ),
        "skips": sum(item.count for item in record.eager if item.reason.startswith(PREFIX)),
        "inference": sum(graph.cause == "inference" for graph in graphs),
        "loaded": sum(graph.cached == "loaded" for graph in graphs),
        "placed": sum(bool(graph.where.file and graph.sources) for graph in graphs),
    }


COUNTERS: Final = {"ours": ours, "theirs": theirs}


def process(names: list[str], by: str, cache: Path) -> dict[str, dict[str, int]]:
    """Run these modules in a process of its own with this cache of inductor's."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", "")))),
        "TORCHINDUCTOR_CACHE_DIR": str(cache),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "benchmarks.inductor", "--by", by, "--names", ",".join(names)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith(END)]
    if not lines:
        raise SystemExit(f"{by} failed, exit {done.returncode}\n{done.stdout}{done.stderr}")
    found: dict[str, dict[str, int]] = json.loads(lines[-1][len(END) :])
    return found


def compared(names: list[str], cache: Path) -> dict[str, dict[str, dict[str, int]]]:
    """Return the counts of four processes by what they are, cold and warm."""
    found = {}
    for by in ("theirs", "ours"):
        for folder in ("fxgraph", "aotautograd"):
            shutil.rmtree(cache / folder, ignore_errors=True)
        for state in ("cold", "warm"):
            found[f"{by} {state}"] = process(names, by, cache)
    return found


def differences(found: dict[str, dict[str, dict[str, int]]]) -> list[str]:
    """Return in words where our counts are not torch's, or have no place."""
    words = []
    for name, cold in found["ours cold"].items():
        warm = found["ours warm"][name]["inference"]
        if cold["inference"] != warm:
            words.append(f"{name}: {cold['inference']} graphs for inference cold, {warm} warm")
    for state in ("cold", "warm"):
        for name, torchs in found[f"theirs {state}"].items():
            own = found[f"ours {state}"][name]
            words += [
                f"{name}, {state}: {own[key]} {key}, torch counts {torchs[key]}"
                for key in (*COLUMNS, "loaded")
                if own[key] != torchs[key]
            ]
            if own["placed"] != own["graphs"]:
                words.append(f"{name}, {state}: {own['graphs'] - own['placed']} without a place")
    return words


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", help="run one module")
    parser.add_argument("--first", type=int, help="run so many modules")
    parser.add_argument("--after", type=int, default=0, help="leave out so many before them")
    parser.add_argument("--json", metavar="FILE", help="write all numbers")
    parser.add_argument("--by", choices=COUNTERS, help=argparse.SUPPRESS)
    parser.add_argument("--names", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.by:
        print(END + json.dumps(run(args.names.split(","), args.by)), flush=True)
        return 0
    names = [args.only] if args.only else [*modules()][args.after :][: args.first]
    with tempfile.TemporaryDirectory(prefix="graphbreak-inductor-") as folder:
        found = compared(names, Path(folder))
    for name, own in found["ours cold"].items():
        print(f"{name:12} " + ", ".join(f"{own[key]} {key}" for key in COLUMNS))
    total = {key: sum(own[key] for own in found["ours cold"].values()) for key in COLUMNS}
    words = differences(found)
    print("\n".join(words))
    print(f"{len(names)} modules: {total}; {len(words)} differences, cold and warm")
    if args.json:
        Path(args.json).write_text(json.dumps(found, indent=1))
    return 1 if words else 0


if __name__ == "__main__":
    raise SystemExit(main())
