"""A line that only writes is run when the graph has run: print, a warning, a logger, a list.

Before::

    def step(x, y):
        loss = mse_loss(model(x), y)
        losses.append(loss.item())
        return loss

After::

    @torch.compiler.disable
    def _graphbreak_line_13(loss):
        losses.append(loss.item())

    torch._dynamo.config.reorderable_logging_functions.add(_graphbreak_line_13)

    def step(x, y):
        loss = mse_loss(model(x), y)
        _graphbreak_line_13(loss)
        return loss

torch calls no such function for code that it inlines into another function: there the line is noted
with copies of its tensors, and written when the compiled call ends.

When not: where the code reads what it writes (``len(losses)``), or the line needs more than
tensors, numbers and texts: ``self.log(x)``. It comes later than other side effects of the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from pytest_graphbreak.model.record import Break, Frame
from pytest_graphbreak.repair.patch import Change, Edit, Preamble, Rewrite, SourcePatch, UnfitError
from pytest_graphbreak.repair.remedies import cond
from pytest_graphbreak.repair.remedies import where as where_
from pytest_graphbreak.repair.rewrite.helpers import helper, wrap_calls
from pytest_graphbreak.repair.rewrite.tree import Place, places, rewriting, statements
from pytest_graphbreak.repair.rewrite.writing import Writing, writing
from pytest_graphbreak.repair.trial import Trial

if TYPE_CHECKING:
    import libcst as cst
    import torch

_NOTES: Final = Preamble(
    "_graphbreak_notes = []\n_graphbreak_open = False\n"
    "_graphbreak_write = torch.compiler.disable(_graphbreak_write)"
)
_REORDERED: Final = "torch._dynamo.config.reorderable_logging_functions.add"


def propose(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    source, here = trial.source(item.where), item.where
    output = writing_at(source, here) if source else None
    if output is None:
        return
    name = _name(here)
    numbers = (helper(_graphbreak_value),) if output.numbers else ()
    edits: tuple[Edit, ...] = (*numbers, Preamble(output.definition(name)))
    if here.function in trial.roots:
        order = Preamble(f"{_REORDERED}({name})")
        moves = "written when the graph has run, not in the middle of it"
        yield from _patches("after the graph", (*edits, order), AFTER, here, moves)
    notes = (helper(_graphbreak_note), helper(_graphbreak_write), _NOTES)
    edits = (*numbers, *notes, *wrap_calls(_graphbreak_flush), Preamble(output.definition(name)))
    moves = "written when the compiled call ends, not in the middle of it"
    yield from _patches("when the compiled call ends", edits, NOTED, here, moves)


def recompiles(trial: Trial) -> Iterator[SourcePatch]:
    """Propose the same for lines whose list is longer in each call, which compiles them again."""
    guards = {recompile.guard.key: recompile for recompile in trial.record.recompile_list}
    for recompile in guards.values():
        if not recompile.guard.code.startswith("if "):
            yield from propose(Break(recompile.layer, recompile.reason, recompile.guard), trial)


def _patches(
    when: str, edits: tuple[Edit, ...], change: Change, place: Frame, moves: str
) -> Iterator[SourcePatch]:
    """Yield the patch for a line, and for what an ``if`` does beside what it writes."""
    both = (*edits, Rewrite(change, place, helper=True))
    yield SourcePatch(f"the line is written {when}", both, moves=moves)
    if place.code.startswith("if "):
        for name, choice in (("where", where_.CHANGE), ("cond", cond.CHANGE)):
            title = f"what the branch writes is written {when}, the rest is torch.{name}"
            yield SourcePatch(title, (*both, Rewrite(choice, place)), moves=moves)


@lru_cache(maxsize=64)
def writing_at(source: str, where: Frame) -> Writing | None:
    """Return what the statement at a place writes, or None if it does anything else."""
    try:
        hits = places(source, where)
        return writing(hits[0]) if hits else None
    except UnfitError:
        return None


def _name(where: Frame) -> str:
    """Return the name of the function that takes the place of a line."""
    return f"_graphbreak_line_{where.line}"


def to_call(place: Place) -> Sequence[cst.BaseStatement]:
    """Return the call of the function that writes, which torch calls when the graph has run."""
    output = writing(place)
    return [*statements(f"{_name(place.where)}({output.values})"), *output.remainder]


def to_note(place: Place) -> Sequence[cst.BaseStatement]:
    """Return the note of the function that writes and of its arguments."""
    output = writing(place)
    call = f"_graphbreak_note({_name(place.where)}, [{output.values}])"
    return [*statements(call), *output.remainder]


AFTER: Final = rewriting(to_call)
NOTED: Final = rewriting(to_note)


_graphbreak_notes: list[Any] = []
_graphbreak_open = False


def _graphbreak_value(value: Any, copies: bool = False) -> Any:
    """Return a value for a function that is called later, and whether it was a number."""
    if isinstance(value, torch.Tensor):
        return value.clone() if copies else value, False
    if type(value) is float:
        return torch.tensor(value, dtype=torch.float64), True
    if type(value) is int:
        return torch.tensor(value, dtype=torch.int64), True
    return value, False


def _graphbreak_note(write: Any, arguments: Any) -> None:
    """Note a function and its arguments; call it now if no compiled call will end.

    What cannot be copied may be changed before the call ends, so it is written at once.
    """
    simple = (torch.Tensor, str, int, float, type(None))
    copyable = all(isinstance(x, simple) for x in arguments)
    if _graphbreak_open and torch.compiler.is_compiling() and copyable:
        copies = [x.clone() if isinstance(x, torch.Tensor) else x for x in arguments]
        _graphbreak_notes.append((write.__name__, copies))
    else:
        _graphbreak_notes.append((write.__name__, arguments))
        _graphbreak_write()


def _graphbreak_write() -> None:
    """Write what is noted, in its order."""
    notes = _graphbreak_notes[:]
    _graphbreak_notes.clear()
    for write, arguments in notes:
        globals()[write](*arguments)


def _graphbreak_flush(model: Any, inner: Any) -> Any:
    """Write what is noted in a call when it ends."""

    def call(*args: Any, **kwargs: Any) -> Any:
        global _graphbreak_open
        before, _graphbreak_open = _graphbreak_open, True
        try:
            return inner(*args, **kwargs)
        finally:
            _graphbreak_open = before
            _graphbreak_write()

    return call
