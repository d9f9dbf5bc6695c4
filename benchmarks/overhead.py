"""What observing costs, beside torch's own ways to learn of graph breaks.

    python -m benchmarks.overhead [--layer dynamo|xla] [--rounds 7] [--json FILE] [MODEL...]
    python -m benchmarks.overhead --paired [--layer dynamo|inductor|xla] [--rounds 7] [MODEL...]
    python -m benchmarks.overhead --instructions [MODEL...]

Each measurement is a process of its own that compiles the same models cold,
several times, and tells the median time of each: CPU time of the process with
all its threads, which other work on the machine changes least. The variants take turns, and
the round as a whole is the unit: a ratio is that of one variant to ``off`` in
the same round, and what is printed is the median of the ratios with their
spread. ``off again`` is the same as ``off``: what it shows is noise.

``--paired`` measures the plugin alone, quicker and finer: one process compiles
each model without it and with it in turns.

``--instructions`` counts the instructions of a compilation with valgrind, which
other work on the machine does not change: those of a process that compiles a
model some times more than another, divided by how many. Hours of CPU for all.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

from benchmarks.executed import instructions as executed

LOGGED: Final = {"TORCH_LOGS": "graph_breaks,recompiles"}
EVERYTHING: Final = {"TORCH_LOGS": "+dynamo", "TORCH_LOGS_OUT": "{directory}/log"}
VARIANTS: Final[dict[str, dict[str, str]]] = {
    "off": {},
    "off again": {},
    "plugin": {"OBSERVED": "reasons"},
    "plugin, no xla reasons": {"OBSERVED": "counts"},
    "TORCH_LOGS=graph_breaks,recompiles": LOGGED,
    "TORCH_LOGS=+dynamo to a file": EVERYTHING,
    "TORCH_TRACE": {"TORCH_TRACE": "{directory}/trace"},
}
"""What is set in the environment of a process, by the name of the variant."""

REPETITIONS: Final = 5
BACKENDS: Final = {"dynamo": "eager", "inductor": "inductor", "xla": "openxla"}
MODELS: Final = ("mlp", "prints", "distilbert", "longformer", "llama")


def _mlp() -> tuple[Callable[..., Any], Callable[[int], dict[str, Any]]]:
    import torch

    layers = [torch.nn.Linear(16, 16) for _ in range(8)]
    return torch.nn.Sequential(*layers), lambda batch: {"input": torch.ones(batch, 16)}


def _prints() -> tuple[Callable[..., Any], Callable[[int], dict[str, Any]]]:
    import torch

    class Prints(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for step in range(4):
                x = self.part(x, step)
            return x

        def part(self, x: torch.Tensor, step: int) -> torch.Tensor:
            y = torch.sin(x)
            print(end="")
            return y * step

    return Prints(), lambda batch: {"x": torch.ones(batch, 16)}


def _normed() -> tuple[Callable[..., Any], Callable[[int], dict[str, Any]]]:
    import torch

    layers = [torch.nn.Linear(16, 16), torch.nn.LayerNorm(16), torch.nn.GELU()]
    return torch.nn.Sequential(*layers), lambda batch: {"input": torch.ones(batch, 16)}


def _of_the_zoo(name: str) -> tuple[Callable[..., Any], Callable[[int], dict[str, Any]]]:
    import torch

    from tests.models.zoo import ZOO

    model, inputs = ZOO[name].build()

    def batch_of(size: int) -> dict[str, Any]:
        return {
            key: torch.cat([value[:1]] * size) if torch.is_tensor(value) else value
            for key, value in inputs.items()
        }

    return model, batch_of


def _build(name: str) -> tuple[Any, Callable[[int], dict[str, Any]]]:
    small = {"mlp": _mlp, "normed": _normed, "prints": _prints}
    return small[name]() if name in small else _of_the_zoo(name)


@contextmanager
def _counted() -> Iterator[None]:
    """The observers with the reasons of the xla layer turned off."""
    from pytest_graphbreak.layers.dynamo.observer import DynamoObserver
    from pytest_graphbreak.layers.xla.observer import XlaObserver
    from pytest_graphbreak.model.places import Places

    windows = [
        observer.open(Places(Path.cwd()))
        for observer in (DynamoObserver(), XlaObserver(reasons=False))
    ]
    yield
    for window in reversed(windows):
        window.close()


def _watching() -> AbstractContextManager[Any]:
    wanted = os.environ.get("OBSERVED")
    if wanted == "reasons":
        from pytest_graphbreak import observe

        return observe()
    return _counted() if wanted else nullcontext()


def measure(layer: str, names: list[str]) -> dict[str, float]:
    """Seconds of CPU to compile each model cold, the median here; the first one is warm-up."""
    import torch

    device = torch.device("cpu")
    if layer == "xla":
        import torch_xla

        device = torch_xla.device()
    backend = BACKENDS[layer]
    found = {}
    for name in names:
        model, inputs = _build(name)
        model = model.to(device)
        times = []
        for number in range(REPETITIONS + 1):
            # Another batch each time: below Dynamo, an equal graph would come from a cache.
            given = {key: value.to(device) for key, value in inputs(number + 2).items()}
            torch._dynamo.reset()
            start = time.process_time()
            with _watching(), torch.no_grad():
                torch.compile(model, backend=backend, dynamic=False)(**given)
                if layer == "xla":
                    torch_xla.sync(wait=True)
            times.append(time.process_time() - start)
        found[name] = statistics.median(times[1:])
    return found


def paired(layer: str, number: int, names: list[str]) -> Iterator[str]:
    """Markdown: the plugin against nothing, and nothing against nothing, ``number`` pairs each."""
    import torch

    from pytest_graphbreak import observe

    device = torch.device("cpu")
    if layer == "xla":
        import torch_xla

        device = torch_xla.device()
    backend = BACKENDS[layer]
    if layer == "inductor":  # each compilation is a cold one
        from torch._inductor import config

        config.force_disable_caches = True
    yield "| | compile, off | off again | plugin |"
    yield "| --- | ---: | ---: | ---: |"
    batch = 1
    for name in names:
        model, inputs = _build(name)
        model = model.to(device)
        seconds: dict[str, list[float]] = {"off": [], "off again": [], "plugin": []}
        for turn in range(number + 1):
            order = list(seconds) if turn % 2 else list(reversed(seconds))
            for variant in order:
                batch = batch % 64 + 1
                given = {key: value.to(device) for key, value in inputs(batch).items()}
                torch._dynamo.reset()
                gc.collect()  # else a collection of everything falls on the same variant each turn
                start = time.process_time()
                with observe() if variant == "plugin" else nullcontext(), torch.no_grad():
                    torch.compile(model, backend=backend, dynamic=False)(**given)
                    if layer == "xla":
                        torch_xla.sync(wait=True)
                if turn:
                    seconds[variant].append(time.process_time() - start)
        off = seconds["off"]
        again = _ratio([a / b for a, b in zip(seconds["off again"], off, strict=True)])
        plugin = _ratio([a / b for a, b in zip(seconds["plugin"], off, strict=True)])
        yield f"| {name} | {1000 * statistics.median(off):.0f} ms | {again} | {plugin} |"


def repeat(name: str, times: int, observed: bool) -> None:
    """Compile a model cold so many times; the first compilation of the process is another's."""
    import torch

    from pytest_graphbreak import observe

    model, inputs = _build(name)
    with observe():
        torch.compile(torch.sin, backend="eager")(torch.ones(3))
    for number in range(times):
        torch._dynamo.reset()
        with observe() if observed else nullcontext(), torch.no_grad():
            torch.compile(model, backend="eager", dynamic=False)(**inputs(number + 2))


