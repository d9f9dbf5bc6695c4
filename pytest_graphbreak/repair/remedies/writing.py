"""Remedies for lines that only write: after the graph has run, or not in compiled code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from msgspec import structs

from pytest_graphbreak import advice
from pytest_graphbreak.model.record import Break, Frame
from pytest_graphbreak.repair.patch import Edit, Preamble, SourcePatch
from pytest_graphbreak.repair.pure import LEVELS
from pytest_graphbreak.repair.remedies.breaks import inside, is_compiled
from pytest_graphbreak.repair.remedies.by_kind import by_kind
from pytest_graphbreak.repair.remedies.programs import AROUND, GIVEN, around
from pytest_graphbreak.repair.trial import Trial

_COMPUTES: Final = ("branch", "item", "nonzero", "mask", "disabled")
"""Families of lines that compute something; such a line must not be dropped."""
_CLOCK: Final = re.compile(r"\b(?:time|perf_counter|monotonic|process_time|now)\(")
_WHAT: Final = ("the line is", "the line and others of its object are")
_LATER: Final = "written when the graph has run, not in the middle of it"
_ENDS: Final = "written when the compiled call ends, not in the middle of it"
_WHEN: Final = ("after the graph", "when the compiled call ends")


def later(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose to run a line that only writes output after the graph has run.

    Torch makes no call then for a function that it inlines: its lines are written when the call
    of what is compiled ends, and with them those of other functions, so that their order stays.
    A part of ``nn.Sequential`` is inlined only where it has no break.
    """
    certain = _is_inlined(item, trial)
    if certain or not is_compiled(item.where, trial) or _writes_inlined(trial):
        yield from _written(item.where, trial, block=True, ends=True)
        yield from _line(item.where, trial, ends=True)
        yield from _joined(item.where, trial, ends=True)
        yield from noted(item.where, trial)
    if not certain:
        yield from _after_graph(item, trial)


def _is_inlined(item: Break, trial: Trial) -> bool:
    """Return whether the function of a break is inlined into another one."""
    return bool(inside(item, trial)) or _is_called(item.where, trial)


def _writes_inlined(trial: Trial) -> bool:
    """Return whether a line breaks the graph that an inlined function writes."""
    from pytest_graphbreak.repair.rewrite.later import definition

    return any(
        definition(trial.source(one.where), one.where, alone=True)
        for one in trial.record.breaks
        if _is_inlined(one, trial)
    )


