"""Reads the HLO of lazy work, and finds how it differs from another.

torch_xla prints an instruction on a line, after those that it needs, with constants and attributes,
and with the innermost line of Python that made it once ``_set_ir_debug`` was called
(``_get_xla_tensors_hlo`` of torch_xla 2.9). The order of what does not depend on each other, the
numbers of instructions and of inputs follow from the order in which tensors are given: nothing
here looks at these.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

_INSTRUCTION: Final = re.compile(
    r"^ {0,8}(?:ROOT )?%?(?P<name>[\w.-]{1,200}) = (?P<shape>\w{1,20}\[[^\]\n]{0,500}\])\S{0,200} "
    r"(?P<code>[\w-]{1,100})\("
)
_OPERAND: Final = re.compile(r"%([\w.-]{1,200})")
_TYPE: Final = re.compile(r'\bop_type="([^"\n]{1,300})"')
_FILE: Final = re.compile(r'\bsource_file="([^"\n]{1,4000})"')
_LINE: Final = re.compile(r"\bsource_line=(\d{1,9})")
_ATTRIBUTE: Final = re.compile(r"(?:^|, )(\w{1,40})=(\{[^}\n]{0,2000}\}|[^,\n]{0,200})")
_INPUT: Final = "parameter"
_KEPT_TOGETHER: Final = ("tuple", "get-tuple-element")
"""Instructions that only hold others together."""

Line = tuple[str, int]
"""A file and a line of it, 1-based."""


class Instruction(NamedTuple):
    """An instruction of HLO, and the operation of torch that it is a part of.

    ``shape`` is ``f32[3,8]``; ``detail`` are its attributes, or the value of a constant; ``depth``
    is the number of instructions that it needs, one after the other. ``made`` is None where it is
    not known, as in a backward pass.
    """

    op: str
    code: str
    shape: str
    detail: str = ""
    depth: int = 0
    made: Line | None = None


class HloChange(NamedTuple):
    """The difference of HLO from that before, in words, and the instruction that makes it."""

    words: str
    at: Instruction | None = None


Rank = Callable[[Line | None], int]
"""Says how near a line is to the user's code: the smaller, the nearer."""


def read(text: str) -> tuple[Instruction, ...]:
    """Return the instructions of a module of HLO, those of called computations too."""
    found = []
    depths: dict[str, int] = {}
    for line in text.split("\n"):
        if (match := _INSTRUCTION.match(line)) is None or match["code"] in _KEPT_TOGETHER:
            continue
        rest, _, metadata = line[match.end() :].partition(", metadata={")
        operands, _, attributes = rest.partition("), ")
        needed = _OPERAND.findall(operands)
        depth = depths[match["name"]] = 1 + max((depths.get(one, 0) for one in needed), default=0)
        detail = operands.rstrip(")") if match["code"] == "constant" else attributes
        file, number = _FILE.search(metadata), _LINE.search(metadata)
        made = (file[1], int(number[1])) if file and number else None
        kind = _TYPE.search(metadata)
        op = kind[1].replace("__", "::", 1) if kind else match["code"]
        detail = "" if match["code"] == _INPUT else _OPERAND.sub("%", detail)
        found.append(Instruction(op, match["code"], match["shape"], detail, depth, made))
    return tuple(found)


