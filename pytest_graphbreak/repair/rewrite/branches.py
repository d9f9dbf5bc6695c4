"""Branches on a tensor's value as ops: ``torch.where``, ``torch.cond``, or a check in the graph.

``torch.cond`` runs one side and refuses what it cannot hold: other dtypes and shapes, an input that
is changed, a side effect. ``torch.where`` runs both sides, promotes, broadcasts, and mixes
gradients: it is used for sides that only compute, and the rest is checked during tracing.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from pytest_graphbreak.repair.pure import computes
from pytest_graphbreak.repair.rewrite.conditions import (
    chosen_number,
    decided,
    draws,
    draws_in_python,
    holds_read,
    name_of,
)
from pytest_graphbreak.repair.rewrite.scope import (
    Surroundings,
    UnfitError,
    bound,
    changed,
    changes_attribute,
    read,
    values,
    walk,
)

_LOOPS: Final = (ast.While, ast.For)
_JUMPS: Final = (ast.Break, ast.Continue)
_LEAVES: Final = (
    *(ast.Return, ast.Break, ast.Continue, ast.Raise, ast.Yield, ast.YieldFrom, ast.Await),
    *(ast.Try, ast.Global, ast.Nonlocal, ast.Delete, ast.NamedExpr, ast.Import, ast.ImportFrom),
)


def to_where(node: ast.stmt, place: Surroundings) -> list[str]:
    """Rewrite ``if t: x = a``, with or without ``else: x = b``, as ``x = torch.where(t, a, b)``.

    ``if t: self.x.fill_(a)`` becomes ``self.x.copy_(torch.where(t, torch.full_like(x, a), x))``.
    """
    if (lines := _where_given(node, place, to_where)) is not None:
        return lines
    if isinstance(node, ast.If):
        node = _with_else(node, place)
    test, target, one, other = _choice(node)
    for side in (one, other):
        if isinstance(side, ast.Tuple | ast.List | ast.Dict):
            raise UnfitError("a side is more than one value")
        if not computes(side):
            raise UnfitError(f"both sides would run, and `{_short(side)}` may do more than compute")
    in_place = isinstance(node, ast.If) and isinstance(node.body[0], ast.AugAssign | ast.Expr)
    _keeps(place, [target] if target and not in_place else [])
    head = f"{target} = " if target else "return "
    if isinstance(one, ast.Constant) and isinstance(other, ast.Constant):
        return [f"{head}{chosen_number(decided(test, place), one, other)}"]
    chosen = f"torch.where({decided(test, place)}, _one, _other)"
    kept = f"torch._check((_one.shape, _one.dtype) == ({target}.shape, {target}.dtype))"
    return [
        f"_one, _other = {ast.unparse(one)}, {ast.unparse(other)}",
        "torch._check((_one.shape, _one.dtype) == (_other.shape, _other.dtype))",
        *([kept] if in_place else ()),
        "torch._check(not (_one.requires_grad or _other.requires_grad))",
        f"{target}.copy_({chosen})" if in_place else f"{head}{chosen}",
    ]


def _where_given(
    node: ast.stmt, place: Surroundings, make: Callable[[ast.stmt, Surroundings], list[str]]
) -> list[str] | None:
    """Rewrite ``if x is not None and t:`` as ``if x is not None:`` with the op for ``t`` in it.

    Returns None for another test.
    """
    both = node.test if isinstance(node, ast.If) and not node.orelse else None
    if not isinstance(node, ast.If) or not isinstance(both, ast.BoolOp):
        return None
    first, *rest = both.values
    asked = isinstance(first, ast.Compare) and ast.unparse(first).endswith(" is not None")
    if not asked or not isinstance(both.op, ast.And):
        return None
    test = rest[0] if len(rest) == 1 else ast.BoolOp(both.op, rest)
    inner = ast.copy_location(ast.If(test, node.body, []), node)
    return [f"if {ast.unparse(first)}:", *(f"    {one}" for one in make(inner, place))]


def _choice(node: ast.stmt) -> tuple[ast.expr, str, ast.expr, ast.expr]:
    """Return the test, the target (empty for a ``return``) and the two values."""
    if isinstance(node, ast.If):
        if len(node.body) != 1 or len(node.orelse) > 1:
            raise UnfitError("a side of more than one statement")
        name, one = _set(node.body[0])
        kept = ast.parse(name, mode="eval").body if name else None
        target, other = _set(node.orelse[0]) if node.orelse else (name, kept)
        kinds = {type(part) for part in (*node.body, *node.orelse)}
        if target != name or one is None or other is None or len(kinds) > 1:
            raise UnfitError("the sides set different things")
        return node.test, name, one, other
    name, value = _set(node)
    if not isinstance(value, ast.IfExp):
        raise UnfitError("the choice is part of a longer expression")
    return value.test, name, value.body, value.orelse


def _set(node: ast.stmt) -> tuple[str, ast.expr | None]:
    """Return the name that a statement sets and the value; the name is empty for a ``return``."""
    if isinstance(node, ast.Return):
        return "", node.value
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and name_of(node.targets[0]):
        return name_of(node.targets[0]), node.value
    if isinstance(node, ast.AugAssign) and name_of(node.target):
        name = name_of(node.target)
        return name, ast.BinOp(ast.Name(name, ast.Load()), node.op, node.value)
    if isinstance(node, ast.Expr) and (found := _changed_in_place(node.value)) is not None:
        return found
    raise UnfitError("a side does more than set one name")


def _changed_in_place(node: ast.expr) -> tuple[str, ast.expr] | None:
    """Return the tensor that a call changes in place, and what it becomes; None for others."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    tensor, method = ast.unparse(node.func.value), node.func.attr
    if not tensor.replace(".", "").isidentifier() or method not in _IN_PLACE:
        return None
    given = ", ".join(map(ast.unparse, (*node.args, *node.keywords)))
    becomes = _IN_PLACE[method].format(tensor=tensor, given=given)
    return tensor, ast.parse(becomes, mode="eval").body


