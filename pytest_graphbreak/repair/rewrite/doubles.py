"""Computes with Python numbers that became tensors as Python does: in double, beside any tensor.

Torch takes ``n * 0.1`` for float32 if ``n`` is a tensor of an integer. And a double without
dimensions makes a double of a float32 tensor without dimensions, which a Python number does not.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final

from pytest_graphbreak.repair.rewrite.kinds import kind
from pytest_graphbreak.repair.rewrite.scope import values, walk

_NUMBER: Final = "_number"
HELPER: Final = (
    f"def {_NUMBER}(value, other=None):  # it widens no tensor without dimensions",
    "    wide = isinstance(other, torch.Tensor) and other.dim() and other.is_floating_point()",
    "    return value if wide or not isinstance(value, torch.Tensor) else value.item()",
)
_SIMPLE: Final = (ast.Name, ast.Attribute)
_DIVIDES: Final = (ast.Div, ast.FloorDiv, ast.Mod)
_DIVISOR: Final = (
    "torch.as_tensor({0}).reshape(1)[(torch.as_tensor({0}) == 0).long().reshape(1)][0]"
)
"""A number, or an IndexError for zero: by that Python's numbers do not divide."""
_ORDERS: Final = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)


def types(
    body: Sequence[ast.stmt], numbers: Mapping[str, str], inner: Collection[str]
) -> dict[str, str]:
    """Return the numbers of a loop with ``int`` or ``float``, also those local to it."""
    found = dict(numbers)
    steps = [(name, value) for name, value in values(body) if name in inner and value is not None]
    for _ in steps:
        kinds = AsPython(found, (), {}, ())
        each = [(name, kinds.type(value)) for name, value in steps]
        found |= {name: one for name, one in each if one == "int" and name not in found}
        found |= {name: one for name, one in each if one == "float" and name not in numbers}
    return found


def counters(
    body: Sequence[ast.stmt], before: Mapping[str, ast.expr | None], kinds: Mapping[str, str]
) -> dict[str, int]:
    """Return the integers that begin as a constant of zero or more and only get larger."""
    steps: dict[str, list[ast.expr | None]] = {}
    for node in walk(body):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            added = node.value if isinstance(node.op, ast.Add) else None
            steps.setdefault(node.target.id, []).append(added)
    for name, value in values(body):
        added = value.right if isinstance(value, ast.BinOp) else None
        same = isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add)
        same = same and isinstance(value, ast.BinOp) and ast.unparse(value.left) == name
        steps.setdefault(name, []).append(added if same else None)
    return {
        name: start
        for name, value in before.items()
        if kinds.get(name) == "int" and (start := _least(value)) is not None
        if all(_least(one) is not None for one in steps.get(name, ()))
    }


def _least(value: ast.expr | None) -> int | None:
    """Return a constant of zero or more, else None."""
    number = value.value if isinstance(value, ast.Constant) else None
    return number if isinstance(number, int) and number >= 0 else None


