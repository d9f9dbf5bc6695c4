"""Rewrites a tensor that gets longer in each round of a loop as one of a fixed size.

``ids = torch.cat([ids, new], dim=1)`` has another size in each round, which ``torch.while_loop``
refuses. If the loop says how often it runs at most, the tensor has room for all of them from the
start; each round fills one place, and what stayed empty is cut off behind the loop.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from pytest_graphbreak.repair.rewrite.scope import Surroundings, UnfitError, values, walk

_CATS: Final = ("torch.cat", "torch.concat", "torch.concatenate")
_LAST: Final = "torch.where({used} >= {at}, {used} - {at}, -1 - {name}.shape[{dim}]).reshape(1)"
"""The place of what came last; outside of the tensor if nothing came yet, which is an IndexError.

Python raises the same for ``ids[-1]``, and for ``ids[-2]`` after one. For ``ids[-1:]`` it gives an
empty tensor: another size.
"""


@dataclass(frozen=True, slots=True)
class Between:
    """A loop in another form, with the lines that this needs before and behind it."""

    loop: ast.For | ast.While
    place: Surroundings
    head: list[str]
    behind: list[str]


def grown(node: ast.stmt, place: Surroundings) -> Between | None:
    """Return a loop in which tensors get longer with tensors of a fixed size, or None for others.

    Raises ``UnfitError`` if it does more with them than add to them and read what came last, or if
    nothing says how often it runs.
    """
    if not isinstance(node, ast.For | ast.While):
        return None
    found = {name: part for name, part in map(_added, walk(node.body)) if part is not None}
    if not found:
        return None
    times = Counter(name for name, part in map(_added, walk(node.body)) if part is not None)
    loop, rounds = copy.deepcopy(node), _most(node, place, found)
    head: list[str] = []
    behind: list[str] = []
    for name, (call, dim) in found.items():
        if rounds is None:
            text = ast.unparse(call)[:60]
            raise UnfitError(f"`{text}` grows, and nothing says how often the loop runs at most")
        used = f"_{name}_n"
        visitor = _Filled(name, used, dim)
        loop.body = [line for one in loop.body for line in visitor.lines(one)]
        loop.orelse = [line for one in loop.orelse for line in visitor.lines(one)]
        if isinstance(loop, ast.While):
            loop.test = visitor.visit(loop.test)
        shape = f"*{name}.shape[:{dim}]"
        room = rounds if times[name] == 1 else f"{times[name]} * {rounds}"
        shape += f", {room}" + (f", *{name}.shape[{dim + 1}:]" if dim >= 0 else "")
        head.append(f"{used} = {name}.shape[{dim}]")
        head.append(f"{name} = torch.cat([{name}, {name}.new_zeros(({shape}))], {dim})")
        head += visitor.checks
        behind.append(f"{name} = {name}.narrow({dim}, 0, {used}).contiguous()")
    counts: dict[str, ast.expr | None] = {
        f"_{name}_n": ast.parse(f"len({name})", mode="eval").body for name in found
    }
    after = place.after | ({f"_{name}_n" for name in found if name in place.after})
    behind = [one for one in behind if one.partition(" ")[0] in place.after]
    return Between(loop, replace(place, before=place.before | counts, after=after), head, behind)


def _added(node: ast.AST) -> tuple[str, tuple[ast.Call, int] | None]:
    """Return the name that a statement makes longer, with the call and the dimension."""
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return "", None
    target, call = node.targets[0], node.value
    if not isinstance(target, ast.Name) or not isinstance(call, ast.Call) or not call.args:
        return "", None
    parts = call.args[0]
    if ast.unparse(call.func) not in _CATS or not isinstance(parts, ast.List | ast.Tuple):
        return "", None
    if len(parts.elts) != 2 or _root(parts.elts[0]) != target.id:
        return "", None
    options = [*call.args[1:], *(one.value for one in call.keywords if one.arg in ("dim", "axis"))]
    dim = ast.literal_eval(options[0]) if options and _is_integer(options[0]) else 0
    return target.id, (call, dim)


def _is_integer(node: ast.expr) -> bool:
    number = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(number, ast.Constant) and isinstance(number.value, int)


def _root(node: ast.expr) -> str:
    """Return ``x`` of ``x``, ``x[rows]`` or ``x.index_select(0, rows)``, else an empty text."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name | ast.Call):
        node = node.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        rows = node.args and ast.unparse(node.args[0]) == "0"
        node = node.func.value if node.func.attr == "index_select" and rows else node
    return node.id if isinstance(node, ast.Name) else ""