def instructions(names: list[str]) -> Iterator[str]:
    """Markdown: a row for each variant of each model, as soon as it is counted."""
    yield "| | | instructions of a compilation | ratio to off |"
    yield "| --- | --- | ---: | ---: |"
    for name in names:
        off = 0.0
        for variant, settings in VARIANTS.items():
            if "xla" in variant:
                continue
            count = _instructions(name, settings)
            off = off or count
            yield f"| {name} | {variant} | {count / 1e6:,.0f} million | {count / off:.4f} |"


def _instructions(name: str, settings: dict[str, str]) -> float:
    """Of one compilation: what four more make, of a process that made two before."""
    command = [sys.executable, "-m", "benchmarks.overhead", name]
    command += ["--observed"] if "OBSERVED" in settings else []
    with tempfile.TemporaryDirectory() as directory:
        environ = _environ(settings, directory)
        few, many = (
            executed([*command, "--repeat", str(times)], environ=environ) for times in (2, 6)
        )
    return (many - few) / 4


def _environ(settings: dict[str, str], directory: str) -> dict[str, str]:
    environ = {key: value for key, value in os.environ.items() if not key.startswith("TORCH_")}
    environ |= {key: value.format(directory=directory) for key, value in settings.items()}
    environ.setdefault("OMP_NUM_THREADS", "1")
    return environ


