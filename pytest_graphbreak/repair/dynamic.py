"""Compares static and dynamic sizes: runs a program each way, each time in a new process."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field

from pytest_graphbreak import advice as known
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench

AUTOMATIC: Final = "automatic"
STATIC: Final = "dynamic=False"
DYNAMIC: Final = "dynamic=True"
MARKED: Final = "mark_dynamic"
_WAYS: Final = {AUTOMATIC: None, STATIC: False, DYNAMIC: True, MARKED: None}
"""The value of ``dynamic`` for ``torch.compile`` in each way."""
FEW: Final = 4
"""The largest number of sizes that counts as few: a graph for each is soon compiled."""
_SLOWER: Final = 1.1
"""A call that takes this many times as long is slower; less is within the noise of timings."""


class Way(Struct, frozen=True):
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
    def limited(self) -> bool:
        """Whether torch gave up at its recompile limit, and the other calls ran uncompiled."""
        return any(known.name(item) == "limit" for item in self.record.eager)

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
        counts = ("error", "graphs", "limited", "device_graphs", "recompiles")
        return {
            "way": self.name,
            **{name: getattr(self, name) for name in counts},
            "first_seconds": self.first,
            "all_seconds": self.all,
            "call_seconds": self.call,
        }


class Variation(Struct, frozen=True):
    """What varies from call to call: dimensions by the name of the argument, and numbers.

    ``special`` is whether one of the sizes is 0 or 1.
    """

    dims: Mapping[str, list[int]] = {}
    numbers: Sequence[str] = ()
    special: bool = False
    variadic: str = "args"
    """The name of the parameter that takes all further arguments."""

    def as_code(self, name: str) -> str:
        """Return the name of an argument as code: the third of ``*rows`` is ``rows[2]``."""
        return re.sub(r"^\*(\d+)", rf"{self.variadic}[\1]", name)


def ways(
    bench: Bench, target: Target, step: Callable[[int, int, str], None]
) -> tuple[list[Way], Variation]:
    """Run a target in each way, and return the results and what varies.

    The way ``mark_dynamic`` is only used if a size varies. If the first way fails or compiles
    nothing, no other is tried. ``step`` is called before each. Raises ``ServerError``.
    """
    results: list[Way] = []
    varies = Variation()
    for name, dynamic in _WAYS.items():
        if name == MARKED and not varies.dims:
            break
        step(len(results), len(_WAYS), name)
        marks = varies.dims if name == MARKED else {}
        order = {"kind": "timing", "timing": {"dynamic": dynamic, "marks": dict(marks)}}
        answer, out = bench.run(target, order)
        way = _way(name, answer, out)
        results.append(way)
        varies = varies if name != AUTOMATIC else _variation(answer)
        if way is results[0] and (way.error is not None or not way.record.active):
            break
    return results, varies


def _way(name: str, answer: Mapping[str, Any], out: str) -> Way:
    times = answer.get("calls") or ()
    return Way(
        name,
        Record.from_dict(answer.get("record") or {}),
        answer.get("error"),
        answer.get("stack") or (),
        out,
        times[0] if times else None,
        sum(times) if times else None,
        answer.get("again"),
    )


def _variation(answer: Mapping[str, Any]) -> Variation:
    dims: dict[str, list[int]] = {}
    for varying in answer.get("varies") or ():
        for argument, sizes in varying["dims"].items():
            dims[argument] = sorted({*dims.get(argument, ()), *(dim for dim, _ in sizes)})
    numbers = [name for names in (answer.get("numbers") or {}).values() for name in names]
    return Variation(dims, numbers, bool(answer.get("special")), answer.get("variadic") or "args")


def advice(results: list[Way], varies: Variation) -> Iterator[str]:
    """Yield which way to take and why, and why not the others.

    A size that never varies is fixed. If there are few sizes, each may have its own graph if that
    makes calls faster. Many sizes share one graph: marking, which says what varies, is preferred to
    ``dynamic=True``, which makes every size dynamic.
    """
    ran = {way.name: way for way in results if way.error is None}
    yield f"take {_best(ran, varies)}"
    for way in ran.values():
        if way.limited:
            yield (
                f"{way.name} stops at the recompile limit: {way.graphs} graphs, and the other "
                "calls run uncompiled"
            )
    static, dynamic = ran.get(STATIC), ran.get(DYNAMIC)
    if varies.numbers and static is not None and static.recompiles:
        words = f"the numbers that vary are graphs of their own: {', '.join(varies.numbers)}"
        if dynamic is not None and dynamic.graphs < static.graphs:
            words += "; a tensor is an input, and dynamic=True makes integers inputs, too"
        yield words
    if varies.special:
        yield (
            "sizes of 0 and 1 are compiled apart: torch makes neither dynamic (mark_unbacked does)"
        )


def _best(ran: Mapping[str, Way], varies: Variation) -> str:
    static, dynamic = ran.get(STATIC), ran.get(DYNAMIC)
    if not varies.dims:
        if not varies.numbers or static is None or dynamic is None:
            return f"{STATIC}: no size varies, and one that does later shows as a recompile"
        if dynamic.graphs < static.graphs or static.limited:
            return f"{DYNAMIC}: {dynamic.graphs} in place of {_graphs(static)}"
        return f"{STATIC}: {DYNAMIC} makes no graph less, since no size varies, but numbers do"
    way = ran.get(MARKED) or dynamic
    if way is None or (static is not None and static.graphs <= way.graphs and not static.limited):
        return f"{STATIC}: dynamic sizes make no graph less; pad or bucket where sizes are many"
    if static is not None and (way.device_graphs or 0) >= (static.device_graphs or 1):
        return (
            f"{STATIC}, and pad to one size or a few: {way.device} compiles each size, "
            f"{static.device_graphs} graphs, and {way.device_graphs} with {way.name}"
        )
    marked = _calls(varies) if way.name == MARKED else way.name
    why = f"{way.graphs} in place of {_graphs(static)}{_not_all(dynamic, way)}"
    few = static is not None and not static.limited and static.graphs <= FEW
    if static is None or not few or not static.call or not way.call:
        return f"{marked}: {why}"
    ratio = way.call / static.call
    if ratio > _SLOWER:
        return (
            f"{STATIC}: {static.graphs} graphs are few, and a call with dynamic sizes takes "
            f"{ratio:.1f} times as long; to pad to one size makes one graph"
        )
    return f"{marked}: {why}, and calls are as fast"


def _not_all(dynamic: Way | None, way: Way) -> str:
    """Return why not ``dynamic=True``, where it makes as few graphs."""
    if dynamic is None or way is dynamic or dynamic.graphs > way.graphs:
        return ""
    return f" ({DYNAMIC}: {dynamic.graphs}, with every size and number as an input)"


def _calls(varies: Variation) -> str:
    """Return the calls that mark the sizes, as a line that can be typed where the inputs are."""
    return "; ".join(
        f"torch._dynamo.mark_dynamic({varies.as_code(name)}, {dims[0] if len(dims) == 1 else dims})"
        for name, dims in varies.dims.items()
    )


def _graphs(way: Way | None) -> str:
    return "one graph for each size" if way is None else f"{way.graphs} graphs"