def _most(
    node: ast.For | ast.While, place: Surroundings, found: Mapping[str, tuple[ast.Call, int]]
) -> str | None:
    """Return how often a loop runs at most, as an expression, or None if it does not say."""
    if isinstance(node, ast.For):
        return f"len({ast.unparse(node.iter)})"
    both = isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And)
    tests = node.test.values if both and isinstance(node.test, ast.BoolOp) else [node.test]
    steps = [ast.unparse(one) for one in node.body]
    for test in tests:
        if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Lt | ast.LtE):
            continue
        name, more = ast.unparse(test.left), " + 1" * isinstance(test.ops[0], ast.LtE)
        counts = f"{name} += 1" in steps and isinstance(place.before.get(name), ast.Constant)
        if counts and all(one != name for one, _ in values(node.body)):
            return f"max({ast.unparse(test.comparators[0])}{more} - {name}, 0)"
        if any(name in _sizes(one, dim) for one, (_, dim) in found.items()):
            return f"max({ast.unparse(test.comparators[0])}{more} - {name}, 0)"
    return None


def _sizes(name: str, dim: int) -> tuple[str, ...]:
    """Return how the size of a tensor is written."""
    return (f"{name}.size({dim})", f"{name}.shape[{dim}]", *([f"len({name})"] if dim == 0 else ()))


class _Filled(ast.NodeTransformer):
    """Fills one place where a tensor got longer, and reads the last one by its number."""

    def __init__(self, name: str, used: str, dim: int) -> None:
        self._name = name
        self._used = used
        self._dim = dim
        self.checks: list[str] = []

    def lines(self, node: ast.stmt) -> list[ast.stmt]:
        """Return the statements for one. Raises ``UnfitError`` for another use of the tensor."""
        found = self.visit(node)
        return found if isinstance(found, list) else [found]

    def visit_Assign(self, node: ast.Assign) -> ast.stmt | list[ast.stmt]:
        name, added = _added(node)
        if name != self._name or added is None:
            self.generic_visit(node)
            return node
        (call, dim) = added
        parts = call.args[0]
        assert isinstance(parts, ast.List | ast.Tuple)
        before, part = parts.elts
        if dim != self._dim or (dim == 0 and not isinstance(before, ast.Name)):
            raise UnfitError(f"`{ast.unparse(node)[:60]}` grows in more than one way")
        part = self.visit(part)
        index = f"{self._used}.reshape(1)"
        text = f"{name} = {ast.unparse(before)}.index_copy({dim}, {index}, {ast.unparse(part)})"
        return [*ast.parse(f"{text}\n{self._used} = {self._used} + 1").body]

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if ast.unparse(node) in _sizes(self._name, self._dim):
            return ast.Name(self._used, ast.Load())
        self.generic_visit(node)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if ast.unparse(node) in _sizes(self._name, self._dim):
            return ast.Name(self._used, ast.Load())
        if ast.unparse(node.value) != self._name:
            self.generic_visit(node)
            return node
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        *first, last = map(ast.unparse, parts)
        place = last.removesuffix(":") if last == "-1:" else last
        if not (place[0] == "-" and place[1:].isdigit()) or any(one != ":" for one in first):
            raise UnfitError(self._why(node))
        if self._dim not in (len(first), -1):
            raise UnfitError(self._why(node))
        if self._dim == -1:
            self.checks.append(f"torch._check({self._name}.dim() == {len(first) + 1})")
        index = _LAST.format(at=place[1:], used=self._used, name=self._name, dim=self._dim)
        kept = "" if last == "-1:" else f"[{':, ' * len(first)}0]"
        return ast.parse(f"{self._name}[{':, ' * len(first)}{index}]{kept}", mode="eval").body

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id == self._name:
            raise UnfitError(self._why(node))
        return node

    def _why(self, node: ast.expr) -> str:
        return f"`{ast.unparse(node)[:60]}` has another size in each round"
