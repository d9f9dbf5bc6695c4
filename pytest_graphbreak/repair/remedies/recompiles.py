"""Remedies for recompiles: a value that varies from call to call becomes an input of the graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from pytest_graphbreak import advice
from pytest_graphbreak.repair.patch import Edit, Preamble, SourcePatch, switch
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
    marked = list(mark(trial))
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


def _by_table(name: str, variable: str, table: dict[str, Any]) -> tuple[Edit, ...]:
    """Return the edits for a program that looks arguments up in a table by their names."""
    return AROUND, ARGUMENTS, Preamble(f"_graphbreak_{variable} = {table!r}"), around(name)
