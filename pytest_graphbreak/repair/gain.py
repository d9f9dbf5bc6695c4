"""Measures what one run gained over another, and what a search did for each break."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec import structs

from pytest_graphbreak import advice
from pytest_graphbreak.model.record import Break, Frame, Record
from pytest_graphbreak.repair.patch import Rewrite, SourcePatch
from pytest_graphbreak.repair.trial import Trial
from pytest_graphbreak.text.output import plural

_BODIES: Final = ("<locals>._body", "<locals>._goes_on")
"""How the names of functions end that ``rewrite.loops`` writes for ``torch.while_loop``."""


def graphs(record: Record) -> int:
    """Return the number of graphs of the deepest layer that made any."""
    return record.graphs.get(record.headline, 0)


def places(record: Record) -> list[Break]:
    """Return what can be fixed one by one: the breaks, and the cuts of xla graphs by place."""
    found = list(record.breaks)
    cuts: dict[tuple[str, str, str], Break] = {}
    for graph in record.graph_list:
        if (graph.layer, graph.cause) != ("xla", "split"):
            continue
        key = (graph.where.file, graph.where.function, graph.where.code)
        old = cuts.get(key)
        if old is not None:
            cuts[key] = structs.replace(old, count=old.count + 1)
        else:
            cuts[key] = Break("xla", f"split: {graph.reason}", graph.where)
    return [*found, *cuts.values()]


def no_gain(before: Record, after: Record) -> str:
    """Return why a run that is as it was before is no gain."""
    if not graphs(after):
        return "nothing is compiled with it either"
    if graphs(after) > graphs(before):
        return f"the graphs got more ({graphs(before)} -> {graphs(after)})"
    return "the graphs did not get fewer"


def by_hand(record: Record) -> list[Break]:
    """Return the places that make graphs without a break, each with one of its reasons.

    Values of device tensors are read there, or were pending; or the same place compiles again.
    """
    found: dict[tuple[str, ...], Break] = {}
    for graph in record.graph_list:
        if graph.layer != "xla" or graph.cause not in ("access", "pending", "recompile"):
            continue
        key = (graph.cause, graph.where.file, graph.where.function, graph.where.code)
        item = found.get(key) or Break(
            "xla", f"{graph.cause}: {graph.reason}", graph.where, count=0
        )
        found[key] = structs.replace(item, count=item.count + 1)
    return list(found.values())


def better(before: Record, after: Record, *, may_leave: bool = False) -> bool:
    """Return whether a record is a gain: fewer graphs and no code lost, or code won back.

    Code that had left the compiler is won back if more is compiled than before, and no other code
    was compiled again until the limit, in however many graphs of Dynamo; a device below it must not
    make more: a loop as an operator may be cut into one for each round. If nothing is compiled,
    that is no gain, and a patch that takes code out of the compiler may take a third at most.
    """
    if not graphs(after) or eager(after) > eager(before) or _breaks_body(after):
        return False
    if may_leave and any(3 * ops(after) < 2 * ops(before) for ops in (_ops, _ops_of_models)):
        return False
    below = before.headline != "dynamo"
    won = bool(_left(before) - _left(after)) and _limited(after) <= _limited(before)
    if won and _ops(after) > _ops(before):
        return not below or graphs(after) <= graphs(before)
    return not _dearer(before, after) and graphs(after) < graphs(before)


def cleaner(before: Record, after: Record, *, may_leave: bool = False) -> bool:
    """Return whether a record has fewer breaks in as many graphs, with no code lost.

    A break before the first operation makes no graph of its own, but counts for ``fullgraph``.
    Without a break or code that left the compiler nothing is lost, unless a patch ``may_leave`` it:
    there are fewer operators where one of them is a loop. Nor is it lost if Dynamo makes fewer
    graphs and the device below it as many: the rest of a function is compiled once, not by resumed
    parts of it that hold the same operators.
    """
    whole = bool(graphs(after)) and not (places(after) or eager(after))
    fewer = any(after.graphs.get(one, 0) < before.graphs.get(one, 0) for one in _lower(before))
    kept = _ops(after) >= _ops(before) or (not may_leave and (whole or fewer))
    as_many = graphs(after) == graphs(before) and kept and not _dearer(before, after)
    return as_many and eager(after) <= eager(before) and len(places(after)) < len(places(before))


def no_worse(before: Record, after: Record) -> bool:
    """Return whether a record has no more graphs, and no more code that left the compiler.

    Where nothing was compiled no graph is too many: what a function calls is compiled by itself
    until the function can be.
    """
    return eager(after) <= eager(before) and graphs(after) <= (graphs(before) or graphs(after))


def _breaks_body(record: Record) -> bool:
    """Return whether a function breaks that a patch wrote for an operator: a loop, a branch.

    Torch takes it completely or not at all: it is called again for each round, and compiled then.
    """
    return any(item.where.function.endswith(_BODIES) for item in record.breaks)


def _lower(record: Record) -> tuple[str, ...]:
    """Return all layers but the deepest, which must not pay for its gain."""
    return tuple(layer for layer in record.layers if layer != record.headline)


def _dearer(before: Record, after: Record) -> bool:
    """Return whether a layer above the deepest makes more graphs."""
    return any(after.graphs.get(one, 0) > before.graphs.get(one, 0) for one in _lower(before))


def recompiled(record: Record) -> bool:
    """Return whether code was compiled again, by Dynamo or below it.

    What is compiled again without Dynamo is not meant: no remedy reaches it.
    """
    if not record.graphs.get("dynamo"):
        return False
    return bool(record.recompile_list) or any(
        graph.cause == "recompile" for graph in record.graph_list
    )


def eager(record: Record) -> int:
    return len(record.eager)


def _left(record: Record) -> set[tuple[str, str]]:
    """Return where code left the compiler, whichever copy of a file it is in."""
    return {(item.where.function, " ".join(item.where.code.split())) for item in record.eager}


def _limited(record: Record) -> set[tuple[str, str]]:
    """Return the places among these that were compiled again until the recompile limit."""
    limited = [item for item in record.eager if advice.name(item) == "limit"]
    return _left(structs.replace(record, eager=tuple(limited)))


def _ops(record: Record) -> int:
    return sum(graph.ops or 0 for graph in record.graph_list if graph.layer == "dynamo")


def _ops_of_models(record: Record) -> int:
    """Return the operations without those of torch's own code alone, such as an optimizer's."""
    made = (graph for graph in record.graph_list if graph.layer == "dynamo" and graph.functions)
    return sum(graph.ops or 0 for graph in made)


def reads(patch: SourcePatch) -> bool:
    """Return whether a patch makes numbers of tensors constants, which may depend on the inputs."""
    return patch.assumes


def _decides(item: Break) -> bool:
    """Return whether the value of a tensor decides what runs: a branch, or one more round."""
    return advice.name(item) == "branch" or item.where.code.startswith("while ")


@dataclass(frozen=True, slots=True)
class Tried:
    """A patch that was tried for a problem, and why it was not kept ("" if it was)."""

    patch: SourcePatch
    why: str


@dataclass(slots=True)
class Problem:
    """A break, or the recompiles of the run (``item`` is None), and what was tried for it.

    ``origin`` is the problem whose patch wrote the line that breaks, if a patch did. ``doubtful``
    is the first patch that repairs it without fewer graphs, with its run.
    """

    item: Break | None
    before: int
    tried: list[Tried] = field(default_factory=list)
    kept: list[SourcePatch] = field(default_factory=list)
    after: int | None = None
    fixed: bool = False
    note: str = ""
    origin: Problem | None = None
    doubtful: tuple[SourcePatch, Trial] | None = None
    others: bool = False
    """Whether it is that the program is compiled again for inputs that it does not use itself."""

    @property
    def title(self) -> str:
        if self.others:
            return "recompiles for other inputs"
        if self.item is None:
            return "recompiles"
        name = f"{self.item.id}  " if self.item.id else ""
        return f"{name}{self.item.reason}"


def item_of(problem: Problem) -> Break:
    """Return the break of a problem that is one."""
    assert problem.item is not None
    return problem.item


def origin_of(problems: Sequence[Problem]) -> Problem | None:
    """Return the problem that the last of these came from, if any."""
    found = problems[-1] if problems else None
    return found and (found.origin or found)


def assumes(problem: Problem, patch: SourcePatch, trial: Trial, last: Trial) -> str:
    """Return why a patch only holds for what does not vary, or "" if it holds for all inputs."""
    if not reads(patch):
        return ""
    gain = f"{graphs(last.record)} -> {graphs(trial.record)} graphs"
    if trial.again:
        inputs = plural(len(trial.again), "other input")
        return f"{gain}, but compiled again for {inputs} (--assume keeps it)"
    if not trial.varied:
        return f"{gain}, but the program takes none of the other inputs (--assume keeps it)"
    if problem.item is not None and _decides(problem.item):
        return f"{gain}, but raises where the branch goes the other way (--assume keeps it)"
    return ""


def compiles_again(trial: Trial, plain: Trial, source: str) -> str:
    """Return that patches compile again for more inputs than the program without them, or "".

    ``source`` is the text of the user's file.
    """
    again = list(trial.again)
    if eager(trial.record) < eager(plain.record):
        # Code that ran uncompiled was compiled for no input: lines of its own do not count.
        again = [one for one in again if one.get("code", "\0") not in source]
    if len(again) <= len(plain.again):
        return ""
    inputs, why = plural(len(again), "other input"), again[-1]["why"]
    return f"compiled again for {inputs}, {len(plain.again)} without it: {why} (--assume)"


def fixing(trial: Trial) -> list[Frame]:
    """Return the lines that need a size as a number, so that each is compiled."""
    lines = (one for one in trial.again if one.get("code"))
    found = (Frame(one["file"], one["function"], one["line"], one["code"]) for one in lines)
    return list(dict.fromkeys(found))


@dataclass(slots=True)
class SearchResult:
    """The result of a search. ``last`` is the run of all kept patches together.

    ``plain`` is one without patches, compiled for other inputs as well, where ``last`` was compiled
    again for some of them. ``reference`` is how the program differs without a patch, for other
    inputs, from what it does uncompiled: then it is compared with what it does compiled.
    ``prints`` is how its lines differ with patches, where they are those of the uncompiled program.
    """

    first: Trial
    last: Trial
    kept: list[SourcePatch] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    source: bytes | None = None
    stopped: str = ""
    plain: Trial | None = None
    reference: str = ""
    prints: str = ""

    @property
    def before(self) -> int:
        return graphs(self.first.record)

    @property
    def after(self) -> int:
        return graphs(self.last.record)


def taken_out(problem: Problem) -> set[str]:
    """Return the names of the functions that patches of a problem took out of the compiler."""
    edits = [edit for patch in problem.kept if patch.leaves for edit in patch.edits]
    places = [edit.where.function for edit in edits if isinstance(edit, Rewrite)]
    return {name.rpartition(".")[2] for name in places}
