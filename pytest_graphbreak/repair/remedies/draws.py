"""Remedies for random numbers of NumPy and of Python, which torch does not draw itself."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from pytest_graphbreak.model.record import Break
from pytest_graphbreak.repair.patch import Edit, Rewrite, SourcePatch
from pytest_graphbreak.repair.remedies.breaks import SCALARS
from pytest_graphbreak.repair.remedies.programs import DRAWS
from pytest_graphbreak.repair.trial import Trial


def propose(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose to draw a number in a node of the graph, and an op of what it decides.

    All numbers of the function are drawn so: each would be a break of its own after this one.
    """
    from pytest_graphbreak.repair.rewrite import apply
    from pytest_graphbreak.repair.rewrite.drawn import together
    from pytest_graphbreak.repair.rewrite.line import shown

    source = trial.source(item.where)
    changed = apply(source, "drawn", item.where) if source else None
    code = shown(source, changed, item.where.code) if changed else ""
    if not code:
        return
    title = "random numbers are drawn by nodes of the graph, in the order of the program"
    functions = together(source, item.where.function)
    drawn = (Rewrite("drawn", structs.replace(item.where, function=one)) for one in functions)
    edits: tuple[Edit, ...] = (DRAWS, SCALARS, *drawn)
    for kind in ("where", "cond") if "if " in code else ():
        there = Rewrite(kind, structs.replace(item.where, code=code))
        yield SourcePatch(f"{title}, and the branch became torch.{kind}", (*edits, there))
    yield SourcePatch(title, edits)
