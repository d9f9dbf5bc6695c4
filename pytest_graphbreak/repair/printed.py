"""Compares the lines that two runs print or log: in their order, numbers as close as values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Final

_NUMBER: Final = re.compile(r"0x[0-9a-f]+|(?<![\w.])-?\d+(?:\.\d*)?(?:e[+-]?\d+)?|\d+(?:\.\d*)?")
_NODE: Final = re.compile(r"grad_fn=<\w+(?: object at 0x[0-9a-f]+)?>")
"""The node of autograd that made a printed tensor: compiled code and a copy have another."""
_MOST: Final = 1e-3
"""Relative: the last digit of a number may be rounded otherwise, but hides no more than this."""
_CLOSE: Final = 1e-5
_SMALL: Final = 1e-6
_NO_LINE: Final = "no such line"


class Lines(tuple[str, ...]):
    """The lines that one run, or one call, wrote to one stream."""

    __slots__ = ()


def difference(before: Sequence[str], after: Sequence[str]) -> tuple[str, str, str] | None:
    """Return the first line that differs: which one, and both."""
    pairs = zip_longest(_shown(before), _shown(after))
    for number, (old, new) in enumerate(pairs, 1):
        if old is None or new is None or not same(old, new):
            return f", line {number}", _quoted(old), _quoted(new)
    return None


def _quoted(line: str | None) -> str:
    return _NO_LINE if line is None else repr(line[:80])


def same(old: str, new: str) -> bool:
    """Return whether two texts differ in the last digits of numbers at most."""
    if _text(old) != _text(new):
        return False
    pairs = zip(*(_NUMBER.findall(_plain(line)) for line in (old, new)), strict=True)
    return all(_close(first, second) for first, second in pairs)


def unsteady(before: Sequence[str], after: Sequence[str]) -> set[str]:
    """Return the texts of lines that are not the same in two runs of one program."""
    pairs = zip_longest(_shown(before), _shown(after))
    unlike = [pair for pair in pairs if None in pair or not same(*pair)]
    return {_text(line) for pair in unlike for line in pair if line is not None}


def without(lines: Iterable[str], texts: set[str]) -> list[str]:
    return [line for line in lines if _text(line) not in texts]


def without_numbers(lines: Iterable[str]) -> list[str]:
    return [_text(line) for line in lines]


def _shown(lines: Iterable[str]) -> list[str]:
    return [line for line in lines if line.strip()]


def _text(line: str) -> str:
    """Return a line with ``#`` for each number."""
    return _NUMBER.sub("#", _plain(line))


def _plain(line: str) -> str:
    return _NODE.sub("grad_fn=<>", line)


def _close(old: str, new: str) -> bool:
    if old == new:
        return True
    if old.startswith("0x") or new.startswith("0x"):
        return old.startswith("0x") and new.startswith("0x")
    if not (_is_float(old) and _is_float(new)):
        return False
    first, second = float(old), float(new)
    size = max(abs(first), abs(second))
    last = max(map(_last_place, (old, new)))
    return abs(first - second) <= 1.01 * max(min(last, _MOST * size), _CLOSE * size, _SMALL)


def _is_float(number: str) -> bool:
    return "." in number or "e" in number


def _last_place(number: str) -> float:
    """Return what the last digit counts: 0.01 in ``1.25``."""
    digits, _, power = number.partition("e")
    return float(10.0 ** (int(power or 0) - len(digits.partition(".")[2])))