_IN_PLACE: Final = {
    "fill_": "torch.full_like({tensor}, {given})",
    "zero_": "torch.zeros_like({tensor})",
    **{f"{one}_": f"{{tensor}}.{one}({{given}})" for one in ("add", "sub", "mul", "clamp")},
}
"""Methods that change a tensor, and what computes the same. Both sides of ``torch.where`` run."""


def _short(node: ast.AST) -> str:
    return ast.unparse(node)[:60]


def without_gradient(names: Sequence[str]) -> str:
    """Return the check that no gradient is asked for: a backward pass draws again (torch 2.13)."""
    return f"torch._check(not ({' or '.join(f'{name}.requires_grad' for name in names)}))"


def refuse(nodes: Sequence[ast.stmt], *, random: bool = False) -> None:
    """Raise ``UnfitError`` if statements do what no side of an op can do.

    With ``random``, they may draw random numbers; ``without_gradient`` has to follow.
    """
    if (call := draws_in_python(nodes)) or (not random and (call := draws(nodes))):
        raise UnfitError(f"`{call}` draws random numbers")
    inner = [part for one in walk(nodes) if isinstance(one, _LOOPS) for part in walk(one.body)]
    for node in walk(nodes):
        if isinstance(node, ast.Name) and node.id.startswith("_graphbreak_later"):
            raise UnfitError("a line in it is written after the graph")
        stored = isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)
        left = isinstance(node, _LEAVES) and not (isinstance(node, _JUMPS) and node in inner)
        if stored or left or changes_attribute(node):
            raise UnfitError(f"it holds `{_short(node)}`")


def _keeps(place: Surroundings, names: Sequence[str]) -> None:
    """Raise ``UnfitError`` if a name is changed in place later: its tensor may have other names."""
    for name in names:
        if name in place.changed:
            raise UnfitError(f"{name} is changed in place later, and would be a new tensor")


def to_cond(node: ast.stmt, place: Surroundings) -> list[str]:
    """Rewrite an ``if t:`` whose blocks bind names, or both return, as ``torch.cond``.

    So is ``x = a if t else b``.
    """
    node = _as_branch(node) or node
    if not isinstance(node, ast.If):
        raise UnfitError("it is no `if`")
    if (lines := _where_given(node, place, to_cond)) is not None:
        return lines
    node = _with_else(node, place)
    last = [one[-1] if one else None for one in (node.body, node.orelse)]
    if all(isinstance(one, ast.Return) and one.value is not None for one in last):
        return _returned_cond(node, place)
    both = [*node.body, *node.orelse]
    lists = {name for name, value in values(both) if isinstance(value, ast.List | ast.ListComp)}
    refuse(both, random=not lists)
    names = bound(both)
    out = [name for name in names if name in place.after]
    sides = [set(bound(node.body)), set(bound(node.orelse))]
    for name in out:
        if name not in place.before and not all(name in side for side in sides):
            raise UnfitError(f"{name} is set on one side only")
    if not out:
        raise UnfitError("nothing that it sets is read later")
    _keeps(place, out)
    if in_place := set(changed(both)):
        raise UnfitError(f"{min(in_place)} is changed in place")
    needed = read(both) | set(out)
    given = [name for name in names if name in place.before and name in needed]
    pack = f"({', '.join(out)},)"
    lines = []
    for name, side in (("true", node.body), ("false", node.orelse)):
        result = ", ".join(
            f"[_one.clone() for _one in {one}]" if one in lists else own(one, side) for one in out
        )
        body = [*_indented(side, place), f"    return ({result},)"]
        lines += [f"def _when_{name}({', '.join(given)}):", *body, ""]
    operands = f"({', '.join(given)},)" if given else "()"
    test = decided(node.test, place)
    lines.append(f"{pack} = torch.cond({test}, _when_true, _when_false, {operands})")
    return [*lines, without_gradient(out)] if draws(both) else lines