class AsPython(ast.NodeTransformer):
    """Makes doubles of integers where Python computes in double.

    ``kinds`` are the numbers of the loop with their types, ``carried`` those of these that are
    tensors in all of it. ``fixed`` are numbers that stay numbers, and ``tensors`` the names that
    hold tensors for sure. ``counts`` are integers that only get larger, with the first of them.
    """

    def __init__(
        self,
        kinds: Mapping[str, str],
        carried: Collection[str],
        fixed: Mapping[str, str],
        tensors: Collection[str],
        counts: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._kinds = kinds
        self._carried = carried
        self._fixed = fixed
        self._tensors = tensors
        self._counts = counts
        self._alone = False
        self._tests = False
        self.used = False

    def type(self, node: ast.expr) -> str | None:
        """Return ``int`` or ``float`` for an expression of numbers, None for another."""
        if isinstance(node, ast.Name):
            return self._kinds.get(node.id) or self._fixed.get(node.id)
        if isinstance(node, ast.UnaryOp):
            return self.type(node.operand)
        if isinstance(node, ast.IfExp):
            return self._joined([node.body, node.orelse])
        if isinstance(node, ast.BinOp):
            below = isinstance(node.op, ast.Pow) and isinstance(node.right, ast.UnaryOp)
            both = self._joined([node.left, node.right])
            return "float" if both and (isinstance(node.op, ast.Div) or below) else both
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("abs", "max", "min"):
            return self._joined(node.args)
        return kind(node)

    def test(self, node: ast.expr) -> ast.expr:
        """Return a test, which becomes an op."""
        with self._as(tests=True):
            found = self.visit(node)
            assert isinstance(found, ast.expr)
            return found

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        name = node.targets[0].id if isinstance(node.targets[0], ast.Name) else ""
        with self._as(alone=name in self._kinds):
            self.generic_visit(node)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        known = self.type(node.value)
        self.generic_visit(node)
        if known and isinstance(node.target, ast.Name):
            node.value = self._beside(node.value, known, node.target)
        return node

    def visit_If(self, node: ast.If) -> ast.stmt:
        node.test = self.test(node.test)
        node.body = [self.visit(one) for one in node.body]
        node.orelse = [self.visit(one) for one in node.orelse]
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        node.test = self.test(node.test)
        node.body, node.orelse = self.visit(node.body), self.visit(node.orelse)
        return node

    def visit_While(self, node: ast.While) -> ast.stmt:
        node.test = self.test(node.test)
        node.body = [self.visit(one) for one in node.body]
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        node.value = self.visit(node.value)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        wanted = self.type(node)
        zero = wanted and isinstance(node.op, _DIVIDES) and not self._from(node.right)
        node.left, node.right = self._pair(node.left, node.right, wanted)
        if zero and self._varies(node.right):
            text = _DIVISOR.format(ast.unparse(node.right))
            node.right = ast.copy_location(ast.parse(text, mode="eval").body, node.right)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        if len(node.comparators) == 1 and isinstance(node.ops[0], _ORDERS):
            (other,) = node.comparators
            wanted = self._joined([node.left, other])
            node.left, other = self._pair(node.left, other, wanted)
            node.comparators = [other]
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        called = ast.unparse(node.func)
        known = self._joined(node.args) if called in ("max", "min") else None
        each = [self.type(one) for one in node.args]
        self.generic_visit(node)
        if called == "float" and each == ["int"]:
            return self._double(node.args[0])
        if known == "float":
            pairs = zip(node.args, each, strict=True)
            node.args = [self._double(one) if type_ == "int" else one for one, type_ in pairs]
        return node

    def _pair(
        self, left: ast.expr, right: ast.expr, wanted: str | None
    ) -> tuple[ast.expr, ast.expr]:
        """Return the sides of an operator whose result is of a type, or a tensor if it is None."""
        first, second = self.type(left), self.type(right)
        one, other = self.visit(left), self.visit(right)
        if wanted == "float":
            one = self._double(one) if first == "int" else one
            other = self._double(other) if second == "int" else other
        elif first and not second:
            one = self._beside(one, first, right)
        elif second and not first:
            other = self._beside(other, second, left)
        return one, other

    def _from(self, node: ast.expr) -> int | None:
        """Return what an expression of constants and counters is at least, or None."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            first, second = self._from(node.left), self._from(node.right)
            return None if first is None or second is None else first + second
        return self._counts.get(node.id) if isinstance(node, ast.Name) else _least(node)

    def _double(self, node: ast.expr) -> ast.expr:
        """Return an integer as a double, if it is a tensor."""
        if not self._varies(node):
            return node
        text = f"torch.as_tensor({ast.unparse(node)}, dtype=torch.float64)"
        if isinstance(node, ast.Name) and node.id in self._carried:
            text = f"{node.id}.double()"
        return ast.copy_location(ast.parse(text, mode="eval").body, node)

    def _beside(self, node: ast.expr, known: str, other: ast.expr) -> ast.expr:
        """Return a number beside what may be a tensor or another number."""
        sure = isinstance(other, ast.Name) and other.id in self._tensors
        if not self._varies(node) or self._alone or (known == "int" and sure):
            return node
        text, beside = ast.unparse(node), ast.unparse(other)
        simple = isinstance(other, _SIMPLE)
        if known == "int":
            if not simple:
                return node
            number = ast.unparse(self._double(node)) if self._tests else f"{_NUMBER}({text})"
            made = f"({text} if isinstance({beside}, torch.Tensor) else {number})"
        elif self._tests and not (sure or (_computes(other) and not simple)):
            return node
        else:
            made = f"{_NUMBER}({text}, {beside})" if simple else f"{_NUMBER}({text})"
        self.used = self.used or _NUMBER in made
        return ast.copy_location(ast.parse(made, mode="eval").body, node)

    def _joined(self, nodes: Sequence[ast.expr]) -> str | None:
        found = {self.type(one) for one in nodes}
        return None if None in found or not found else "float" if "float" in found else "int"

    def _varies(self, node: ast.expr) -> bool:
        return any(isinstance(one, ast.Name) and one.id in self._kinds for one in walk([node]))

    @contextmanager
    def _as(self, *, alone: bool | None = None, tests: bool | None = None) -> Iterator[None]:
        before = self._alone, self._tests
        self._alone = before[0] if alone is None else alone
        self._tests = before[1] if tests is None else tests
        yield
        self._alone, self._tests = before


def _computes(node: ast.expr) -> bool:
    """Return whether an expression calls a method or a function of a module: ``x.sum()``."""
    calls = (one for one in walk([node]) if isinstance(one, ast.Call))
    return any(isinstance(one.func, ast.Attribute) for one in calls)
