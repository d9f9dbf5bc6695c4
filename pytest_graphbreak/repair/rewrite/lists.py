"""Rewrites a list that a loop fills with tensors as one tensor of rows, which gets longer.

``torch.while_loop`` carries no list. ``xs.append(x)`` becomes ``xs = torch.cat([xs, x[None]])``,
for which there is room from the start (``growing``), and ``torch.stack(xs)`` behind it the rows.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from pytest_graphbreak.repair.rewrite.aliases import shared
from pytest_graphbreak.repair.rewrite.conditions import draws
from pytest_graphbreak.repair.rewrite.growing import Between
from pytest_graphbreak.repair.rewrite.kinds import kind
from pytest_graphbreak.repair.rewrite.scope import (
    Surroundings,
    UnfitError,
    bound,
    changed,
    read,
    values,
    walk,
)

_LOOPS: Final = (ast.For, ast.While)
_STACKS: Final = ("torch.stack", "torch.cat", "torch.concat", "torch.concatenate")
Use = tuple[ast.stmt, Surroundings, list[str]]


def as_rows(node: ast.stmt, place: Surroundings) -> Between | None:
    """Return a loop with rows for the lists from before it that it fills, or None without any.

    Raises ``UnfitError`` if a list is used otherwise than to add to it and to read its end, or all
    of it at once behind the loop.
    """
    names = _filled(node, place)
    if not names or not isinstance(node, _LOOPS):
        return None
    loop, head, behind = copy.deepcopy(node), [], []
    for name in names:
        head += _start(name, node, place)
        if any(_needs_one(one, name) for one in _uses(name, place)) and _is_empty(name, place):
            behind.append(f"torch._check({name}.shape[0] > 0)  # of no tensors Python makes none")
    loop.body = [_Appended(names).visit(one) for one in loop.body]
    before = dict(place.before)
    before |= {name: ast.parse(f"torch.stack({name})", mode="eval").body for name in names}
    return Between(loop, replace(place, before=before), head, behind)


def uses(loops: Sequence[tuple[ast.stmt, Surroundings]]) -> list[Use]:
    """Return the statements behind loops that read lists which they fill, each with its lines.

    Raises ``UnfitError`` if two of the loops would change one statement.
    """
    found: list[Use] = []
    for node, place in loops:
        names = _filled(node, place)
        for one in place.later if names else ():
            if not hasattr(one, "body") and read([one]) & {*names}:
                found.append((one, replace(place, then=None), _read_rows(one, names, place)))
    lines = [one.lineno for one, _, _ in found]
    lines += [line for node, _ in loops for line in range(node.lineno, (node.end_lineno or 0) + 1)]
    if found and len(lines) > len({*lines}):
        raise UnfitError("two loops fill lists that one statement reads")
    return found


def _filled(node: ast.stmt, place: Surroundings) -> list[str]:
    """Return the lists from before a loop that it appends to."""
    if place.loop is not None:
        return []
    calls = (_added(one) for one in walk(getattr(node, "body", [])))
    names = dict.fromkeys(call[0] for call in calls if call)
    return [one for one in names if isinstance(place.before.get(one), ast.List)]


def _added(node: ast.AST) -> tuple[str, ast.expr] | None:
    """Return the name of the list that a statement appends to, with what it appends."""
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    holder = call.func.value
    if call.func.attr != "append" or not isinstance(holder, ast.Name) or len(call.args) != 1:
        return None
    return holder.id, call.args[0]


def _start(name: str, node: ast.For | ast.While, place: Surroundings) -> list[str]:
    """Return the lines that make rows of a list as it is before a loop. Raises ``UnfitError``."""
    _refuse_others(name, node, place)
    added = [found for one in walk(node.body) if (found := _added(one)) and found[0] == name]
    for _, value in added:
        _refuse_shared(name, value, node, place)
    first = place.before[name]
    held = [*first.elts] if isinstance(first, ast.List) else []
    held += [found[1] for one in place.earlier if (found := _added(one)) and found[0] == name]
    written = _written(node, place) - {name}
    if written and any([*shared(one)] for one in held):
        raise UnfitError(f"{min(written)} is changed in place, and {name} holds tensors")
    if not _is_empty(name, place):
        return [f"{name} = torch.stack({name})"]
    return [*_first_row(name, added[0][1], node, place), _NONE.format(name)]


_NONE: Final = "{0} = _row.new_zeros((0, *_row.shape))"


def _is_empty(name: str, place: Surroundings) -> bool:
    value = place.before[name]
    appended = any((found := _added(one)) and found[0] == name for one in place.earlier)
    return isinstance(value, ast.List) and not value.elts and not appended


def _refuse_others(name: str, node: ast.stmt, place: Surroundings) -> None:
    """Raise ``UnfitError`` if a list may be held elsewhere, or is used as one."""
    inner = [one for one in walk([node]) if isinstance(one, _LOOPS) and one is not node]
    if any((found := _added(one)) and found[0] == name for one in walk(inner)):
        raise UnfitError(f"{name} is filled by a loop in it")
    allowed = {id(_holder(one, name)) for one in place.earlier}
    for one in place.earlier:
        stored = isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
        if isinstance(one, ast.Name) and one.id == name and not stored and id(one) not in allowed:
            raise UnfitError(f"the list {name} is used before the loop")
    for one in place.earlier:
        if isinstance(one, ast.Assign) and len(one.targets) > 1 and name in bound([one]):
            raise UnfitError(f"the list {name} has another name")
    if name in place.several:
        raise UnfitError(f"the list {name} is set more than once")
    fine = {id(part) for one in _uses(name, place) for part in ast.walk(one)}
    for stmt in place.later:
        if stmt.lineno > place.end and name in read([stmt]):
            raise UnfitError(f"`{ast.unparse(stmt)[:60]}` reads {name} also without the loop")
        for one in _own(stmt):
            if isinstance(one, ast.Name) and one.id == name and id(one) not in fine:
                raise UnfitError(f"`{ast.unparse(stmt)[:60]}` uses {name} as a list")


def _holder(node: ast.AST, name: str) -> ast.expr | None:
    """Return the list in a statement that appends to it."""
    found = _added(node)
    if found is None or found[0] != name or not isinstance(node, ast.Expr):
        return None
    assert isinstance(node.value, ast.Call)
    assert isinstance(node.value.func, ast.Attribute)
    return node.value.func.value


def _refuse_shared(name: str, value: ast.expr, node: ast.stmt, place: Surroundings) -> None:
    """Raise ``UnfitError`` if what a list holds may be changed in place: rows are copies."""
    body: list[ast.stmt] = getattr(node, "body", [])
    numbers = {one for one, before in place.before.items() if kind(before)}
    fresh = {one for one in bound(body) if _is_fresh(one, body)}
    if place.changed - numbers:
        raise UnfitError(f"{min(place.changed - numbers)} is changed in place behind the loop")
    written = _written(node, place) - {name}
    roots = {*shared(value)}
    if written and roots - (fresh - written):
        raise UnfitError(f"{min(written)} is changed in place, and {name} may hold it")


def _written(node: ast.stmt, place: Surroundings) -> set[str]:
    """Return the tensors that a loop changes in place."""
    body: list[ast.stmt] = getattr(node, "body", [])
    sets = [*place.before.items(), *values(body)]
    numbers = {one for one, value in sets if kind(value)}
    others = {one for one, value in values(body) if not kind(value)}
    return {*changed(body)} - (numbers - others)


def _is_fresh(name: str, body: Sequence[ast.stmt]) -> bool:
    """Return whether all that a loop sets a name to shares memory with nothing."""
    found = [value for one, value in values(body) if one == name]
    return bool(found) and all(one is not None and not [*shared(one)] for one in found)


def _first_row(
    name: str, value: ast.expr, node: ast.For | ast.While, place: Surroundings
) -> list[str]:
    """Return the lines that set ``_row`` to what a loop appends first. Raises ``UnfitError``."""
    steps: list[ast.stmt] = []
    needed = read([value])
    numbers = {one for one, before in place.before.items() if kind(before)}
    inside = set(bound(node.body))
    for one in reversed([*_before_append(node.body, name)]):
        sets = {target for target, _ in values([one])}
        known = needed & sets & inside
        if known and not (known <= place.before.keys() - numbers):
            needed = (needed - sets) | read([one])
            steps.insert(0, one)
    if call := draws([*steps, value]):
        raise UnfitError(f"`{call}` draws once more to find the shape of what {name} holds")
    if written := changed(steps):
        raise UnfitError(f"{written[0]} is changed in place, and {name} begins without a shape")
    counter = (
        node.target.id if isinstance(node, ast.For) and isinstance(node.target, ast.Name) else ""
    )
    lost = (needed & inside) - place.before.keys() - {counter}
    if lost:
        raise UnfitError(f"{name} begins without a shape, and {min(lost)} is set later")
    head = _counter_start(node) if counter in needed else []
    if not steps:
        return [*head, f"_row = {ast.unparse(value)}"]
    given = [one for one in bound(steps) if one in place.before and one in needed]
    lines = [line for one in steps for line in ast.unparse(one).splitlines()]
    return [
        *head,
        f"def _of_{name}({', '.join(given)}):  # what comes first, for its shape and dtype",
        *(f"    {line}" for line in lines),
        f"    return {ast.unparse(value)}",
        f"_row = _of_{name}({', '.join(given)})",
    ]


def _counter_start(node: ast.For | ast.While) -> list[str]:
    if not isinstance(node, ast.For) or not isinstance(node.iter, ast.Call):
        raise UnfitError("it goes over no range")
    start = "0" if len(node.iter.args) == 1 else ast.unparse(node.iter.args[0])
    return [f"{ast.unparse(node.target)} = {start}"]


def _before_append(body: Sequence[ast.stmt], name: str) -> Iterator[ast.stmt]:
    """Yield what runs before a list gets something, of branches both sides."""
    for one in body:
        if (found := _added(one)) and found[0] == name:
            return
        if isinstance(one, ast.If | ast.While):
            sides = [one.body, one.orelse]
            inside = [side for side in sides if any(map(_adds_to(name), walk(side)))]
            for side in inside[:1] or sides:
                yield from _before_append(side, name)
            if inside:
                return
        elif isinstance(one, ast.Assign | ast.AnnAssign | ast.For):
            yield one


def _adds_to(name: str) -> Callable[[ast.AST], bool]:
    return lambda node: bool((found := _added(node)) and found[0] == name)


def _own(stmt: ast.stmt) -> Iterator[ast.AST]:
    """Yield the nodes of a statement without the statements in it."""
    for one in ast.iter_child_nodes(stmt):
        if not isinstance(one, ast.stmt):
            yield from ast.walk(one)


def _uses(name: str, place: Surroundings) -> list[ast.expr]:
    """Return what reads a list behind a loop in one of the forms that rows have as well."""
    return [
        one
        for stmt in place.later
        if not hasattr(stmt, "body")
        for one in _own(stmt)
        if isinstance(one, ast.expr) and _as_row(one, [name]) is not None
    ]


def _needs_one(node: ast.expr, name: str) -> bool:
    return ast.unparse(node) != f"len({name})"


def _as_row(node: ast.expr, names: Sequence[str]) -> str | None:
    """Return an expression of a list as one of rows, or None for another form."""
    text = ast.unparse(node)
    for name in names:
        if text == f"len({name})":
            return f"{name}.shape[0]"
        if text == f"{name}[-1]":
            return f"{name}[{name}.shape[0] - 1].clone()"
        if isinstance(node, ast.Call) and (called := ast.unparse(node.func)) in _STACKS:
            given = [
                *node.args,
                *(one.value for one in node.keywords if one.arg in ("dim", "axis")),
            ]
            if not given or ast.unparse(given[0]) != name or len(given) > 2:
                continue
            dim = ast.unparse(given[1]) if len(given) == 2 else "0"
            if len(given) < len(node.args) + len(node.keywords) or not dim.lstrip("-").isdigit():
                return None
            return _joined(name, int(dim), new=called == "torch.stack")
    return None


def _joined(name: str, dim: int, *, new: bool) -> str:
    """Return rows put together along a dimension, which is a new one, as ``torch.stack`` does."""
    if new:
        return f"{name}.movedim(0, {dim}).contiguous()" if dim else f"{name}.clone()"
    first = dim - 1 if dim < 0 else dim
    moved = f".movedim(0, {first})" if first else ""
    return f"{name}{moved}.flatten({first}, {first + 1}).clone()"


def _read_rows(stmt: ast.stmt, names: Sequence[str], place: Surroundings) -> list[str]:
    """Return the lines of a statement that reads rows."""
    made = _Read(names).visit(copy.deepcopy(stmt))
    wanted = ast.unparse(made)
    lines = place.source(stmt)
    for one in sorted(
        (one for one in _own(stmt) if isinstance(one, ast.expr) and _as_row(one, names)),
        key=lambda one: (-one.lineno, -one.col_offset),
    ):
        at, first, last = one.lineno - stmt.lineno, one.col_offset, one.end_col_offset or 0
        if one.lineno != one.end_lineno or at >= len(lines) or not lines[at].isascii():
            return wanted.splitlines()
        first, last = first - stmt.col_offset, last - stmt.col_offset
        lines[at] = lines[at][:first] + (_as_row(one, names) or "") + lines[at][last:]
    try:
        same = ast.unparse(ast.parse("".join(f"{one}\n" for one in lines).lstrip())) == wanted
    except SyntaxError:
        same = False
    return lines if same else wanted.splitlines()


class _Read(ast.NodeTransformer):
    """Reads rows in place of lists."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def visit(self, node: ast.AST) -> ast.AST:
        text = _as_row(node, self._names) if isinstance(node, ast.expr) else None
        if text is not None:
            return ast.parse(text, mode="eval").body
        return self.generic_visit(node)


class _Appended(ast.NodeTransformer):
    """Puts rows together where a loop appends to a list."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        found = _added(node)
        if found is None or found[0] not in self._names:
            return node
        name, value = found
        row = ast.Subscript(value, ast.Constant(None), ast.Load())
        made = ast.parse(f"{name} = torch.cat([{name}, {ast.unparse(row)}])").body[0]
        return ast.copy_location(made, node)
