"""What observing JAX costs, beside JAX's own ways to learn of compilations.

    python -m benchmarks.jax_overhead [--rounds 9] [PROGRAM...]
    python -m benchmarks.jax_overhead --hook [--rounds 9] [PROGRAM...]
    python -m benchmarks.jax_overhead --instructions [PROGRAM...]

One process compiles each program cold (``jax.clear_caches``) in turns: with nothing, twice, which
shows the noise; with the plugin; with ``jax_log_compiles``; with ``jax_explain_cache_misses``. What
JAX logs goes to a handler that throws it away. CPU time with all threads, as a ratio to ``off`` of
the same turn: the median, with the least and the most.

``--hook`` times what the plugin itself does for each executable, in CPU time of its thread: the
hook around the compilation without the compilation, and once more what reads it all when a window
closes. That is a part of the figures above which other work on the machine changes less.

``--instructions`` counts those of a compilation with valgrind, which other work on the machine does
not change: of a process that compiles a program some times more than another, divided by how many.
"""

from __future__ import annotations

import argparse
import logging
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from benchmarks.executed import instructions as executed

VARIANTS: Final = (
    "off",
    "off again",
    "plugin",
    "jax_log_compiles",
    "jax_explain_cache_misses",
)


def _step() -> Callable[[], Any]:
    """A step of training: one large program."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    weights = [np.ones((16, 16), np.float32) for _ in range(8)]
    x = np.ones((4, 16), np.float32)

    def loss(weights: Any, x: Any) -> Any:
        for weight in weights:
            x = jnp.tanh(x @ weight)
        return (x**2).mean()

    def step(weights: Any, x: Any) -> Any:
        grads = jax.grad(loss)(weights, x)
        return [weight - 0.1 * grad for weight, grad in zip(weights, grads, strict=True)]

    return lambda: jax.jit(step)(weights, x)


def _shapes() -> Callable[[], Any]:
    """One function for six shapes: five programs are explained."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    def call(x: Any, y: Any) -> Any:
        return jnp.tanh(x) @ y

    def run() -> None:
        compiled = jax.jit(call)
        for size in range(1, 7):
            compiled(np.ones((size, 8), np.float32), np.ones((8, 4), np.float32))

    return run


def _eager() -> Callable[[], Any]:
    """Small programs of jnp calls outside of jit."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    def run() -> Any:
        x = jnp.asarray(np.ones((4, 4), np.float32))
        return jax.nn.softmax(jnp.sin(x) + 2 * jnp.cos(x)).sum() / x.max()

    return run


PROGRAMS: Final[dict[str, Callable[[], Callable[[], Any]]]] = {
    "step": _step,
    "shapes": _shapes,
    "eager": _eager,
}


@contextmanager
def _as(variant: str) -> Iterator[None]:
    import jax

    from pytest_graphbreak import observe

    if variant == "plugin":
        with observe():
            yield
    elif variant.startswith("jax_"):
        jax.config.update(variant, True)
        try:
            yield
        finally:
            jax.config.update(variant, False)
    else:
        yield


def _silent() -> None:
    """What JAX logs is made, and goes nowhere."""
    logger = logging.getLogger("jax")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False


def _once(run: Callable[[], Any], variant: str) -> float:
    """CPU seconds of a program that is compiled cold."""
    import jax

    jax.clear_caches()
    start = time.process_time()
    with _as(variant):
        jax.block_until_ready(run())
        return time.process_time() - start


def times(rounds: int, names: list[str]) -> Iterator[str]:
    """Markdown: a row for each program, as soon as it is measured."""
    yield "| | compile, off | " + " | ".join(VARIANTS[1:]) + " |"
    yield "| --- |" + " ---: |" * len(VARIANTS)
    for name in names:
        run = PROGRAMS[name]()
        seconds: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
        for turn in range(rounds + 1):
            order = VARIANTS if turn % 2 else VARIANTS[::-1]
            for variant in order:
                spent = _once(run, variant)
                if turn:
                    seconds[variant].append(spent)
        off = seconds["off"]
        cells = [
            _ratio([a / b for a, b in zip(seconds[variant], off, strict=True)])
            for variant in VARIANTS[1:]
        ]
        yield f"| {name} | {1000 * statistics.median(off):.0f} ms | {' | '.join(cells)} |"


def _ratio(values: list[float]) -> str:
    return f"{statistics.median(values):.3f} ({min(values):.2f} to {max(values):.2f})"


def hook(rounds: int, names: list[str]) -> Iterator[str]:
    """Markdown: what observing itself takes, for each executable."""
    import jax

    from pytest_graphbreak import observe
    from pytest_graphbreak.layers.jax.sensors import SENSORS

    spent: list[float] = []
    describe = SENSORS._program

    def timed(*args: Any) -> Any:
        start = time.thread_time()
        try:
            return describe(*args)
        finally:
            spent.append(time.thread_time() - start)

    yield "| | executables | in the hook, each | when it is read, each | compiling, each |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for name in names:
        run = PROGRAMS[name]()
        hooks, reads, compiles = [], [], []
        for turn in range(rounds + 1):
            jax.clear_caches()
            spent.clear()
            SENSORS._program = timed  # type: ignore[method-assign]
            try:
                with observe() as seen:
                    start = time.process_time()
                    jax.block_until_ready(run())
                    compiling = time.process_time() - start
                    start = time.thread_time()
                reading = time.thread_time() - start
            finally:
                SENSORS._program = describe  # type: ignore[method-assign]
            made = len(seen.record.graph_list)
            if turn:
                hooks.append(sum(spent) / made)
                reads.append(reading / made)
                compiles.append(compiling / made)
        cells = [f"{1000 * statistics.median(each):.2f} ms" for each in (hooks, reads, compiles)]
        yield f"| {name} | {made} | {' | '.join(cells)} |"


def repeat(name: str, variant: str, number: int) -> None:
    """Compile a program cold so many times, after one that warms all up."""
    run = PROGRAMS[name]()
    _once(run, "plugin")
    for _ in range(number):
        _once(run, variant)


def instructions(names: list[str]) -> Iterator[str]:
    """Markdown: a row for each variant of each program, as soon as it is counted."""
    yield "| | | instructions of a compilation | ratio to off |"
    yield "| --- | --- | ---: | ---: |"
    for name in names:
        off = 0.0
        for variant in VARIANTS:
            few, many = (_executed(name, variant, number) for number in (2, 6))
            count = (many - few) / 4
            off = off or count
            yield f"| {name} | {variant} | {count / 1e6:,.0f} million | {count / off:.4f} |"


def _executed(name: str, variant: str, number: int) -> int:
    command = [sys.executable, "-m", "benchmarks.jax_overhead", name, "--as", variant]
    return executed([*command, "--repeat", str(number)])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jax_overhead")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--hook", action="store_true")
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", default=list(PROGRAMS))
    parser.add_argument("--repeat", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--as", dest="variant", default="off", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    _silent()
    if asked.repeat is not None:
        repeat(asked.programs[0], asked.variant, asked.repeat)
        return 0
    import jax

    print(
        f"jax {jax.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores\n",
        flush=True,
    )
    if asked.hook:
        rows = hook(asked.rounds, asked.programs)
    elif asked.instructions:
        rows = instructions(asked.programs)
    else:
        rows = times(asked.rounds, asked.programs)
    for line in rows:
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
