"""Compares the lines that two runs print or log: in any order, numbers as close as values."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

_NUMBER = re.compile(r"0x[0-9a-f]+|\d+(?:\.\d*)?(?:e[+-]?\d+)?")
_NODE = re.compile(r"grad_fn=<\w+(?: object at 0x[0-9a-f]+)?>")
"""The node of autograd that made a printed tensor: compiled code and a copy have another."""
_CLOSE = 1e-3
"""Relative: a line shows some digits, and the last of them may be rounded otherwise."""


class Lines(tuple[str, ...]):
    """The lines that one run, or one call, wrote."""

    __slots__ = ()


def difference(
    before: Sequence[str], after: Sequence[str], *, dropped: bool = False, numbers: bool = True
) -> str | None:
    """Return the first line of one run that the other does not write, or None.

    With ``dropped`` the second may lack lines, but has none of its own. Without ``numbers`` only
    the text counts.
    """
    old, new = _by_text(before), _by_text(after)
    for text, lines in new.items():
        if len(lines) > len(old.get(text, ())):
            return f"it prints {lines[0][:80]!r}, which the original does not"
    for text, lines in old.items():
        if len(lines) > len(new.get(text, ())) and not dropped:
            return f"it no longer prints {lines[0][:80]!r}"
    for text in new if numbers else ():
        if words := _numbers(old[text], new[text]):
            return words
    return None


def unsteady(before: Iterable[str], after: Iterable[str]) -> set[str]:
    """Return the texts of lines whose numbers, or which themselves, differ between two runs."""
    old, new = _by_text(before), _by_text(after)
    return {
        text
        for text in {*old, *new}
        if len(old.get(text, ())) != len(new.get(text, ())) or _numbers(old[text], new[text])
    }


def without(lines: Iterable[str], texts: set[str]) -> list[str]:
    return [line for line in lines if _text(line) not in texts]


def _text(line: str) -> str:
    return _NUMBER.sub("#", _plain(line))


def _plain(line: str) -> str:
    return _NODE.sub("grad_fn=<>", line)


def _by_text(lines: Iterable[str]) -> dict[str, list[str]]:
    """Return the lines by their text with ``#`` for each number."""
    texts: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        if line.strip():
            texts[_text(line)].append(line)
    return dict(texts)


def _numbers(before: Sequence[str], after: Sequence[str]) -> str | None:
    """Return which number differs in lines of the same text, as they follow each other."""
    for old, new in zip(before, after, strict=False):
        pairs = zip(*(_NUMBER.findall(_plain(line)) for line in (old, new)), strict=True)
        if not all(_close(first, second) for first, second in pairs):
            return f"it prints {new[:80]!r} where the original prints {old[:80]!r}"
    return None


def _close(old: str, new: str) -> bool:
    if old.startswith("0x") or new.startswith("0x"):
        return old.startswith("0x") and new.startswith("0x")
    integers = "." not in old and "." not in new
    return old == new or (
        not integers and math.isclose(float(old), float(new), rel_tol=_CLOSE, abs_tol=1e-4)
    )
