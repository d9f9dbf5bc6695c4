"""Compares what two runs gave: values leaf by leaf, and lines in their order.

``border`` asks for it. A value is a ``values.Flat``, the list of its leaves with their paths: a
tensor is a ``TensorLeaf``, a list also has a ``TypeName``, the name of its type. ``before`` and
``old`` are the original's, ``after`` and ``new`` the patched program's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

import torch
from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.repair.comparison import ValueDifference
from pytest_graphbreak.repair.values import (
    Flat,
    Lines,
    TensorLeaf,
    TypeName,
    leaf_text,
    structure,
)

_NOTHING: Final = "nothing"
"""The leaf of a value that has fewer of them than the other."""


class Comparer(Struct, frozen=True):
    """Compares values. Each element has its own tolerance, that of ``torch.testing`` for its dtype.

    ``factor`` widens it, for code that inductor generates: it orders additions otherwise. With
    ``drawn``, for calls with drawn inputs, a result may require gradients where that of the
    original does not.
    """

    factor: float = 1.0
    drawn: bool = False

    def difference(self, before: Flat, after: Flat, name: str = "") -> ValueDifference | None:
        """Return the first leaf that differs, or None if the values agree."""
        old_paths, new_paths = ([path for path, _ in flat] for flat in (before, after))
        if old_paths != new_paths:
            olds, news = [*old_paths, _NOTHING], [*new_paths, _NOTHING]
            # The lists differ, so they do at the end of the shorter one: ``_NOTHING`` is no path.
            pairs = enumerate(zip(olds, news, strict=False))
            at = next(place for place, (old, new) in pairs if old != new)
            before_it, after_it = dict(before), dict(after)
            values = _shown(before_it, olds[at]), _shown(after_it, news[at])
            return ValueDifference(f"{name}, its structure".removeprefix(", "), *values)
        for (path, old), (_, new) in zip(before, after, strict=True):
            if (unlike := self._unlike(old, new)) is not None:
                return replace(unlike, what=f"{name}{path}{unlike.what}".strip() or "the result")
        return None

    def _unlike(self, old: Any, new: Any) -> ValueDifference | None:
        """Return where in a leaf the first difference is, and both values."""
        if isinstance(old, TensorLeaf) and isinstance(new, TensorLeaf):
            return self._tensors(old, new)
        if isinstance(old, Lines) and isinstance(new, Lines):
            return line_difference(old, new)
        if {type(old), type(new)} == {TensorLeaf, type(None)}:
            # A gradient of a branch that was not taken is None, where both are computed zero.
            same = not (old if new is None else new).value.any()
        elif type(old) is not type(new):
            before, after = (f"{leaf_text(x)} ({_kind(x)})" for x in (old, new))
            return ValueDifference("", before, after)
        elif isinstance(old, float):
            near = math.isclose(old, new, rel_tol=1e-5 * self.factor, abs_tol=1e-6 * self.factor)
            same = near or (old != old and new != new)
        else:
            same = old == new
        return None if same else ValueDifference("", leaf_text(old), leaf_text(new))

    def _tensors(self, old: TensorLeaf, new: TensorLeaf) -> ValueDifference | None:
        """Return the first difference of two tensors: of their kind, or of an element."""
        grad = new.requires_grad
        if self.drawn and not old.requires_grad:
            grad = False  # the original may not have computed it: it took another branch
        for what, before, after in (
            ("its shape", list(old.value.shape), list(new.value.shape)),
            ("its dtype", old.value.dtype, new.value.dtype),
            ("its device", old.device, new.device),
            ("requires_grad", old.requires_grad, grad),
            ("contiguous", old.contiguous, old.contiguous and new.contiguous),
        ):
            if before != after:
                return ValueDifference(f", {what}", str(before), str(after))
        apart = ~self._close(old.value, new.value)
        if not apart.any():
            return None
        index = tuple(apart.nonzero()[0].tolist())
        at = f", element {list(index)}" if index else ""
        first, second = (repr(x.value[index].item()) for x in (old, new))
        return ValueDifference(at, first, second)

    def _close(self, old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        """Return for each element whether it is within the tolerance."""
        if not (old.is_floating_point() or old.is_complex()):
            return old == new
        wide = torch.complex128 if old.is_complex() else torch.float64
        relative, absolute = torch.testing._comparison.default_tolerances(old)
        return torch.isclose(
            new.to(wide),
            old.to(wide),
            rtol=relative * self.factor,
            atol=absolute * self.factor,
            equal_nan=True,
        )

    def is_value(self, old: Flat, new: Flat) -> bool:
        """Return whether a value is the old one, or holds its numbers in another form.

        A list ``[0.5, 1.5]`` may be the first rows of a buffer now (``same_numbers``). A value of
        the same structure is in the same form: if it differs, it is another value.
        """
        if self.difference(old, new) is None:
            return True
        has_numbers = any(_as_tensor(leaf) is not None for _, leaf in old)
        is_other_form = structure(old) != structure(new)
        return is_other_form and has_numbers and self.same_numbers(old, new)

    def value_difference(self, old: Flat, new: Flat, name: str) -> ValueDifference | None:
        """Return how a value differs that may also be in another form (``is_value``)."""
        return None if self.is_value(old, new) else self.difference(old, new, name)

    def same_numbers(self, before: Flat, after: Flat) -> bool:
        """Return whether another value holds all numbers and texts of a value, in their order.

        A number may have become a tensor, and a list a tensor of its entries, or the first rows of
        a longer one. There may be more between them: ``(3, 0.5)`` is in ``[tensor(3), 7, 0.5]``.
        """
        needed = [leaf for _, leaf in before if leaf is not None and not isinstance(leaf, TypeName)]
        # ``any`` takes candidates from the iterator up to the one that fits, so that the next
        # search goes on behind it: that keeps the order.
        candidates = iter([candidate for _, leaf in after for candidate in _candidates(leaf)])
        return all(any(self._same(old, new) for new in candidates) for old in needed)

    def _same(self, old: Any, new: Any) -> bool:
        """Return whether two leaves hold the same, also a number and a tensor of one element."""
        if isinstance(old, TensorLeaf) and isinstance(new, TensorLeaf):
            return self._unlike(old, replace(new, requires_grad=old.requires_grad)) is None
        if not isinstance(old, TensorLeaf) and not isinstance(new, TensorLeaf):
            return self._unlike(old, new) is None
        before, after = _as_tensor(old), _as_tensor(new)
        if before is None or after is None or before.numel() != after.numel():
            return False
        return self._same_in_other_type(before, after.reshape(before.shape))

    def _same_in_other_type(self, old: torch.Tensor, new: torch.Tensor) -> bool:
        """Return whether the same numbers are in a type that can hold them.

        3 may become 3.0, but 1.5 not 1, 2.0 not 2, 2 not True, and 0.1 not a float16.
        """
        if not torch.can_cast(old.dtype, new.dtype):
            return False
        cast = old.to(new.dtype)
        is_lossless = self._close(old, cast.to(old.dtype)).all()
        return bool(is_lossless and self._close(cast, new).all())


def _candidates(leaf: Any) -> Iterator[Any]:
    """Yield a leaf, and the rows of a tensor: it may hold a list."""
    yield leaf
    if isinstance(leaf, TensorLeaf) and leaf.value.dim():
        yield from (replace(leaf, value=row) for row in leaf.value.unbind(0))


def _as_tensor(leaf: Any) -> torch.Tensor | None:
    """Return the numbers of a leaf, or None for a text and an integer of more than 64 bits."""
    if isinstance(leaf, TensorLeaf):
        return leaf.value
    if isinstance(leaf, float | complex):
        return torch.tensor(leaf, dtype=torch.float64 if isinstance(leaf, float) else torch.cdouble)
    return torch.tensor(leaf) if isinstance(leaf, bool | int) and abs(leaf) < 2**63 else None


def is_equal(old: Flat, new: Flat) -> bool:
    """Return whether two values are the same, without a tolerance."""
    return Comparer(factor=0).difference(old, new) is None


def _shown(values: Mapping[str, Any], path: str) -> str:
    return f"{path} = {leaf_text(values[path])}" if path in values else _NOTHING


def _kind(leaf: Any) -> str:
    return "Tensor" if isinstance(leaf, TensorLeaf) else type(leaf).__name__


# Lines.

_NUMBER: Final = re.compile(r"0x[0-9a-f]+|(?<![\w.])-?\d+(?:\.\d*)?(?:e[+-]?\d+)?|\d+(?:\.\d*)?")
"""``0x7f3a``, ``-1.5e-05``, and behind a letter or a dot ``2`` of ``layer2``, without a sign."""
_NODE: Final = re.compile(r"grad_fn=<\w+(?: object at 0x[0-9a-f]+)?>")
"""The node of autograd that made a printed tensor: compiled code and a copy have another."""
_MOST: Final = 1e-3
"""Relative: the last digit of a number may be rounded otherwise, but hides no more than this."""
_CLOSE: Final = 1e-5
"""Relative: numbers of many digits may differ by this, as values do (``Comparer``)."""
_LEAST: Final = 1e-6
"""Absolute, for numbers near zero."""


def line_difference(before: Sequence[str], after: Sequence[str]) -> ValueDifference | None:
    """Return the first line that differs: which one, and both."""
    pairs = zip_longest(_not_blank(before), _not_blank(after))
    for number, (old, new) in enumerate(pairs, 1):
        if old is None or new is None or not same_text(old, new):
            first, second = ("no such line" if x is None else repr(x[:80]) for x in (old, new))
            return ValueDifference(f", line {number}", first, second)
    return None


def same_text(old: str, new: str) -> bool:
    """Return whether two texts differ in the last digits of numbers at most."""
    if without_numbers(old) != without_numbers(new):
        return False
    pairs = zip(*(_NUMBER.findall(_plain(line)) for line in (old, new)), strict=True)
    return all(_close_numbers(first, second) for first, second in pairs)


def unsteady_lines(before: Sequence[str], after: Sequence[str]) -> set[str]:
    """Return the texts of lines that are not the same in two runs of one program.

    ``{"# s"}`` of ``0.31 s`` and ``0.45 s``: numbers are left out of the text.
    """
    pairs = zip_longest(_not_blank(before), _not_blank(after))
    unlike = [pair for pair in pairs if None in pair or not same_text(*pair)]
    return {without_numbers(line) for pair in unlike for line in pair if line is not None}


def without_lines(lines: Iterable[str], texts: set[str]) -> list[str]:
    """Return lines without those that read like one of the texts, but for their numbers."""
    return [line for line in lines if without_numbers(line) not in texts]


def _not_blank(lines: Iterable[str]) -> list[str]:
    return [line for line in lines if line.strip()]


def without_numbers(line: str) -> str:
    """Return a line with ``#`` for each number: ``step # of layer#``."""
    return _NUMBER.sub("#", _plain(line))