def _with_else(node: ast.If, place: Surroundings) -> ast.If:
    """Return ``if t: return a``, followed by ``return b``, with an ``else`` for the latter."""
    leaves = isinstance(node.body[-1], ast.Return) and not node.orelse
    then = place.then if isinstance(place.then, ast.Return) else None
    return ast.If(node.test, node.body, [then]) if leaves and then is not None else node


def _returned_cond(node: ast.If, place: Surroundings) -> list[str]:
    """Rewrite an ``if`` whose blocks both return as ``torch.cond``."""
    sides = [(one[:-1], one[-1]) for one in (node.body, node.orelse)]
    refuse([*node.body[:-1], *node.orelse[:-1]])
    given = sorted(set(changed([*node.body, *node.orelse])) & place.before.keys())
    if given:
        raise UnfitError(f"{given[0]} is changed in place")
    values = [one.value for _, one in sides if isinstance(one, ast.Return)]
    return returned(decided(node.test, place), [one for one, _ in sides], values, place)


def returned(
    test: str,
    sides: Sequence[Sequence[ast.stmt]],
    values: Sequence[ast.expr | None],
    place: Surroundings,
    *,
    numbers: Mapping[int, str] = MappingProxyType({}),
) -> list[str]:
    """Return the lines that return one of two values by ``torch.cond``, after its statements.

    Parts of tuples that are the same on both sides are not chosen, and ``numbers`` are the choices
    of those parts that are Python numbers. Raises ``UnfitError``.
    """
    first, second = map(parts, values)
    if len(first) != len(second):
        raise UnfitError("the sides return tuples of different lengths")
    refuse([ast.Expr(one) for one in (*first, *second)])
    inner = {*bound(sides[0]), *bound(sides[1])}
    chosen = [
        number
        for number, (one, other) in enumerate(zip(first, second, strict=True))
        if number not in numbers and (ast.unparse(one) != ast.unparse(other) or read([one]) & inner)
    ]
    if not chosen and not numbers:
        raise UnfitError("the sides return the same")
    texts = [ast.unparse(one) for one in first]
    for number, choice in numbers.items():
        texts[number] = choice
    lines = _chosen_parts(test, sides, (first, second), chosen, place) if chosen else []
    for at, number in enumerate(chosen):
        texts[number] = f"_chosen_{at}"
    end = f"({', '.join(texts)})" if isinstance(values[0], ast.Tuple) else texts[0]
    return [*lines, f"return {end}"]


def _chosen_parts(
    test: str,
    sides: Sequence[Sequence[ast.stmt]],
    results: tuple[Sequence[ast.expr], Sequence[ast.expr]],
    chosen: Sequence[int],
    place: Surroundings,
) -> list[str]:
    """Return the lines that set ``_chosen_0`` and more to the chosen parts of two results."""
    lines: list[str] = []
    for name, side, given in zip(("true", "false"), sides, results, strict=True):
        result = ", ".join(_result(given[number], side) for number in chosen)
        body = [
            *_indented(side, replace(place, after=frozenset(read(given)))),
            f"    return ({result},)",
        ]
        lines += [f"def _when_{name}():", *body, ""]
    names = ", ".join(f"_chosen_{at}" for at in range(len(chosen)))
    return [*lines, f"({names},) = torch.cond({test}, _when_true, _when_false, ())"]


def parts(value: ast.expr | None) -> list[ast.expr]:
    """Return the elements of a tuple of two or more, else the value itself.

    Raises ``UnfitError`` for no value.
    """
    if value is None:
        raise UnfitError("a side returns nothing")
    many = isinstance(value, ast.Tuple) and len(value.elts) > 1
    return value.elts if isinstance(value, ast.Tuple) and many else [value]


def _result(value: ast.expr, side: Sequence[ast.stmt]) -> str:
    """Return a value as a result of an op, which must not be one of its inputs."""
    return own(value.id, side) if isinstance(value, ast.Name) else ast.unparse(value)


def own(name: str, side: Sequence[ast.stmt]) -> str:
    """Return an expression for a result that is not an input of its op: cloned if it may be one."""
    found = [value for one, value in values(side) if one == name]
    last = found[-1] if found else None
    fresh = isinstance(last, ast.BinOp | ast.UnaryOp | ast.Compare | ast.Constant)
    return name if fresh else f"{name}.clone()"


def _indented(side: Sequence[ast.stmt], place: Surroundings) -> list[str]:
    return [f"    {line}".rstrip() for line in written(side, place)]


