"""An exception that arrives at a line of ours is the user's, and leaves nothing behind.

A trace function raises at that line, or a signal is handled there and its handler raises. Each line
of ours that a program comes to has its turn: some by day, all at night.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from pytest_graphbreak import observe
from pytest_graphbreak.layers.faults import is_ours

SOME = 120
"""By day one line of so many."""


class Arrived(TimeoutError):
    """What a time limit raises."""


def dynamo() -> Callable[[], object]:
    """Compile with a break, again for another size, and run."""
    torch = pytest.importorskip("torch")
    importlib.import_module("torch._dynamo")

    def work() -> object:
        torch._dynamo.reset()

        def function(x: Any) -> Any:
            y = x * 2
            torch._dynamo.graph_break()
            return y.sum()

        compiled = torch.compile(function, backend="eager", dynamic=False)
        return [compiled(torch.ones(size)).item() for size in (2, 2, 3)]

    return work


SIZES = iter(range(3, 10**6))
"""Of torch_xla, which has each graph once in a process."""


def xla() -> Callable[[], object]:
    """Compile by openxla, read, run lazily and sync."""
    torch_xla = pytest.importorskip("torch_xla")
    import torch

    def work() -> object:
        torch._dynamo.reset()
        size = next(SIZES)
        x = torch.ones(size).to(torch_xla.device())
        compiled = torch.compile(lambda x: (x * 2).sum(), backend="openxla")
        read = compiled(x).item() == compiled(x).item() == 2 * size
        lazy = x + 1
        torch_xla.sync(wait=True)
        return read, lazy.sum().item() == 2 * size

    return work


def jax() -> Callable[[], object]:
    """Compile, and again for another size."""
    jax = pytest.importorskip("jax")

    def work() -> object:
        jax.clear_caches()
        compiled = jax.jit(lambda x: x * 2 + 1)
        return [compiled(jax.numpy.ones(size)).sum().item() for size in (2, 2, 3)]

    return work


PROGRAMS = {program.__name__: program for program in (dynamo, xla, jax)}


def programs() -> Iterator[Any]:
    for name in PROGRAMS:
        library = name if name == "jax" else "torch_xla" if name == "xla" else "torch"
        marks = [pytest.mark.once] if name == "dynamo" else [pytest.mark.jax]
        if importlib.util.find_spec(library) is not None:
            yield pytest.param(name, marks=marks if name != "xla" else [])


class Lines:
    """Traces the lines of ours, and calls ``do`` at the one that is asked for, if any."""

    def __init__(self, line: tuple[str, int] | None, do: Callable[[], None]) -> None:
        self.seen: dict[tuple[str, int], None] = {}
        self.is_done = False
        self._line = line
        self._do = do

    def enter(self, frame: FrameType, event: str, argument: object) -> Any:
        return self.trace if is_ours(frame) else None

    def trace(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            line = frame.f_code.co_filename, frame.f_lineno
            self.seen[line] = None
            if line == self._line and not self.is_done:
                self.is_done = True
                self._do()
        return self.trace


def raise_it() -> None:
    raise Arrived("a line of ours")


def raise_by_a_signal() -> None:
    signal.raise_signal(signal.SIGALRM)


def handler(*_: object) -> None:
    raise Arrived("a signal")


def run(work: Callable[[], object], lines: Lines) -> object:
    """What the work returns, or the exception that arrived; any other is raised."""
    traced = sys.gettrace()
    sys.settrace(lines.enter)
    try:
        return work()
    except Exception as fault:
        cause: BaseException | None = fault
        while cause is not None:
            if isinstance(cause, Arrived):
                return cause
            cause = cause.__cause__ or cause.__context__
        raise
    finally:
        sys.settrace(traced)


def hooks() -> dict[str, object]:
    """What stands at each name that is patched while a window is open."""
    from pytest_graphbreak.layers.dynamo import private as of_dynamo
    from pytest_graphbreak.layers.jax import private as of_jax
    from pytest_graphbreak.layers.private_names import locate
    from pytest_graphbreak.layers.xla.sensors import SENSORS

    state: dict[str, object] = {}
    if "torch" in sys.modules:
        from torch._C._dynamo.eval_frame import get_eval_frame_callback

        for name in of_dynamo.required_names(of_dynamo.torch_version()):
            state[name.path] = of_dynamo.value(name)
        state["hook"] = get_eval_frame_callback()
    if "torch_xla" in sys.modules:
        for sensor in SENSORS:
            if sensor.module in sys.modules:
                owner, last = locate(sys.modules[sensor.module], sensor.chain)
                state[f"{sensor.module}.{sensor.chain}"] = getattr(owner, last)
    if "jax" in sys.modules:
        state |= {name.path: of_jax.value(name) for name in of_jax.NAMES}
    return state


@pytest.mark.parametrize("name", [*programs()])
@pytest.mark.parametrize("share", [SOME, pytest.param(1, marks=pytest.mark.nightly)])
def test_what_arrives_at_a_line_of_ours(
    name: str, share: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = PROGRAMS[name]()
    ignored: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda fault: ignored.append(fault.exc_value))
    before_handler = signal.signal(signal.SIGALRM, handler)
    try:
        with observe():  # torch_xla reads where to explain with its first compilation only
            work()
        expected = work()
        before = hooks()
        all_lines = Lines(None, lambda: None)
        with observe() as seen:
            assert run(work, all_lines) == expected
        counts = seen.record.graphs, seen.record.recompiles, seen.record.executions
        assert len(all_lines.seen) > 100
        lost = []
        for number, line in enumerate([*all_lines.seen][::share]):
            lines = Lines(line, raise_by_a_signal if number % 2 else raise_it)
            ignored.clear()
            with observe():
                result = run(work, lines)
            if lines.is_done and not isinstance(result, Arrived) and not ignored:
                lost.append(line)
            # Its frames hold lazy tensors, which the next sync would compute.
            result = None
            ignored.clear()
            gc.collect()
            assert hooks() == before, line
            with observe() as seen:
                assert work() == expected, line
            assert seen.record.errors == (), line
            record = seen.record
            assert (record.graphs, record.recompiles, record.executions) == counts, line
        assert lost == []
    finally:
        signal.signal(signal.SIGALRM, before_handler)
