"""Compares static and dynamic sizes: runs a program each way, each time in a new process."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pytest_graphbreak.model.record import Record
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench

MARKED: Final = "mark_dynamic"
_WAYS: Final = {"automatic": None, "dynamic=False": False, "dynamic=True": True, MARKED: None}
"""The value of ``dynamic`` for ``torch.compile`` in each way."""
FEW: Final = 4
"""The largest number of sizes that counts as few: a graph for each is soon compiled."""
_SLOWER: Final = 1.1
"""A call that takes this many times as long is slower; less is within the noise of timings."""


@dataclass(frozen=True, slots=True)
class Way:
    """The result of a program with one way to treat sizes. Times are in seconds.

    ``first`` is the time of the first call of compiled code, which compiles, ``all`` that of all
    calls of the program, and ``call`` that of one call once everything is compiled, on average over
    the inputs.
    """

    name: str
    record: Record = field(default_factory=Record)
    error: str | None = None
    stack: Sequence[dict[str, Any]] = ()
    out: str = ""
    """What the program printed."""
    first: float | None = None
    all: float | None = None
    call: float | None = None

    @property
    def graphs(self) -> int:
        return self.record.graphs.get("dynamo", 0)

    @property
    def device(self) -> str:
        """The layer of the device below Dynamo that made graphs, or "" if there is none."""
        layer = self.record.headline
        return layer if layer != "dynamo" and self.record.graphs.get(layer) else ""

    @property
    def device_graphs(self) -> int | None:
        """The graphs of that device: it may compile each size, whatever Dynamo does."""
        return self.record.graphs[self.device] if self.device else None

    @property
    def recompiles(self) -> int:
        return self.record.recompiles.get("dynamo", 0)

    def to_dict(self) -> dict[str, Any]:
        """Return the counts and times as plain data."""
        return {
            "way": self.name,
            "error": self.error,
            "graphs": self.graphs,
            "device_graphs": self.device_graphs,
            "recompiles": self.recompiles,
            "first_seconds": self.first,
            "all_seconds": self.all,
            "call_seconds": self.call,
        }


Marks = Mapping[str, list[int]]
"""The dimensions that vary, by the name of the argument."""


def ways(
    bench: Bench, target: Target, step: Callable[[int, int, str], None]
) -> tuple[list[Way], Marks]:
    """Run a target in each way, and return the results and the dimensions that vary.

    The way ``mark_dynamic`` is only used if a size varies. If the first way fails or compiles
    nothing, no other is tried. ``step`` is called before each. Raises ``ServerError``.
    """
    found: list[Way] = []
    marks: Marks = {}
    for name, dynamic in _WAYS.items():
        if name == MARKED and not marks:
            break
        step(len(found), len(_WAYS), name)
        way, varying = _way(bench, target, name, dynamic, marks if name == MARKED else {})
        found.append(way)
        marks = marks or varying
        if way is found[0] and (way.error is not None or not way.record.active):
            break
    return found, marks


def _way(
    bench: Bench, target: Target, name: str, dynamic: bool | None, marks: Marks
) -> tuple[Way, Marks]:
    answer, out = bench.run(target, {"timing": {"dynamic": dynamic, "marks": marks}})
    times = answer.get("calls") or ()
    found = Way(
        name,
        Record.from_dict(answer.get("record") or {}),
        answer.get("error"),
        answer.get("stack") or (),
        out,
        times[0] if times else None,
        sum(times) if times else None,
        answer.get("again"),
    )
    varying: dict[str, list[int]] = {}
    for callable_ in answer.get("varies") or ():
        for argument, dims in callable_["dims"].items():
            varying.setdefault(argument, []).extend(dim for dim, _ in dims)
    return found, {name: sorted(set(dims)) for name, dims in varying.items()}


def advice(found: list[Way], marks: Marks) -> str:
    """Return which way to take, and why.

    A size that never varies is fixed. If there are few sizes, each may have its own graph if that
    makes calls faster. Many sizes share one graph: marking, which says what varies, is preferred to
    ``dynamic=True``, which makes every size dynamic.
    """
    ran = {way.name: way for way in found if way.error is None}
    static = ran.get("dynamic=False")
    if not marks:
        return "dynamic=False: no size varies, and one that does later shows as a recompile"
    one = ran.get(MARKED) or ran.get("dynamic=True")
    if one is None or (static is not None and static.graphs <= one.graphs):
        return "dynamic=False: dynamic sizes make no graph less; pad or bucket where sizes are many"
    if static is not None and (one.device_graphs or 0) >= (static.device_graphs or 1):
        return (
            f"dynamic=False, and pad to one size or a few: {one.device} compiles each size, "
            f"{static.device_graphs} graphs, and {one.device_graphs} with {one.name}"
        )
    marked = _calls(marks) if one.name == MARKED else one.name
    if static is None or static.graphs > FEW or not static.call or not one.call:
        return f"{marked}: {one.graphs} in place of {_graphs(static)}"
    ratio = one.call / static.call
    if ratio > _SLOWER:
        return (
            f"dynamic=False: {static.graphs} graphs are few, and a call with dynamic sizes takes "
            f"{ratio:.1f} times as long; to pad to one size makes one graph"
        )
    return f"{marked}: {one.graphs} in place of {_graphs(static)}, and calls are as fast"


def _calls(marks: Marks) -> str:
    """Return the calls that mark the sizes, as a line that can be typed where the inputs are."""
    return "; ".join(
        f"torch._dynamo.mark_dynamic({typed(name)}, {dims[0] if len(dims) == 1 else dims})"
        for name, dims in marks.items()
    )


def typed(name: str) -> str:
    """Return the name of an argument as code: the third of ``*args`` is ``args[2]``."""
    return re.sub(r"^\*(\d+)", r"args[\1]", name)


def _graphs(way: Way | None) -> str:
    return "one graph for each size" if way is None else f"{way.graphs} graphs"
