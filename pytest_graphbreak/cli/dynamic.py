"""``graphbreak dynamic``: compares static and dynamic sizes, each way in a process of its own.

``ways`` runs the program as it is, then with ``dynamic=False`` and ``dynamic=True`` for all that it
compiles, then with ``mark_dynamic`` for the sizes that varied in the first run. ``advice`` says
which of these ways to take.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from pytest_graphbreak.advice import name as advice_name
from pytest_graphbreak.cli.messages import Progress, add_output, say, write_result
from pytest_graphbreak.cli.program import add_program, does_not_run, named_target, on_bench
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench, Trial
from pytest_graphbreak.text.errors import UserError
from pytest_graphbreak.text.files import RESULT
from pytest_graphbreak.text.numbers import plural
from pytest_graphbreak.text.terminal import columns
from pytest_graphbreak.text.wrapping import table

DONE = 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_program(parser)
    add_output(parser, "--json", RESULT, "write the counts as JSON")


def run(args: argparse.Namespace) -> int:
    """Compare the ways. Returns 0 if all was measured, 2 if the program does not run or compile."""
    target = named_target(args)
    with on_bench(args.timeout) as trials, Progress() as progress:
        results, dims = ways(trials, target, progress.step)
    first = results[0].trial
    if first.error is not None:
        raise does_not_run(target, first.error, first.stack, first.out)
    if not first.record.active:
        raise UserError(f"{target.name}: it compiles nothing")
    for line in _lines(results, dims, columns(sys.stdout)):
        say(line)
    data = {
        "target": target.name,
        "varies": dims,
        "ways": [way.to_dict() for way in results],
        "advice": list(advice(results, dims)),
    }
    write_result(args, data)
    return DONE


def _lines(results: list[Way], dims: Dims, width: int) -> list[str]:
    device = next((way.device for way in results if way.device), "")
    rows = [["", "graphs", "recompiles"]]
    for way in results:
        graphs = f"{way.graphs}{', then eager' if way.limited else ''}"
        rows.append([way.name, graphs, str(way.recompiles)])
    if device:  # a column more
        cells = (f"{device} graphs", *(str(way.device_graphs or 0) for way in results))
        for row, cell in zip(rows, cells, strict=True):
            row.insert(2, cell)
    vary = [f"{name} in dimension {dim}" for name, numbers in dims.items() for dim in numbers]
    return [
        *table(rows, width),
        *(f"{way.name} fails: {way.error}" for way in results if way.error),
        f"sizes that vary: {', '.join(vary) or 'none'}",
        *advice(results, dims),
    ]


AUTOMATIC: Final = "automatic"
STATIC: Final = "dynamic=False"
DYNAMIC: Final = "dynamic=True"
MARKED: Final = "mark_dynamic"
_WAYS: Final = {AUTOMATIC: None, STATIC: False, DYNAMIC: True, MARKED: None}
"""The value of ``dynamic`` for ``torch.compile`` in each way."""
Dims = Mapping[str, list[int]]
"""The dimensions that vary from call to call, by the name of the argument."""


class Way(Struct, frozen=True):
    """The run of a program with one way to treat sizes."""

    name: str
    trial: Trial

    @property
    def error(self) -> str | None:
        return self.trial.error

    @property
    def graphs(self) -> int:
        return self.trial.record.graphs.get("dynamo", 0)

    @property
    def limited(self) -> bool:
        """Whether torch gave up at its recompile limit, and the other calls ran uncompiled."""
        return any(advice_name(item) == "limit" for item in self.trial.record.eager)

    @property
    def device(self) -> str:
        """The layer of the device below Dynamo that made graphs, or "" if there is none."""
        layer = self.trial.record.headline
        return layer if layer != "dynamo" and self.trial.record.graphs.get(layer) else ""

    @property
    def device_graphs(self) -> int | None:
        """The graphs of that device: it may compile each size, whatever Dynamo does."""
        return self.trial.record.graphs[self.device] if self.device else None

    @property
    def recompiles(self) -> int:
        return self.trial.record.recompiles.get("dynamo", 0)

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as plain data."""
        counts = ("error", "graphs", "limited", "device_graphs", "recompiles")
        return {"way": self.name, **{name: getattr(self, name) for name in counts}}


def ways(
    bench: Bench, target: Target, step: Callable[[int, int, str], None]
) -> tuple[list[Way], Dims]:
    """Run a target in each way, and return the results, and the dimensions that vary.

    The way ``mark_dynamic`` is only used if a size varies. If the first way fails or compiles
    nothing, no other is tried. ``step`` is called before each. Raises ``ServerError``.
    """
    results: list[Way] = []
    dims: dict[str, list[int]] = {}
    for name, dynamic in _WAYS.items():
        if name == MARKED and not dims:
            break
        step(len(results), len(_WAYS), name)
        marks = dims if name == MARKED else {}
        trial = bench.measure(target, outputs=False, sizes_as=(dynamic, marks))
        results.append(Way(name, trial))
        if name == AUTOMATIC:
            if trial.error is not None or not trial.record.active:
                break
            for called in trial.varies:
                for argument, vary in called.dims.items():
                    dims[argument] = sorted({*dims.get(argument, ()), *vary})
    return results, dims


def advice(results: list[Way], dims: Dims) -> Iterator[str]:
    """Yield which way to take and why, and which stop at the recompile limit.

    If dynamic sizes make no graph less, sizes are fixed. Else marking, which says what varies, is
    preferred to ``dynamic=True``, which makes every size and number dynamic.
    """
    ran = {way.name: way for way in results if way.error is None}
    yield f"take {_best(ran, dims)}"
    for way in ran.values():
        if way.limited:
            yield (
                f"{way.name} stops at the recompile limit: {way.graphs} graphs, and the other "
                "calls run uncompiled"
            )


def _best(ran: Mapping[str, Way], dims: Dims) -> str:
    static, way = ran.get(STATIC), ran.get(MARKED) or ran.get(DYNAMIC)
    if way is None and static is None:
        return f"{AUTOMATIC}: the other ways fail"
    if way is None:
        return f"{STATIC}: dynamic sizes fail; pad or bucket where sizes are many"
    if static is not None and static.graphs <= way.graphs and not static.limited:
        why = "dynamic sizes make no graph less; pad or bucket where sizes are many"
        return f"{STATIC}: {why if dims else 'no size varies'}"
    marked = _calls(dims) if way.name == MARKED else way.name
    if static is None:
        return f"{marked}: {plural(way.graphs, 'graph')}, and {STATIC} fails"
    # Without a device below Dynamo there is nothing to compare: 0 is less than 1.
    if (way.device_graphs or 0) >= (static.device_graphs or 1):
        return (
            f"{STATIC}, and pad to one size or a few: {way.device} compiles each size, "
            f"{static.device_graphs} graphs, and {way.device_graphs} with {way.name}"
        )
    return f"{marked}: {way.graphs} in place of {plural(static.graphs, 'graph')}"


def _calls(dims: Dims) -> str:
    """Return the calls that mark the sizes, as a line that can be typed where the inputs are."""
    return "; ".join(
        f"torch._dynamo.mark_dynamic({name}, {vary[0] if len(vary) == 1 else vary})"
        for name, vary in dims.items()
    )
