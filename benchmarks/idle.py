"""What the plugin costs where nothing compiles, and where each test compiles a tiny model.

    python -m benchmarks.idle [--tests 5000] [--rounds 7] [--only PART]
    python -m benchmarks.idle --instructions [--tests 5000]

The same suite of empty tests in turns: the plugin blocked (``-p no:graphbreak``,
twice, to show the noise), installed and not asked for, and on; collection alone;
no test at all, which is start-up; and, with torch imported, on beside off; with jax
imported and one program run, too, which each test then clears. ``--only models``: a hundred tests
that each compile two layers.
CPU time of the process and its children, as a ratio to off in the same round.

``--instructions`` counts what valgrind sees executed instead, once: of start-up,
and of so many tests beside a hundred.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from benchmarks.executed import instructions

OFF: Final = ("-p", "no:graphbreak")
ON: Final = ("--graph-budget", "-o", "graph_budget_new=report")
WITH_TORCH: Final = "import torch, torch._dynamo\n"
WITH_JAX: Final = "import jax, numpy\njax.jit(lambda x: x + 1)(numpy.ones(3))\n"
WITH_MODELS: Final = """
import torch
from torch import nn


def compiled():
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    torch.compile(model, backend="eager")(torch.ones(2, 8))


"""

Rounds = dict[str, list[float]]


def _pytest(directory: str, *args: str) -> float:
    """CPU seconds of one run of pytest."""
    start = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *args],
        cwd=directory,
        capture_output=True,
        text=True,
    )
    if done.returncode not in (0, 5):
        raise SystemExit(done.stdout + done.stderr)
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (end.ru_utime + end.ru_stime) - (start.ru_utime + start.ru_stime)


def _suite(directory: str, name: str, tests: int, head: str = "", body: str = "pass") -> str:
    """Files of a hundred tests each."""
    folder = Path(directory, name)
    folder.mkdir()
    for file in range(0, tests, 100):
        bodies = "".join(f"def test_{n}(): {body}\n" for n in range(min(100, tests - file)))
        (folder / f"test_{file:06}.py").write_text(head + bodies)
    (folder / "pytest.ini").write_text("[pytest]\n")
    return str(folder)


def measure(tests: int, rounds: int, only: str) -> dict[str, Rounds]:
    """CPU seconds of each part and variant, a list of rounds each."""
    found: dict[str, Rounds] = {}
    with tempfile.TemporaryDirectory() as directory:
        plain = _suite(directory, "plain", tests)
        torch = _suite(directory, "torch", tests, WITH_TORCH)
        jax = _suite(directory, "jax", tests, WITH_JAX)
        models = _suite(directory, "models", 100, WITH_MODELS, "compiled()")
        empty = _suite(directory, "empty", 0)
        parts: dict[str, tuple[str, dict[str, tuple[str, ...]]]] = {
            f"{tests} empty tests, without torch": (
                plain,
                {"off": OFF, "off again": OFF, "installed": (), "on": ON},
            ),
            f"{tests} empty tests, with torch": (
                torch,
                {"off": OFF, "installed": (), "on": ON},
            ),
            f"{tests} empty tests, with jax": (
                jax,
                {"off": OFF, "off again": OFF, "installed": (), "on": ON},
            ),
            "100 two-layer models, with torch": (
                models,
                {"off": OFF, "off again": OFF, "installed": (), "on": ON},
            ),
            "collection": (
                plain,
                {
                    "off": (*OFF, "--collect-only"),
                    "installed": ("--collect-only",),
                    "on": (*ON, "--collect-only"),
                },
            ),
            "start-up": (empty, {"off": OFF, "off again": OFF, "installed": (), "on": ON}),
        }
        for round_ in range(rounds + 1):
            for part, (folder, variants) in parts.items():
                if only not in part or not _is_there(part):
                    continue
                for variant, args in variants.items():
                    spent = _pytest(folder, *args)
                    if round_:  # the first one warms the disk
                        found.setdefault(part, {}).setdefault(variant, []).append(spent)
            print(f"round {round_} of {rounds}", file=sys.stderr, flush=True)
    return found


def _is_there(part: str) -> bool:
    """Whether the library that a part imports is installed."""
    library = part.rpartition(", with ")[2]
    return library not in ("torch", "jax") or find_spec(library) is not None


def count(tests: int) -> Iterator[str]:
    """Markdown: instructions of start-up and of a test, and what a whole suite has more."""
    yield f"| | start-up | an empty test | {tests:,} empty tests, ratio to off |"
    yield "| --- | ---: | ---: | ---: |"
    whole_off = 0.0
    with tempfile.TemporaryDirectory() as directory:
        few, many = (_suite(directory, str(size), size) for size in (100, 600))
        for name, args in (("off", OFF), ("off again", OFF), ("installed", ()), ("on", ON)):
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *args]
            instructions([*command, "--collect-only"], Path(many))  # pyc files are written
            small, large = (instructions(command, Path(folder)) for folder in (few, many))
            each = (large - small) / 500
            start = small - 100 * each
            whole = start + tests * each
            whole_off = whole_off or whole
            yield (
                f"| {name} | {start / 1e6:,.0f} million | {each / 1e3:,.0f} thousand "
                f"| {whole / whole_off:.4f} |"
            )


def import_time(rounds: int) -> list[float]:
    """Milliseconds to import the plugin's module, over what pytest has imported already."""
    code = (
        "import pytest, time; s = time.process_time(); import pytest_graphbreak.plugin; "
        "print(1000 * (time.process_time() - s))"
    )
    return [
        float(subprocess.check_output([sys.executable, "-c", code], text=True))
        for _ in range(rounds)
    ]


def table(found: dict[str, Rounds], tests: int) -> Iterator[str]:
    yield "| | variant | CPU time, ratio to off | a test |"
    yield "| --- | --- | ---: | ---: |"
    for part, variants in found.items():
        off = variants["off"]
        for variant, spent in variants.items():
            if variant == "off":
                yield f"| {part} | off | {statistics.median(off):.2f} s | |"
                continue
            ratios = [a / b for a, b in zip(spent, off, strict=True)]
            each = [(a - b) / tests * 1000 for a, b in zip(spent, off, strict=True)]
            cost = f"{statistics.median(each):+.3f} ms" if str(tests) in part else ""
            yield (
                f"| | {variant} | {statistics.median(ratios):.3f} "
                f"({min(ratios):.2f} to {max(ratios):.2f}) | {cost} |"
            )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.idle")
    parser.add_argument("--tests", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="a word in the name of the part to run")
    parser.add_argument("--instructions", action="store_true")
    asked = parser.parse_args()
    if asked.instructions:
        for line in count(asked.tests):
            print(line, flush=True)
        return 0
    found = measure(asked.tests, asked.rounds, asked.only)
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores, "
        f"median of {asked.rounds} rounds (least to most)\n"
    )
    print("\n".join(table(found, asked.tests)))
    imports = import_time(asked.rounds)
    print(
        f"\nimport of the plugin: {statistics.median(imports):.1f} ms "
        f"({min(imports):.1f} to {max(imports):.1f})"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