def _after_graph(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose to run a line of the compiled function itself after the graph has run."""
    name, code = advice.name(item), item.where.code
    yield from _written(item.where, trial, block=True)
    if name in ("print", "warnings"):
        function = "print" if code.startswith("print(") else "warnings.warn"
        load = [Preamble("import warnings")] if function != "print" else []
        yield SourcePatch(
            f"{function} is called after the graph", (*load, _reordered(function)), moves=_LATER
        )
    yield from _line(item.where, trial)
    yield from _joined(item.where, trial)
    yield from noted(item.where, trial)


def _joined(where: Frame, trial: Trial, *, ends: bool = False) -> Iterator[SourcePatch]:
    """Propose to write a value later that is only worked out for the line behind it."""
    from pytest_graphbreak.repair.rewrite import apply
    from pytest_graphbreak.repair.rewrite.line import shown
    from pytest_graphbreak.repair.rewrite.scope import UnfitError

    source = trial.source(where)
    try:
        changed = apply(source, "joined", where) if source else None
    except UnfitError:
        return
    if changed is not None:
        line = structs.replace(where, code=shown(source, changed, where.code))
        title = f"the value and the line behind it are written {_WHEN[ends]}"
        for patch in _written(line, trial, source=changed, ends=ends):
            edits = (by_kind("joined", where), *patch.edits)
            yield replace(patch, title=title, edits=edits)


def _line(where: Frame, trial: Trial, *, ends: bool = False) -> Iterator[SourcePatch]:
    """Propose to write a line later, also with an op for what its branch computes beside it."""
    for patch in _written(where, trial, ends=ends):
        yield patch
        for kind in ("where", "cond") if where.code.startswith("if ") else ():
            yield SourcePatch(
                f"what the branch writes is written {_WHEN[ends]}, the rest torch.{kind}",
                (*patch.edits, by_kind(kind, where)),
                moves=patch.moves,
            )


def _written(
    where: Frame, trial: Trial, *, block: bool = False, ends: bool = False, source: str = ""
) -> Iterator[SourcePatch]:
    """Propose to write a line, or all of the ``if`` around it, later.

    That is after the graph has run; with ``ends``, when the call of what is compiled ends.
    """
    from pytest_graphbreak.repair.rewrite.later import definition, together

    source = source or trial.source(where)
    if not source or (block and where.code.startswith("if ")):
        return
    places = [where] if block or ends else together(source, where)
    if not places:
        return
    found = [definition(source, one, block=block, alone=ends) for one in places]
    kind = ("note" if ends else "later") + "_block" * block
    edits: list[Edit] = [AROUND, around("notes", "flush")] if ends else []
    for one, defined in zip(places, found, strict=True):
        if defined is None:
            return
        function, text = defined
        calls = [] if ends else [_reordered(function)]
        edits += [Preamble(text), *calls, by_kind(kind, one)]
    texts = "".join(text for _, text in filter(None, found))
    given = [GIVEN] if "_is_number" in texts or "_graphbreak_held" in texts else []
    what = "the `if` around the line is" if block else _WHAT[len(places) > 1]
    moves = _ENDS if ends else _LATER
    moves = f"{moves}; its clock is read then" if _CLOCK.search(texts) else moves
    yield SourcePatch(f"{what} written {_WHEN[ends]}", (*given, *edits), moves=moves)


def noted(where: Frame, trial: Trial) -> Iterator[SourcePatch]:
    """Propose to note a value in a list, dictionary or number of an object later.

    That is after the graph has run, or when the call of what is compiled ends.
    """
    from pytest_graphbreak.repair.rewrite.held import definition

    source = trial.source(where)
    found = definition(source, where) if source else None
    if found is None:
        return
    function, text = found
    ends = not is_compiled(where, trial) or _is_called(where, trial)
    calls = (AROUND, around("notes", "flush")) if ends else (_reordered(function),)
    rewrite = by_kind("held_note" if ends else "held", where)
    title, moves = f"the value is noted {_WHEN[ends]}", _ENDS if ends else _LATER
    yield SourcePatch(title, (GIVEN, Preamble(text), *calls, rewrite), moves=moves)


def _is_called(where: Frame, trial: Trial) -> bool:
    """Return whether the function of a place is called by others that are compiled."""
    from pytest_graphbreak.repair.rewrite.outside import inlined

    source = trial.source(where)
    return bool(source) and inlined(source, where.function)


def output(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose to drop calls that only write output: print, warnings, logging, progress bars."""
    name, code = advice.name(item), item.where.code
    if name == "logging":
        yield from _logging(code)
    if name not in _COMPUTES:
        yield SourcePatch(
            "the statement runs only where the code is not compiled",
            (by_kind("only_eager", item.where),),
            drops=f"`{code}` no longer happens in compiled code",
        )


def _reordered(function: str) -> Preamble:
    return Preamble(f"torch._dynamo.config.reorderable_logging_functions.add({function})")


def _logging(code: str) -> Iterator[SourcePatch]:
    """Propose to silence loggers in compiled code."""
    methods = [f"logging.Logger.{one}" for one in LEVELS if f".{one}(" in code]
    if not methods:
        return
    load = Preamble("import logging")
    silent = (f"torch._dynamo.config.ignore_logger_methods.add({one})" for one in methods)
    yield SourcePatch(
        "loggers are silent in compiled code",
        (load, *map(Preamble, silent)),
        drops=f"`{code}` no longer writes its line in compiled code",
    )
