"""Remedies for recompiles: a value that varies from call to call becomes an input of the graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from pytest_graphbreak import advice
from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.patch import Edit, Preamble, Rewrite, SourcePatch, switch
from pytest_graphbreak.repair.remedies.programs import ARGUMENTS, AROUND, around
from pytest_graphbreak.repair.remedies.writing import noted
from pytest_graphbreak.repair.trial import Trial

DYNAMIC: Final = switch("assume_static_by_default", "False")
_OBLIVIOUS: Final = switch("backed_size_oblivious", home="torch.fx.experimental._config")


def propose(trial: Trial) -> Iterator[SourcePatch]:
    """Propose patches for the recompiles of a run, the one that changes least first."""
    for where in dict.fromkeys(one.guard for one in trial.record.recompile_list):
        yield from noted(where, trial)
    families = {advice.name(item) for item in trial.record.recompile_list} - {""}
    marked, padded = list(mark(trial)), list(pad(trial))
    yield from marked
    yield SourcePatch("dynamic=True: sizes and numbers are inputs of the graph", (DYNAMIC,))
    if families & {"attribute", "value"}:
        number = switch("allow_unspec_int_on_nn_module")
        yield SourcePatch("numbers on modules are inputs of the graph", (number,))
        yield SourcePatch("the same, from the first call on", (number, DYNAMIC))
    if families & {"zero-one", "size"}:
        load = Preamble("import torch.fx.experimental._config")
        yield SourcePatch(
            "dynamic=True, and sizes of 0 and 1 are like any other",
            (load, DYNAMIC, _OBLIVIOUS),
        )
    numbers = tensors(trial)
    if numbers and families - {"size", "zero-one", "shape-branch", "stride"}:
        yield SourcePatch("Python numbers that vary became tensors", numbers)
    if numbers:  # a guard names the first failure only: not the number, if sizes vary as well
        yield SourcePatch(
            "dynamic=True, and Python numbers that vary became tensors", (DYNAMIC, *numbers)
        )
    yield from (_and_numbers(one, numbers) for one in marked if numbers)
    yield from padded
    yield from (_and_numbers(one, numbers) for one in padded if numbers)


def for_fixed_sizes(lines: Iterable[Frame]) -> Iterator[SourcePatch]:
    """Propose to rewrite lines that need a size as a number, but only write it."""
    functions = {(one.file, one.function): one for one in lines}
    if functions:
        edits = tuple(Rewrite("later_messages", one) for one in functions.values())
        yield SourcePatch("a message with a size in it is only written if its check fails", edits)


def for_other_sizes(trial: Trial) -> Iterator[SourcePatch]:
    """Propose to make sizes inputs of the graph that vary only in the other inputs of a trial."""
    yield from mark(replace(trial, varies=trial.other_sizes))
    yield SourcePatch("dynamic=True: sizes and numbers are inputs of the graph", (DYNAMIC,))
    number = switch("allow_unspec_int_on_nn_module")
    yield SourcePatch("numbers on modules are inputs of the graph", (number,))


def tensors(trial: Trial) -> tuple[Edit, ...]:
    """Return the edits that turn Python numbers that vary into tensors; empty if none varies."""
    if not trial.numbers:
        return ()
    table = Preamble(f"_graphbreak_vary = {trial.numbers!r}")
    return AROUND, ARGUMENTS, table, around("numbers", "numbers_as_tensors")


def _and_numbers(patch: SourcePatch, numbers: tuple[Edit, ...]) -> SourcePatch:
    title = f"{patch.title}; Python numbers that vary became tensors"
    return replace(patch, title=title, edits=tuple(dict.fromkeys((*patch.edits, *numbers))))


def mark(trial: Trial) -> Iterator[SourcePatch]:
    """Propose to make only the sizes that vary inputs of the graph; all others stay fixed."""
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
        f"mark_dynamic for the sizes that vary: {words}", _by_table("mark", "dynamic", table)
    )


def pad(trial: Trial) -> Iterator[SourcePatch]:
    """Propose to pad sizes to powers of two; the first bucket holds all sizes that were seen."""
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
        _by_table("pad", "buckets", table),
        note="inputs are padded with zeros and results cut back; each call computes a whole "
        "bucket, and on an xla device what is padded goes through the host",
    )


def _by_table(name: str, variable: str, table: dict[str, Any]) -> tuple[Edit, ...]:
    """Return the edits for a program that looks arguments up in a table by their names."""
    return AROUND, ARGUMENTS, Preamble(f"_graphbreak_{variable} = {table!r}"), around(name)
