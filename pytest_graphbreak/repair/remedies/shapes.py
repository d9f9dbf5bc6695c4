"""Sizes that vary from call to call: marked as dynamic, or padded to a few sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pytest_graphbreak.repair.patch import Preamble, SourcePatch
from pytest_graphbreak.repair.remedies.around import ARGUMENTS, AROUND
from pytest_graphbreak.repair.remedies.programs import program
from pytest_graphbreak.repair.trial import Trial

_MARK: Final = Preamble(program("mark"))

_PAD: Final = Preamble(program("pad"))


def mark(trial: Trial) -> Iterator[SourcePatch]:
    """Only what varies is an input of the graph; all other sizes stay fixed."""
    table = {
        one["name"]: {name: tuple(dim for dim, _ in dims) for name, dims in one["dims"].items()}
        for one in trial.varies
    }
    if not table:
        return
    words = ", ".join(
        f"{name} ({', '.join(map(str, dims))})"
        for these in table.values()
        for name, dims in these.items()
    )
    yield SourcePatch(
        f"mark_dynamic for the sizes that vary: {words}",
        (
            AROUND,
            ARGUMENTS,
            Preamble(f"_graphbreak_dynamic = {table!r}"),
            _MARK,
            Preamble("torch.compile = _graphbreak_around(_graphbreak_mark)"),
        ),
    )


def pad(trial: Trial) -> Iterator[SourcePatch]:
    """Sizes are padded to powers of two, the first for all that were seen."""
    table: dict[str, Any] = {}
    firsts: set[int] = set()
    for one in trial.varies:
        if one["follow"] is None:
            continue  # a result that cannot be cut back
        dims = {
            name: {dim: 1 << (most - 1).bit_length() for dim, most in these}
            for name, these in one["dims"].items()
        }
        firsts |= {first for these in dims.values() for first in these.values()}
        follow = [tuple(item) for item in one["follow"]]
        table[one["name"]] = {"dims": dims, "results": one["results"], "follow": follow}
    if not table:
        return
    words = ", ".join(str(first) for first in sorted(firsts))
    yield SourcePatch(
        f"sizes that vary are padded with zeros to {words} (then powers of two)",
        (
            AROUND,
            ARGUMENTS,
            Preamble(f"_graphbreak_buckets = {table!r}"),
            _PAD,
            Preamble("torch.compile = _graphbreak_around(_graphbreak_pad)"),
        ),
        note="inputs are padded with zeros and results cut back; each call computes a whole "
        "bucket, and on an xla device what is padded goes through the host",
    )