def written(body: Sequence[ast.stmt], place: Surroundings) -> list[str]:
    """Return the lines of statements inside an op, after which ``place.after`` is read."""
    lines: list[str] = []
    for number, one in enumerate(body):
        before = place.before | dict.fromkeys(bound(body[:number])) | dict(values(body[:number]))
        after = place.after | read(body[number + 1 :])
        lines += statement(one, replace(place, before=before, after=after))
    return lines


def statement(node: ast.stmt, place: Surroundings) -> list[str]:
    """Return the lines of a statement inside an op; what ``place.tensors`` decide becomes an op."""
    if place.loop is not None and isinstance(node, _LOOPS) and _varies(node, place.tensors):
        return place.loop(node, place)
    branch = _as_branch(node)
    if branch is None or not _asks(branch.test, place.tensors):
        return place.source(node)
    if any(_varying_index(one, place.tensors) for one in (*branch.body, *branch.orelse)):
        return to_cond(branch, place)  # out of range on the side that Python leaves out
    if not isinstance(node, ast.If):
        return to_where(node, place)
    try:
        return to_where(node, place)
    except UnfitError:
        return to_cond(node, place)


def _as_branch(node: ast.stmt) -> ast.If | None:
    """Return an ``if``, or one for ``x = a if t else b``; None for another statement."""
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.IfExp):
        value = node.value
        sides = [ast.Assign(node.targets, one) for one in (value.body, value.orelse)]
        branch = ast.If(value.test, [ast.copy_location(sides[0], node)], [])
        branch.orelse = [ast.copy_location(sides[1], node)]
        return branch
    return node if isinstance(node, ast.If) else None


def _varying_index(node: ast.stmt, tensors: Collection[str]) -> bool:
    """Return whether a statement has an index that one of ``tensors`` gives."""
    indices = (one.slice for one in walk([node]) if isinstance(one, ast.Subscript))
    return bool(read([*indices]) & {*tensors})


def _asks(test: ast.AST, tensors: Collection[str]) -> bool:
    """Return whether a test needs the value of one of ``tensors``, and not just its shape."""
    if isinstance(test, ast.Name):
        return test.id in tensors
    known = isinstance(test, ast.Attribute) and test.attr in ("device", "dtype", "ndim", "shape")
    called = isinstance(test, ast.Call) and getattr(test.func, "attr", "") in (
        "dim",
        "numel",
        "size",
    )
    none = isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is | ast.IsNot)
    if known or called or none:
        return False
    return any(_asks(one, tensors) for one in ast.iter_child_nodes(test))


def _varies(node: ast.For | ast.While, tensors: Collection[str]) -> bool:
    """Return whether one of ``tensors`` decides how often a loop runs."""
    jumps = [one for one in walk(node.body) if isinstance(one, ast.If)]
    tests = [one.test for one in jumps if any(isinstance(part, _JUMPS) for part in walk(one.body))]
    return bool(read([node.iter if isinstance(node, ast.For) else node.test, *tests]) & {*tensors})


def to_check(node: ast.stmt, place: Surroundings) -> list[str]:
    """Rewrite ``if t: raise E(text)``, or an ``assert``, as ``torch._assert_async(ok, text)``."""
    if isinstance(node, ast.Assert):
        return [_check(decided(node.test, place), _words(node.msg, place))]
    if not isinstance(node, ast.If) or node.orelse or len(node.body) != 1:
        raise UnfitError("it is no `if` with one statement")
    only = node.body[0]
    if not isinstance(only, ast.Raise):
        raise UnfitError("it raises nothing")
    return [checked(f"torch.logical_not({decided(node.test, place)})", only, place)]


def checked(test: str, node: ast.Raise, place: Surroundings | None = None) -> str:
    """Return the check of a bool tensor that fails with the words of a ``raise``."""
    if node.exc is None:
        raise UnfitError("it raises nothing")
    given = node.exc.args if isinstance(node.exc, ast.Call) else []
    return _check(test, _words(given[0] if given else None, place))


def _check(test: str, words: str) -> str:
    return f"torch._assert_async({test}, {words})"


def _words(given: ast.expr | None, place: Surroundings | None) -> str:
    """Return a message as an expression: a text, without the values of tensors in it."""
    if isinstance(given, ast.Constant) and isinstance(given.value, str):
        return ast.unparse(given)
    if not isinstance(given, ast.JoinedStr):
        return "'a check failed'"
    before = place.before if place is not None else {}
    for number, part in enumerate(given.values):
        names = [before.get(name) for name in read([part])]
        if holds_read(ast.Tuple([part])) or any(one and not _is_text(one) for one in names):
            given.values[number] = ast.Constant("...")
    return ast.unparse(given)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant | ast.JoinedStr)
