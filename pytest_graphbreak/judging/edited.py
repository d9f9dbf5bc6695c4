"""What the lines of an edit say of compiled code that became less.

Fewer captured operations mean that some were deleted, or that they run outside of the compiler now.
The counts are the same. An edit that takes a call out of a function that is compiled, and puts the
same call into one that is not, moved it. One that only changes compiled functions, and what makes
their modules, made the program smaller.
"""

from __future__ import annotations

import builtins
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from pytest_graphbreak.model.record import Frame

_CALLS: Final = re.compile(r"(?<![A-Za-z_0-9])[A-Za-z_][A-Za-z_0-9]{0,99}(?=\()")
_OPERATORS: Final = re.compile(r"(?<= )(?:\*\*|//|[-+*/@%])(?= )")
_COMPILER: Final = re.compile(r"compile|disable|dynamo|stance|_orig_mod")
_LAYERS: Final = re.compile(r"(?:layer|block|depth)[a-z_]{0,20}(?:: ?int)? ?= ?[0-9]")
_NUMBER: Final = re.compile(r"[0-9]+")
_OF_PYTHON: Final = frozenset(dir(builtins)) - {"abs", "max", "min", "pow", "round", "sum"}
"""Functions of Python that compute nothing with tensors."""


class EditedLine(NamedTuple):
    """A line that an edit added, or one that it removed, with its place before or after."""

    where: Frame
    is_new: bool

    @property
    def function(self) -> str:
        """The function around it, named as in the records: ``models/net.py::Net.forward``."""
        return f"{self.where.file}::{self.where.function}"


def moved_out(
    edited: Sequence[EditedLine], before: Collection[str], now: Collection[str]
) -> Frame | None:
    """Return a new line, outside of compiled code, with an operation that was taken out of it.

    ``before`` and ``now`` are the functions that were compiled, and that are. What the edit also
    put back, or only changed outside, has not moved.
    """
    old = [one for one in edited if not one.is_new]
    new = [one for one in edited if one.is_new]
    outside = [one for one in new if one.function not in now]
    taken = _operations(one for one in old if one.function in before)
    taken -= _operations(one for one in new if one.function in now)
    came = _operations(outside) - _operations(one for one in old if one.function not in before)
    moved = (taken & came).keys()
    lines = (one.where for one in outside if moved & _operations([one]).keys())
    return next(lines, None)


def is_inside(edited: Sequence[EditedLine], before: Collection[str], now: Collection[str]) -> bool:
    """Return whether an edit is of compiled functions alone, and of what makes their modules.

    That are the constructors of their classes, and the number of layers in an option. Nothing there
    can leave the compiler without a break, except what names the compiler.
    """
    classes = {one.rpartition(".")[0] for one in (*before, *now)}
    sizes = _sizes(edited, is_new=False) & _sizes(edited, is_new=True)
    return bool(edited) and all(
        (
            one.function in (now if one.is_new else before)
            or one.function.removesuffix(".__init__") in classes
            or _NUMBER.sub("0", one.where.code) in sizes
            or not one.where.code
        )
        and not _COMPILER.search(one.where.code)
        for one in edited
    )


def _sizes(edited: Iterable[EditedLine], *, is_new: bool) -> set[str]:
    """Return the lines that give a number of layers, without their numbers."""
    lines = (one.where.code for one in edited if one.is_new is is_new)
    return {_NUMBER.sub("0", code) for code in lines if _LAYERS.search(code)}


def _operations(lines: Iterable[EditedLine]) -> Counter[str]:
    """Return the names of what lines call, and their operators, with how often."""
    found = Counter[str]()
    for one in lines:
        called = (name for name in _CALLS.findall(one.where.code) if name not in _OF_PYTHON)
        found.update((*called, *_OPERATORS.findall(one.where.code)))
    return found