def difference(
    old: Sequence[Instruction], new: Sequence[Instruction], rank: Rank
) -> HloChange | None:
    """Compare the HLO of two graphs; return None if one was not printed.

    What differs first is looked for in lines of the least rank: instructions that come or go, then
    shapes, then constants and attributes, then inputs.
    """
    if not old or not new:
        return None
    made = [[one for one in side if one.code != _INPUT] for side in (old, new)]
    gone, come = (_but(*sides) for sides in ((made[0], made[1]), (made[1], made[0])))
    counts = f"{len(made[1])} operations, {len(made[0])} before"
    if added := _more(come, gone):
        first = _first(added, rank)
        return HloChange(f"{counts}, {first.op} {first.shape} is new", first)
    if left := _more(gone, come):
        first = _first(left, rank)
        return HloChange(f"{counts}, {first.op} {first.shape} is gone", first)
    pairs = _pairs(gone, come)
    if reshaped := [(was, now) for was, now in pairs if was.shape != now.shape]:
        now = _first([now for _, now in reshaped], rank)
        was, now = next(pair for pair in reshaped if pair[1] is now)
        # Take the operation whose old shape was this one: it comes in now.
        was, now = next((pair for pair in reshaped if pair[0].shape == now.shape), (was, now))
        return HloChange(f"{now.op} makes {now.shape}, made {was.shape}", now)
    if pairs:
        now = _first([now for _, now in pairs], rank)
        was = next(was for was, other in pairs if other is now)
        return HloChange(_redone(was, now), now)
    return _of_inputs(old, new)


def _redone(was: Instruction, now: Instruction) -> str:
    """Say which constant, or which attribute, is another."""
    if now.code == "constant":
        return f"a constant of {now.op} is {now.detail}, was {was.detail}"
    old, new = (dict(_ATTRIBUTE.findall(one.detail)) for one in (was, now))
    name = next((name for name in new if new[name] != old.get(name)), "")
    return f"{name or 'an attribute'} of {now.op} is {new.get(name)}, was {old.get(name)}"


def _of_inputs(old: Iterable[Instruction], new: Iterable[Instruction]) -> HloChange:
    was, now = map(_inputs, (old, new))
    for gone, come in zip(was - now, now - was, strict=False):
        return HloChange(f"an input is {come}, was {gone}")
    if was != now:  # one number that two operations read is one input
        return HloChange(f"{now.total()} inputs, {was.total()} before")
    return HloChange("other results of the same operations are kept")


def _inputs(side: Iterable[Instruction]) -> Counter[str]:
    return Counter(one.shape for one in side if one.code == _INPUT)


def _what(one: Instruction) -> tuple[str, ...]:
    return one.op, one.code, one.shape, one.detail


def _kind(one: Instruction) -> tuple[str, str]:
    return one.op, one.code


def _but(side: Iterable[Instruction], other: Sequence[Instruction]) -> list[Instruction]:
    """Return the instructions of a side that the other has not, or has fewer of.

    Those that the same line made are matched first: many lines make the same constant.
    """
    spare = Counter(map(_what, other))
    lines = Counter((_what(one), one.made) for one in other)
    left = []
    for one in sorted(side, key=_order):
        if lines[_what(one), one.made]:
            lines[_what(one), one.made] -= 1
            spare[_what(one)] -= 1
        else:
            left.append(one)
    found = []
    for one in left:
        if spare[_what(one)]:
            spare[_what(one)] -= 1
        else:
            found.append(one)
    return found


def _more(side: Iterable[Instruction], other: Iterable[Instruction]) -> list[Instruction]:
    """Return the instructions of the kinds of which a side has more than the other."""
    more = Counter(map(_kind, side)) - Counter(map(_kind, other))
    return [one for one in side if more[_kind(one)]]


def _pairs(
    gone: Iterable[Instruction], come: Iterable[Instruction]
) -> list[tuple[Instruction, Instruction]]:
    """Return what was changed, before and after: of each kind, there are as many."""
    kinds: defaultdict[tuple[str, str], tuple[list[Instruction], list[Instruction]]] = defaultdict(
        lambda: ([], [])
    )
    for number, side in enumerate((gone, come)):
        for one in side:
            kinds[_kind(one)][number].append(one)
    return [pair for sides in kinds.values() for pair in zip(*sides, strict=True)]


def _order(one: Instruction) -> tuple[int | str, ...]:
    return one.depth, *_what(one)


def _first(found: Iterable[Instruction], rank: Rank) -> Instruction:
    return min(found, key=lambda one: (rank(one.made), *_order(one)))
