"""Tensors of integers that code works out from a few numbers, as functions of their index.

``torch.arange(h).repeat_interleave(w)`` has ``h * w`` elements, and at ``i`` it is ``i // w``. With
that, the numbers may be tensors: one expression gives the elements for all of them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Final

from pytest_graphbreak.repair.rewrite.scope import UnfitError

Index = tuple[ast.expr, ...]
ZERO: Final[ast.expr] = ast.Constant(0)
ONE: Final[ast.expr] = ast.Constant(1)


@dataclass(frozen=True, slots=True)
class Term:
    """A tensor: its sizes, how many elements it has, and the element at an index."""

    sizes: Index
    count: ast.expr
    at: Callable[[Index], ast.expr]


def operation(left: ast.expr, sign: ast.operator, right: ast.expr) -> ast.expr:
    """Return an operation of two numbers; none with a 0 or a 1 that changes nothing."""
    first, second = (getattr(one, "value", None) for one in (left, right))
    plus, times = isinstance(sign, ast.Add), isinstance(sign, ast.Mult)
    if (plus and first == 0) or (times and first == 1):
        return right
    if (isinstance(sign, ast.Add | ast.Sub) and second == 0) or (
        isinstance(sign, ast.Mult | ast.FloorDiv) and second == 1
    ):
        return left
    return ast.BinOp(left, sign, right)


def product(numbers: Sequence[ast.expr]) -> ast.expr:
    return reduce(lambda one, other: operation(one, ast.Mult(), other), numbers, ONE)


def factors(node: ast.expr) -> list[str]:
    """Return the factors of a product as text, sorted: two products with the same are equal."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return sorted(factors(node.left) + factors(node.right))
    return [ast.unparse(node)]


@dataclass(slots=True)
class Terms:
    """Makes tensors of others. ``lines`` holds what their elements need, each only once.

    ``positive`` are the numbers that must not be negative, ``divisors`` those that must not be
    zero, ``equal`` the pairs that have to agree.
    """

    lines: dict[str, str] = field(default_factory=dict)
    positive: list[ast.expr] = field(default_factory=list)
    divisors: list[ast.expr] = field(default_factory=list)
    equal: list[tuple[ast.expr, ast.expr]] = field(default_factory=list)

    def named(self, node: ast.expr) -> ast.expr:
        """Return the name of a value, which gets a line of its own."""
        if isinstance(node, ast.Name | ast.Constant):
            return node
        text = ast.unparse(node)
        return ast.Name(self.lines.setdefault(text, f"_{len(self.lines) + 1}"))

    def checks(self) -> Iterator[ast.Compare]:
        """Yield what has to hold for the numbers, each once."""
        known = {ast.unparse(one) for one in self.positive}
        found = [ast.Compare(one, [ast.GtE()], [ZERO]) for one in self.positive if _new(one, known)]
        found += [ast.Compare(one, [ast.NotEq()], [ZERO]) for one in self.divisors]
        found += [ast.Compare(one, [ast.Eq()], [other]) for one, other in self.equal]
        yield from {ast.unparse(one): one for one in found}.values()

    def arange(self, start: ast.expr, end: ast.expr) -> Term:
        size = operation(end, ast.Sub(), start)
        self.positive.append(size)
        return Term((size,), size, lambda index: operation(start, ast.Add(), index[0]))

    def meshgrid(self, axes: Sequence[Term]) -> tuple[Term, ...]:
        """Return ``torch.meshgrid(axes, indexing="ij")``. Raises ``UnfitError``."""
        if any(len(one.sizes) != 1 for one in axes):
            raise UnfitError("an axis of the grid has several dimensions")
        sizes = tuple(one.sizes[0] for one in axes)

        def along(number: int) -> Callable[[Index], ast.expr]:
            return lambda index: axes[number].at((index[number],))

        return tuple(Term(sizes, product(sizes), along(number)) for number in range(len(axes)))

    def flatten(self, term: Term) -> Term:
        return Term((term.count,), term.count, lambda index: term.at(self._unravel(index, term)))

    def reshape(self, term: Term, sizes: Index) -> Term:
        count = product(sizes)
        self.positive += sizes
        if factors(count) != factors(term.count):
            self.equal.append((count, term.count))
        flat = self.flatten(term)
        return Term(sizes, term.count, lambda index: flat.at((self._ravel(index, sizes),)))

    def permute(self, term: Term, order: Sequence[int]) -> Term:
        """Return ``term.permute(order)``. Raises ``UnfitError``."""
        if sorted(order) != list(range(len(term.sizes))):
            raise UnfitError("the dimensions are not in another order")
        back = [order.index(number) for number in range(len(order))]
        sizes = tuple(term.sizes[one] for one in order)
        return Term(sizes, term.count, lambda index: term.at(tuple(index[one] for one in back)))

    def repeat(self, term: Term, times: Index) -> Term:
        """Return ``term.repeat(times)``. Raises ``UnfitError``."""
        if len(times) != len(term.sizes):
            raise UnfitError("repeat adds a dimension")
        self.positive += times

        def at(index: Index) -> ast.expr:
            found = zip(index, term.sizes, times, strict=True)
            return term.at(tuple(self._modulo(one, size, often) for one, size, often in found))

        sizes = tuple(map(_times, term.sizes, times))
        return Term(sizes, product([term.count, *times]), at)

    def repeat_interleave(self, term: Term, often: ast.expr) -> Term:
        """Return ``term.repeat_interleave(often)``. Raises ``UnfitError``."""
        if len(term.sizes) != 1:
            raise UnfitError("repeat_interleave of several dimensions")
        self.positive.append(often)
        size = _times(term.sizes[0], often)
        return Term(
            (size,),
            size,
            lambda index: term.at((self.named(operation(index[0], ast.FloorDiv(), often)),)),
        )

    def _modulo(self, index: ast.expr, size: ast.expr, often: ast.expr) -> ast.expr:
        once = isinstance(often, ast.Constant) and often.value == 1
        return index if once else self.named(operation(index, ast.Mod(), size))

    def _ravel(self, index: Index, sizes: Index) -> ast.expr:
        """Return the place in the flat tensor of an index."""
        flat: ast.expr = ZERO
        for one, size in zip(index, sizes, strict=True):
            flat = operation(_times(flat, size) if flat is not ZERO else ZERO, ast.Add(), one)
        return self.named(flat)

    def _unravel(self, index: Index, term: Term) -> Index:
        """Return the index of a place in the flat tensor."""
        flat, found = index[0], list[ast.expr]()
        for size in term.sizes[:0:-1]:
            found.insert(0, self.named(operation(flat, ast.Mod(), size)))
            flat = self.named(operation(flat, ast.FloorDiv(), size))
        return (flat, *found)


def _times(left: ast.expr, right: ast.expr) -> ast.expr:
    return operation(left, ast.Mult(), right)


def _new(node: ast.expr, known: set[str]) -> bool:
    """Return whether a number is no product of numbers that are checked, and no constant."""
    parts = factors(node)
    return not isinstance(node, ast.Constant) and (len(parts) == 1 or not set(parts) <= known)
