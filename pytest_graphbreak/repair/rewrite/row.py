"""Reads the body of a loop over rows: which indices it works out from the numbers of a row."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pytest_graphbreak.repair.rewrite.scope import UnfitError
from pytest_graphbreak.repair.rewrite.terms import ZERO, Term, Terms, factors, operation


@dataclass(frozen=True, slots=True)
class Table:
    """``torch.stack(columns, dim=-1)``; all columns have the same sizes."""

    columns: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class EitherTerm:
    """One of two values, by a test that is the same for all rows."""

    test: ast.expr
    values: tuple[Appended, Appended]


Appended = Term | Table | EitherTerm
Value = ast.expr | Appended | tuple["Value", ...]

_ARITHMETIC: Final = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)
_OUTER: Final = (
    *(ast.Name, ast.Attribute, ast.Constant, ast.BinOp, ast.operator, ast.expr_context),
    *(ast.UnaryOp, ast.USub),
)


@dataclass(slots=True)
class RowBody:
    """``space`` holds values by name, first the numbers of a row, each as its own name.

    ``outside`` are the names that it reads of what is around the loop. ``count`` is how many
    indices a row appends, None until that is known; ``device`` where the program makes them, ""
    until it makes some.
    """

    space: dict[str, Value]
    terms: Terms = field(default_factory=Terms)
    outside: set[str] = field(default_factory=set)
    count: ast.expr | None = None
    device: str = ""

    def appended(self, body: Sequence[ast.stmt]) -> tuple[str, Appended]:
        """Return the list that statements append to, and what they append. Raises."""
        *before, last = body
        for one in before:
            if not isinstance(one, ast.Assign) or len(one.targets) != 1:
                raise UnfitError(f"`{ast.unparse(one)[:60]}` does more than work out an index")
            self._set(one.targets[0], self.value(one.value))
        if isinstance(last, ast.If):
            return self._chosen(last)
        call = last.value if isinstance(last, ast.Expr) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            raise UnfitError("the loop does not end with what it appends")
        name = call.func.value
        if call.func.attr != "append" or not isinstance(name, ast.Name) or len(call.args) != 1:
            raise UnfitError("the loop does not end with what it appends")
        return name.id, self._ended(self.value(call.args[0]))

    def _chosen(self, node: ast.If) -> tuple[str, Appended]:
        if not node.orelse or not self._outer(node.test):
            raise UnfitError("a branch in the loop depends on the row")
        found = []
        for body in (node.body, node.orelse):
            branch = replace(self, space=dict(self.space))
            found.append(branch.appended(body))
            self.count, self.device = branch.count, branch.device
        (name, one), (other, two) = found
        if name != other:
            raise UnfitError("the branches append to different lists")
        return name, EitherTerm(node.test, (one, two))

    def _ended(self, value: Value) -> Appended:
        columns = value.columns if isinstance(value, Table) else (value,)
        first = columns[0]
        if not isinstance(first, Term) or len(first.sizes) != 1 or not self.device:
            raise UnfitError("what a row appends is no list of indices")
        if self.count is not None and factors(self.count) != factors(first.count):
            raise UnfitError("the branches append different numbers of indices")
        self.count = self.count or first.count
        return value if isinstance(value, Table) else first

    def _set(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            if target.id in self.outside:
                raise UnfitError(f"{target.id} is carried from row to row")
            self.space[target.id] = value
        elif isinstance(target, ast.Tuple) and isinstance(value, tuple):
            if len(target.elts) != len(value):
                raise UnfitError("names and values do not match")
            for one, each in zip(target.elts, value, strict=True):
                self._set(one, each)
        else:
            raise UnfitError(f"`{ast.unparse(target)}` is no name")

    def _outer(self, node: ast.expr) -> bool:
        """Return whether an expression is of plain names from outside of the loop."""
        parts = list(ast.walk(node))
        names = {one.id for one in parts if isinstance(one, ast.Name)}
        plain = all(isinstance(one, _OUTER) for one in parts)
        fits = plain and not names & self.space.keys()
        self.outside |= names if fits else set()
        return fits

    def value(self, node: ast.expr) -> Value:
        """Return the value of an expression. Raises ``UnfitError``."""
        if isinstance(node, ast.Name) and node.id in self.space:
            return self.space[node.id]
        if self._outer(node):
            return node
        if isinstance(node, ast.Tuple | ast.List):
            return tuple(map(self.value, node.elts))
        if isinstance(node, ast.BinOp) and isinstance(node.op, _ARITHMETIC):
            return self._operation(self.value(node.left), node.op, self.value(node.right))
        if isinstance(node, ast.Call):
            return self._call(node)
        raise UnfitError(f"`{ast.unparse(node)[:60]}` is no index")

    def _operation(self, left: Value, sign: ast.operator, right: Value) -> Value:
        if isinstance(sign, ast.FloorDiv | ast.Mod) and isinstance(right, ast.expr):
            self.terms.divisors.append(right)
        if isinstance(left, ast.expr) and isinstance(right, ast.expr):
            return operation(left, sign, right)
        if isinstance(left, Term) and isinstance(right, ast.expr):
            return replace(left, at=lambda index: operation(left.at(index), sign, right))
        if isinstance(left, ast.expr) and isinstance(right, Term):
            return replace(right, at=lambda index: operation(left, sign, right.at(index)))
        raise UnfitError("two tensors are added")

    def _call(self, node: ast.Call) -> Value:
        name = ast.unparse(node.func)
        named = {one.arg or "**": one.value for one in node.keywords}
        if name == "int" and len(node.args) == 1 and not named:
            return self._int(node.args[0])
        given = [self.value(one) for one in node.args]
        if name == "torch.arange":
            return self._arange(given, named)
        texts = {key: ast.unparse(one) for key, one in named.items()}
        if name == "torch.meshgrid" and texts == {"indexing": "'ij'"}:
            return self.terms.meshgrid([_term(one) for one in given])
        if name == "torch.stack" and len(given) == 1 and texts == {"dim": "-1"}:
            columns = given[0] if isinstance(given[0], tuple) else ()
            return self._table([_term(one) for one in columns])
        if isinstance(node.func, ast.Attribute) and not named:
            return self._method(self.value(node.func.value), node.func.attr, given)
        raise UnfitError(f"`{ast.unparse(node)[:60]}` is no index")

    def _int(self, node: ast.expr) -> Value:
        """Return ``int(t)``, or ``(t > 1).long()``: it is 0 or 1."""
        if not isinstance(node, ast.Compare):
            return _number(self.value(node))
        sides = [_number(self.value(one)) for one in (node.left, *node.comparators)]
        if len(sides) != 2 or not isinstance(node.ops[0], ast.Gt | ast.GtE | ast.Lt | ast.LtE):
            raise UnfitError("a number is compared in another way than with <, <=, > or >=")
        test = ast.Compare(sides[0], node.ops, sides[1:])
        return ast.Call(ast.Attribute(test, "long"), [], [])

    def _arange(self, given: Sequence[Value], named: dict[str, ast.expr]) -> Term:
        dtype = ast.unparse(named.pop("dtype", ast.Constant(None)))
        device = ast.unparse(named.pop("device", ast.Constant(None)))
        if named or dtype not in ("None", "torch.long", "torch.int64") or not 0 < len(given) < 3:
            raise UnfitError("torch.arange has other arguments than numbers and a device")
        if device == "None" or self.device not in ("", device):
            raise UnfitError("the device of torch.arange is not given, or another in each call")
        self.device = device
        *start, end = map(_number, given)
        return self.terms.arange(start[0] if start else ZERO, end)

    def _table(self, columns: Sequence[Term]) -> Table:
        sizes = [[factors(size) for size in one.sizes] for one in columns]
        if not sizes or any(one != sizes[0] for one in sizes):
            raise UnfitError("the columns have different sizes")
        return Table(tuple(columns))

    def _method(self, value: Value, name: str, given: Sequence[Value]) -> Value:
        if isinstance(value, Table):
            *times, last = _numbers(given) or (ZERO,)
            if name != "repeat" or ast.unparse(last) != "1":
                raise UnfitError(f".{name} of columns")
            return Table(tuple(self.terms.repeat(one, tuple(times)) for one in value.columns))
        term, numbers = _term(value), _numbers(given)
        calls: dict[str, Callable[[], Term]] = {
            "flatten": lambda: self._flat(term, numbers),
            "reshape": lambda: self._flat(term, numbers),
            "view": lambda: self._flat(term, numbers),
            "transpose": lambda: self.terms.permute(term, _swapped(term, _constants(numbers))),
            "permute": lambda: self.terms.permute(term, _constants(numbers)),
            "repeat": lambda: self.terms.repeat(term, numbers),
            "repeat_interleave": lambda: self._interleaved(term, numbers),
        }
        if name not in calls:
            raise UnfitError(f".{name} of indices")
        return calls[name]()

    def _flat(self, term: Term, sizes: tuple[ast.expr, ...]) -> Term:
        if not sizes or [ast.unparse(one) for one in sizes] == ["-1"]:
            return self.terms.flatten(term)
        if any(ast.unparse(one) == "-1" for one in sizes):
            raise UnfitError("a size is left to be worked out")
        return self.terms.reshape(term, sizes)

    def _interleaved(self, term: Term, numbers: tuple[ast.expr, ...]) -> Term:
        if len(numbers) != 1:
            raise UnfitError("repeat_interleave along a dimension")
        return self.terms.repeat_interleave(term, numbers[0])


def _term(value: Value) -> Term:
    if not isinstance(value, Term):
        raise UnfitError("a tensor is made of something else than indices")
    return value


def _number(value: Value) -> ast.expr:
    if not isinstance(value, ast.expr):
        raise UnfitError("a number is expected in place of a tensor")
    return value


def _numbers(given: Sequence[Value]) -> tuple[ast.expr, ...]:
    """Return sizes, which are given one by one or as a tuple."""
    only = given[0] if len(given) == 1 else given
    return tuple(map(_number, only if isinstance(only, tuple | list) else given))


def _constants(numbers: Sequence[ast.expr]) -> list[int]:
    values = [getattr(one, "value", None) for one in numbers]
    if not all(isinstance(one, int) and one >= 0 for one in values):
        raise UnfitError("a dimension is no constant")
    return [one for one in values if isinstance(one, int)]


def _swapped(term: Term, dims: Sequence[int]) -> list[int]:
    order = list(range(len(term.sizes)))
    if len(dims) != 2 or max(dims) >= len(order):
        raise UnfitError("transpose takes two dimensions")
    one, two = dims
    order[one], order[two] = two, one
    return order
