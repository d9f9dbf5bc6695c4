"""Compares a run of a patched program with runs of the original, in a process of its own.

``Original`` orders it: see ``comparison``, which explains "border", "drawn", "lines", "unsteady".
What the runs gave is read from the files that ``measure`` saved.

1. The calls of compiled code are compared one by one. A patch may change their border, such as a
   tensor for an int or one result more. Then the numbers of the original have to be among the new
   results, or the border of the program decides alone.
2. At the border of the program: what it raises and its lines (``_program``), the objects that it
   holds (``_state``), and the files and settings that it shares with other programs (``_outside``).
3. Calls with drawn inputs, if the calls have the border that they had.

The first difference ends the comparison. Two values are compared by ``tolerance``, as flat lists of
their leaves (``values.Flat``): of ``[x, 1]`` these are the tensor and the number, each with its
path, ``[0]`` and ``[1]``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import torch
from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.repair.calls import CallResult, Raised
from pytest_graphbreak.repair.child import Go
from pytest_graphbreak.repair.comparison import CompareOrder, Comparison, ValueDifference
from pytest_graphbreak.repair.inputs import OWN
from pytest_graphbreak.repair.tolerance import (
    Comparer,
    line_difference,
    same_text,
    unsteady_lines,
    without_lines,
    without_numbers,
)
from pytest_graphbreak.repair.values import Flat, structure, text

_PROGRAM: Final = "the program"
"""The place of a difference that is of no call."""
_LINES: Final = "lines"
"""What a drawn call prints and logs, as a name in ``_moved`` beside the names of objects."""
_ABSENT: Final[Flat] = [("", None)]
"""The value of a file or setting that only the other run has."""
_ITSELF: Final = "differs from run to run"
"""Why a name of the original is not compared."""


class Results(Struct):
    """What one run of a program gave: ``measure`` saves it in a file, this module loads it."""

    calls: list[CallResult] = []
    """Its calls of compiled code, in their order."""
    state: dict[str, Flat] = {}
    """The objects that it held at its end, by name: ``losses``, ``Net.a.weight``."""
    outside: dict[str, Flat] = {}
    """The files that it wrote, and what it shares with other programs: ``the file log.txt``."""
    drawn: dict[str, CallResult] = {}
    """Its calls with drawn inputs, by the kind of the inputs: ``a batch of one``."""
    dispensable: list[str] = []
    """The names in ``state`` that a patched program may lack."""
    left_out: list[str] = []
    """What was not kept, in words."""


class ProgramRun(Struct, frozen=True):
    """The results of a run, its lines by stream, and what it raised in words."""

    results: Results
    lines: Mapping[str, Sequence[str]]
    error: str | None = None


def work(ordered: Plain, _: Go) -> Plain:
    """Carry out a ``CompareOrder``. ``go`` would run a target: here none is run."""
    order = msgspec.convert(ordered, CompareOrder)
    saved = [torch.load(file, weights_only=False) for file in order.results]
    parts = zip(saved, order.lines, order.errors, strict=True)
    runs = [ProgramRun(*part) for part in parts]
    comparing = _Comparing(
        runs[:-1], runs[-1], order.factor, numbers=order.numbers, without=order.without
    )
    return {"compared": msgspec.to_builtins(comparing.comparison())}


class _Comparing:
    """A comparison of a run with one or two runs of the original, each of which is right.

    ``factor`` widens tolerances. ``numbers`` is whether numbers in lines are compared; objects
    named in ``without`` are not. It is made for one call of ``comparison``. The methods that look
    for a difference also note in ``_result`` what was compared, and what was left out.
    """

    def __init__(
        self,
        originals: list[ProgramRun],
        patched: ProgramRun,
        factor: float,
        *,
        numbers: bool = True,
        without: Sequence[str] = (),
    ) -> None:
        self._originals = originals
        self._first = originals[0]
        self._patched = patched
        self._comparer = Comparer(factor)
        self._drawn_comparer = Comparer(factor, drawn=True)
        self._numbers = numbers
        self._without = without
        self._result = Comparison(left_out=list(self._first.results.left_out))
        self._moved: set[str] = set()
        """The objects that the original changes in a call, and the patched program after it; and
        ``_LINES`` if it prints after the call, too."""

    def comparison(self) -> Comparison:
        """Return the first difference, and what was compared until then."""
        result = self._result
        result.changed = self._changed_border()
        # Where it changed, calls are not compared one by one: their numbers are, or the program is.
        result.by_program = bool(result.changed) and not self._has_same_numbers()
        result.calls = 0 if result.by_program else len(self._patched.results.calls)
        calls = None if result.changed else self._calls()
        result.difference = calls or self._program() or self._state() or self._outside()
        if result.difference is not None:
            result.unsteady = self._unsteady()
        elif not result.changed:
            result.difference = self._drawn_calls()
        return result

    def _unsteady(self) -> str:
        """Return how the calls of the second run of the original differ from the first, or "".

        Objects, files and lines that differ between the two are left out one by one.
        """
        if not self._originals[1:]:
            return ""
        again = _Comparing([self._first], self._originals[1], self._comparer.factor)
        if changed := again._changed_border():
            return changed
        difference = again._calls()
        return str(difference) if difference is not None else ""

    # The border of the compiled calls.

    def _changed_border(self) -> str:
        """Return which callable is called with another border, or more or less often, or ""."""
        before, after = (_by_name(run.results.calls) for run in (self._first, self._patched))
        for name, calls in before.items():
            new = after.get(name, [])
            if len(new) != len(calls):
                return f"{name} is called {len(new)} times in place of {len(calls)}"
            for number, (old_call, new_call) in enumerate(zip(calls, new, strict=True), 1):
                if _border_of(old_call) != _border_of(new_call):
                    return f"call {number} of {name} has other arguments or results"
        extra = [name for name in after if name not in before]
        return f"{extra[0]} is compiled as well" if extra else ""

    def _has_same_numbers(self) -> bool:
        """Return whether each call of the patched program gives the numbers of the original's.

        They may be in another form, or among others: ``3`` is in ``[tensor(3), 0.5]``.
        """
        pairs = [*zip(self._first.results.calls, self._patched.results.calls, strict=False)]
        as_many = len(self._first.results.calls) == len(self._patched.results.calls)
        return as_many and all(
            self._comparer.same_numbers(old.output, new.output)
            for old, new in pairs
            if old.raised is None
        )

    def _calls(self) -> ValueDifference | None:
        """Return the first difference of calls that have the border they had."""
        of_all = [_by_name(run.results.calls) for run in self._originals]
        for name, calls in _by_name(self._patched.results.calls).items():
            for number, new in enumerate(calls):
                olds = [of_run[name][number] for of_run in of_all if of_run[name][number:]]
                if difference := self._call(olds, new, self._comparer):
                    return replace(difference, where=f"call {number + 1} of {name}")
        return None

    def _call(
        self, olds: Sequence[CallResult], new: CallResult, comparer: Comparer
    ) -> ValueDifference | None:
        """Return how a call differs from all of ``olds``, the same call in the originals."""
        differences = [_call_difference(old, new, comparer) for old in olds]
        return None if None in differences else differences[0]

    # The border of the program.

    def _program(self) -> ValueDifference | None:
        """Return which exception or line differs."""
        old, new = self._first.error, self._patched.error
        if (old is None) != (new is None) or (old and new and not same_text(old, new)):
            return ValueDifference("what it raises", old or "nothing", new or "nothing", _PROGRAM)
        for stream, lines in self._first.lines.items():
            unsteady = unsteady_lines(lines, self._originals[-1].lines.get(stream, ()))
            if unsteady:
                self._result.left_out.append(f"lines of {stream} that differ from run to run")
            texts = [
                without_lines(x, unsteady) for x in (lines, self._patched.lines.get(stream, ()))
            ]
            if not self._numbers:
                texts = [[*map(without_numbers, lines)] for lines in texts]
            if unlike := line_difference(*texts):
                return replace(unlike, what=f"{stream}{unlike.what}", where=_PROGRAM)
        return None

    def _state(self) -> ValueDifference | None:
        """Return which object differs that the program holds at its end.

        A name of the original may be missing in the patched program if it is dispensable, or if
        one of the new names has its value. New names are not compared.
        """
        before, after = self._first.results.state, self._patched.results.state
        again = self._originals[-1].results.state
        new_names = [after[name] for name in after if name not in before]
        for name, old in before.items():
            if name in self._without:
                continue
            if name in again and self._comparer.difference(old, again[name]):
                self._result.left_out.append(f"{name}, which {_ITSELF}")
            elif name in after:
                if difference := self._comparer.value_difference(old, after[name], name):
                    return replace(difference, where="at the end")
            elif name in self._first.results.dispensable:
                self._result.gone.append(name)
            elif not any(self._comparer.is_value(old, new) for new in new_names):
                return ValueDifference(name, text(old), "gone", "at the end")
        return None

    def _outside(self) -> ValueDifference | None:
        """Return which file, setting or random number differs.

        Unlike an object, a file that only the patched program writes is a difference.
        """
        before, after = self._first.results.outside, self._patched.results.outside
        again = self._originals[-1].results.outside
        for name in dict.fromkeys((*before, *after)):
            old = before.get(name, _ABSENT)
            if self._comparer.difference(old, again.get(name, _ABSENT)):
                self._result.left_out.append(f"{name}, which {_ITSELF}")
            elif difference := self._comparer.difference(old, after.get(name, _ABSENT), name):
                return replace(difference, where="at the end")
        return None

    # Calls with drawn inputs.

    def _drawn_calls(self) -> ValueDifference | None:
        """Return the first difference of drawn calls."""
        for kind, new in self._patched.results.drawn.items():
            olds = [x.results.drawn[kind] for x in self._originals if kind in x.results.drawn]
            if not olds:
                continue
            if kind == OWN:  # it comes first: what it shows holds for all that follow
                self._note_moved(olds[0], new)
            taken = [old for old in olds if old.raised is None]
            if difference := self._drawn_call(olds, taken, new):
                return replace(difference, where=f"call of {new.name} with {kind}")
            if taken:
                self._result.drawn.append(kind)
            else:
                self._result.refused += 1
        return None

    def _note_moved(self, old: CallResult, new: CallResult) -> None:
        """Note what the call itself no longer does: a drawn call shows the call alone.

        The border of the program agreed, so the program does it after the call.
        """
        if old.lines and not new.lines:
            self._moved.add(_LINES)
        self._moved |= {name for name in old.changed if name not in new.changed}
        self._result.left_out += [f"{name} of drawn calls" for name in sorted(self._moved)]

    def _drawn_call(
        self, olds: list[CallResult], taken: list[CallResult], new: CallResult
    ) -> ValueDifference | None:
        """Return how a drawn call differs from the same call in each run of the original.

        ``olds`` are all of these, ``taken`` those that do not raise.

        =====================================  =========================================
        the original                           the patched program
        =====================================  =========================================
        raises in a line of its own            has to raise the same: it refuses the input
        raises in an operator of torch         may do anything: it is no input of the program
        returns                                has to return the same, with the same effects
        =====================================  =========================================

        Where one run of the original raises and the other returns, either is right.
        """
        by_program = [old for old in olds if old.raised is not None and old.raised.explicit]
        is_refused = new.raised is not None
        if by_program and (is_refused or not taken):
            return _call_difference(by_program[0], new, self._drawn_comparer)
        if is_refused:
            is_refused_by_torch = len(taken) < len(olds)
            return None if is_refused_by_torch else _other_error(olds[0], new)
        if not taken:
            return None
        differences = [self._effects(old, new) for old in taken]
        effects = None if None in differences else differences[0]
        return self._call(taken, new, self._drawn_comparer) or effects

    def _effects(self, old: CallResult, new: CallResult) -> ValueDifference | None:
        """Return which line of a call differs, or which object it leaves otherwise."""
        unlike = line_difference(old.lines, new.lines) if _LINES not in self._moved else None
        if unlike is not None:
            return replace(unlike, what=f"{_LINES}{unlike.what}")
        return self._objects(old, new)

    def _objects(self, old: CallResult, new: CallResult) -> ValueDifference | None:
        """Return which object is another after the call: ``_state``, but after a drawn call.

        A ``CallResult`` lacks large objects that the call did not change.
        """
        before = self._first.results.state
        new_names = [flat for name, flat in new.objects.items() if name not in before]
        for name, value in old.objects.items():
            if name in self._moved:
                continue
            if name in new.objects:
                if difference := self._drawn_comparer.value_difference(
                    value, new.objects[name], name
                ):
                    return difference
            elif name in old.changed and not any(
                self._drawn_comparer.is_value(value, flat) for flat in new_names
            ):
                return ValueDifference(name, text(value), "unchanged")
        for name in new.changed:
            if name not in old.objects and name in before:
                return ValueDifference(name, "unchanged", text(new.objects[name]))
        return None


def _by_name(calls: Sequence[CallResult]) -> dict[str, list[CallResult]]:
    """Return the calls of each callable, in their order."""
    names: dict[str, list[CallResult]] = defaultdict(list)
    for call in calls:
        names[call.name].append(call)
    return names


def _border_of(call: CallResult) -> list[tuple[str, str]] | None:
    """Return the paths of the arguments and results, and which are tensors and numbers.

    ``[("arguments[0]", "tensor"), ("output[1]", "number")]``; None for a call that raises.
    """
    return None if call.raised is not None else sorted(structure(call.values))


def _call_difference(
    old: CallResult, new: CallResult, comparer: Comparer
) -> ValueDifference | None:
    """Return how a call differs: in what it raises or returns, or in what its result shares."""
    if old.raised is not None and new.raised is not None:
        return None if _is_same_error(old.raised, new.raised) else _other_error(old, new)
    if old.raised is not None or new.raised is not None:
        return _other_error(old, new)
    if difference := comparer.difference(old.values, new.values):
        return difference
    for output, shared in sorted(new.aliases - old.aliases):
        return ValueDifference(
            output, "a tensor of its own", f"one that shares memory with {shared}"
        )
    return None


def _is_same_error(old: Raised, new: Raised) -> bool:
    """Return whether errors are of one kind; only those of the program have words that count."""
    return old.kind == new.kind and (not old.explicit or same_text(old.words, new.words))


def _other_error(old: CallResult, new: CallResult) -> ValueDifference:
    """Return the difference of two calls of which at least one raises."""
    return ValueDifference("what it raises", _error(old), _error(new))


def _error(call: CallResult) -> str:
    return "nothing" if call.raised is None else call.raised.words or call.raised.kind