def _run(
    layer: str, names: list[str], settings: dict[str, str], directory: str
) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.overhead", "--layer", layer, "--once", *names],
        env=_environ(settings, directory),
        capture_output=True,
        text=True,
        check=True,
    )
    last = done.stdout.strip().splitlines()[-1]
    return {str(name): float(seconds) for name, seconds in json.loads(last).items()}


def rounds(layer: str, number: int, names: list[str]) -> dict[str, list[dict[str, float]]]:
    """``number`` rounds of all variants, in turn."""
    found: dict[str, list[dict[str, float]]] = {}
    for round_ in range(number):
        for variant, settings in VARIANTS.items():
            if layer == "dynamo" and "xla" in variant:
                continue
            with tempfile.TemporaryDirectory() as directory:
                found.setdefault(variant, []).append(_run(layer, names, settings, directory))
        print(f"round {round_ + 1} of {number}", file=sys.stderr, flush=True)
    return found


def table(found: dict[str, list[dict[str, float]]]) -> Iterator[str]:
    """Markdown: a row for each variant, a column for each model, ratios to ``off``."""
    off = found["off"]
    titles = [
        f"{name} ({1000 * statistics.median(r[name] for r in off):.0f} ms)" for name in off[0]
    ]
    yield "| | " + " | ".join(titles) + " | all |"
    yield "| --- |" + " ---: |" * (len(titles) + 1)
    for variant, measured in found.items():
        if variant == "off":
            continue
        cells = [
            _ratio([m[name] / o[name] for m, o in zip(measured, off, strict=True)])
            for name in off[0]
        ]
        whole = [sum(m.values()) / sum(o.values()) for m, o in zip(measured, off, strict=True)]
        yield f"| {variant} | " + " | ".join([*cells, _ratio(whole)]) + " |"


def _ratio(values: list[float]) -> str:
    return f"{statistics.median(values):.3f} ({min(values):.2f} to {max(values):.2f})"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead")
    parser.add_argument("--layer", choices=BACKENDS, default="dynamo")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--paired", action="store_true")
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("models", nargs="*", metavar="MODEL", default=list(MODELS))
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--repeat", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--observed", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.repeat is not None:
        repeat(asked.models[0], asked.repeat, asked.observed)
        return 0
    if asked.instructions:
        for line in instructions(asked.models):
            print(line, flush=True)
        return 0
    if asked.once:
        print(json.dumps(measure(asked.layer, asked.models)))
        return 0
    if asked.paired:
        print("\n".join(paired(asked.layer, asked.rounds, asked.models)))
        return 0
    import torch

    found = rounds(asked.layer, asked.rounds, asked.models)
    if asked.json:
        asked.json.write_text(json.dumps(found), encoding="utf-8")
    print(
        f"Layer {asked.layer}, torch {torch.__version__}, Python {platform.python_version()}, "
        f"{os.cpu_count()} cores, median of {asked.rounds} rounds (least to most)\n"
    )
    print("\n".join(table(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