def _plain(line: str) -> str:
    """Return a line without the names of nodes of autograd."""
    return _NODE.sub("grad_fn=<>", line)


def _close_numbers(old: str, new: str) -> bool:
    """Return whether two numbers in lines are the same, but for rounding; addresses always are."""
    if old == new:
        return True
    if old.startswith("0x") or new.startswith("0x"):
        return old.startswith("0x") and new.startswith("0x")
    if not (_is_float(old) and _is_float(new)):
        return False
    first, second = float(old), float(new)
    size = max(abs(first), abs(second))
    last = max(map(_last_place, (old, new)))
    # 1.4467 and 1.4468: the last digit counts 0.0001, which is less than _MOST * 1.4468, so they
    # are close. 0.5 and 0.6 are not: of the last digit, 0.1, no more than _MOST * 0.6 is allowed.
    # 1.01: the difference of two decimals may be a little more than the last digit counts.
    return abs(first - second) <= 1.01 * max(min(last, _MOST * size), _CLOSE * size, _LEAST)


def _is_float(number: str) -> bool:
    return "." in number or "e" in number


def _last_place(number: str) -> float:
    """Return what the last digit counts: 0.01 in ``1.25``."""
    digits, _, power = number.partition("e")
    return float(10.0 ** (int(power or 0) - len(digits.partition(".")[2])))
