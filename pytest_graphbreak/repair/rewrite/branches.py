"""Branches on a tensor's value as ops: ``torch.where``, ``torch.cond``, or a check in the graph.

``torch.cond`` runs one side and refuses what it cannot hold: other dtypes and shapes, an input that
is changed, a side effect. ``torch.where`` runs both sides, promotes, broadcasts, and mixes
gradients: it is used for sides that only compute, and the rest is checked during tracing.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pytest_graphbreak.repair.pure import RANDOM, computes
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

_REDUCED: Final = frozenset({"sum", "max", "min", "mean", "norm", "any", "all", "item", "prod"})
_ASKS: Final = frozenset({"isinstance", "hasattr", "callable", "len", "bool"})
_LEAVES: Final = (
    *(ast.Return, ast.Break, ast.Continue, ast.Raise, ast.Yield, ast.YieldFrom, ast.Await),
    *(ast.Try, ast.Global, ast.Nonlocal, ast.Delete, ast.NamedExpr, ast.Import, ast.ImportFrom),
)


def condition(test: ast.expr) -> str:
    """Return a test as an expression of a bool tensor without dimensions. Raises ``UnfitError``."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return f"torch.logical_not({condition(test.operand)})"
    if isinstance(test, ast.BoolOp):
        return _joined(test)
    if isinstance(test, ast.Compare):
        return _compared(test)
    if isinstance(test, ast.Call) and _name(test.func) == "bool" and len(test.args) == 1:
        return condition(test.args[0])
    if (whole := _all_alike(test)) is not None:
        return whole
    return f"{_operand(test, exact=True)}.reshape(()).bool()"


def _joined(test: ast.BoolOp) -> str:
    """Return ``and`` or ``or`` as an op; random numbers are drawn where Python draws them."""
    both = isinstance(test.op, ast.And)
    name = "logical_and" if both else "logical_or"
    joined = _part(test.values[0])
    for one in test.values[1:]:
        text = _part(one)
        if draws([one]):
            sides = (text, "torch.tensor(False)") if both else ("torch.tensor(True)", text)
            joined = f"torch.cond({joined}, lambda: {sides[0]}, lambda: {sides[1]})"
        else:
            joined = f"torch.{name}({joined}, {text})"
    return joined


def _all_alike(test: ast.expr) -> str | None:
    """Return a comparison of whole tensors as one op, or None for another expression.

    ``torch.allclose`` and ``torch.equal`` give a bool of Python, which ends the graph.
    """
    if not isinstance(test, ast.Call) or not isinstance(test.func, ast.Attribute):
        return None
    name, holder = test.func.attr, test.func.value
    given = test.args if ast.unparse(holder) == "torch" else [holder, *test.args]
    if name == "allclose":
        close = ast.Call(ast.parse("torch.isclose", mode="eval").body, given, test.keywords)
        return f"{ast.unparse(close)}.all()"
    if name == "equal" and len(given) == 2 and not test.keywords:
        one, other = (_operand(each, exact=True) for each in given)
        alike = f"torch.eq({one}, {other}).all()"  # which would broadcast
        return f"({alike} if {one}.shape == {other}.shape else torch.tensor(False))"
    return None


def _part(test: ast.expr) -> str:
    """Return one operand of ``and`` or ``or``, which may be a flag or compare two numbers."""
    if isinstance(test, ast.Compare):
        text = _compared(test, plain=True)
        return f"torch.as_tensor({text}).reshape(())"
    if isinstance(test, ast.Call) and _name(test.func) in _ASKS - {"bool"}:
        return f"torch.tensor(bool({ast.unparse(test)}))"
    if isinstance(test, ast.Name | ast.Attribute):  # not as_tensor: a list [0] is true
        return f"({ast.unparse(test)} | torch.tensor(False)).reshape(()).bool()"
    return condition(test)


def _compared(test: ast.Compare, *, plain: bool = False) -> str:
    if len(test.ops) != 1:
        raise UnfitError("a comparison of more than two")
    sides = [test.left, test.comparators[0]]
    exact = all(_whole(one) or _is_read(one) for one in sides)
    texts = [_operand(one, exact=exact) for one in sides]
    sign = ast.unparse(ast.Compare(ast.Name("a"), test.ops, [ast.Name("b")]))[1:-1]
    text = f"{texts[0]}{sign}{texts[1]}"
    scalar = all(isinstance(one, ast.Constant) or reduced(one) for one in sides)
    if plain or (scalar and any(map(reduced, sides))):
        return text
    return f"({text}).reshape(())"


def _whole(node: ast.expr) -> bool:
    """Return whether a node is a number that all floating types represent exactly.

    Python compares with it in the same way as tensors of any type do.
    """
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    number = node.value if isinstance(node, ast.Constant) else None
    return isinstance(number, int | float) and abs(number) <= 128 and number * 2 == int(number * 2)


def _operand(node: ast.expr, *, exact: bool) -> str:
    """Return the tensor behind an expression that reads its number.

    If not ``exact``, it is converted to double, because Python compares the number as one.
    """
    value = read_from(node)
    if isinstance(node, ast.Call) and value is None and _is_read(node):
        return f"{_operand(node.args[0], exact=exact)}.abs()"
    if value is None:
        text = ast.unparse(node)
        simple = isinstance(
            node, ast.Name | ast.Call | ast.Attribute | ast.Subscript | ast.Constant
        )
        return text if simple else f"({text})"
    text = _operand(value, exact=True)
    return text if exact else f"{text}.double()"


def read_from(node: ast.expr) -> ast.expr | None:
    """Return ``t`` of ``t.item()`` or ``float(t)``, or None for anything else."""
    if not isinstance(node, ast.Call) or node.keywords:
        return None
    if isinstance(node.func, ast.Attribute) and node.func.attr == "item" and not node.args:
        return node.func.value
    one = node.args[0] if len(node.args) == 1 else None
    return None if _name(node.func) != "float" or isinstance(one, ast.Constant) else one


def _is_read(node: ast.expr) -> bool:
    """Return whether a number is read from a tensor, or the absolute value of one that is."""
    if isinstance(node, ast.Call) and _name(node.func) == "abs" and len(node.args) == 1:
        node = node.args[0]
    return read_from(node) is not None


def reduced(node: ast.expr) -> bool:
    """Return whether a node is a call that gives a tensor without dimensions: ``x.sum()``."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _REDUCED
        and not node.args
        and not node.keywords
    )


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def to_where(node: ast.stmt, place: Surroundings) -> list[str]:
    """Rewrite ``if t: x = a``, with or without ``else: x = b``, as ``x = torch.where(t, a, b)``."""
    if isinstance(node, ast.If):
        node = _with_else(node, place)
    test, target, one, other = _choice(node)
    for side in (one, other):
        if isinstance(side, ast.Tuple | ast.List | ast.Dict):
            raise UnfitError("a side is more than one value")
        if not computes(side):
            raise UnfitError(f"both sides would run, and `{_short(side)}` may do more than compute")
    _keeps(place, [target] if target else [])
    head = f"{target} = " if target else "return "
    if isinstance(one, ast.Constant) and isinstance(other, ast.Constant):
        return [f"{head}{_number(condition(test), one, other)}"]
    chosen = f"torch.where({condition(test)}, _one, _other)"
    in_place = isinstance(node, ast.If) and isinstance(node.body[0], ast.AugAssign)
    kept = f"torch._check((_one.shape, _one.dtype) == ({target}.shape, {target}.dtype))"
    return [
        f"_one, _other = {ast.unparse(one)}, {ast.unparse(other)}",
        "torch._check((_one.shape, _one.dtype) == (_other.shape, _other.dtype))",
        *([kept] if in_place else ()),
        "torch._check(not (_one.requires_grad or _other.requires_grad))",
        f"{target}.copy_({chosen})" if in_place else f"{head}{chosen}",
    ]


def _number(test: str, one: ast.Constant, other: ast.Constant) -> str:
    """Return the choice between two numbers as a number: a tensor would promote other operands."""
    kinds = {type(one.value), type(other.value)}
    dtype = {float: "float64", int: "int64", bool: "bool"}.get(kinds.pop())
    if kinds or dtype is None:
        raise UnfitError("the sides are no numbers of one type")
    first, second = ast.unparse(one), ast.unparse(other)
    return f"torch.where({test}, torch.tensor({first}, dtype=torch.{dtype}), {second}).item()"


def _choice(node: ast.stmt) -> tuple[ast.expr, str, ast.expr, ast.expr]:
    """Return the test, the target (empty for a ``return``) and the two values."""
    if isinstance(node, ast.If):
        if len(node.body) != 1 or len(node.orelse) > 1:
            raise UnfitError("a side of more than one statement")
        name, one = _set(node.body[0])
        kept = ast.Name(name, ast.Load()) if name else None
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
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and _name(node.targets[0]):
        return _name(node.targets[0]), node.value
    if isinstance(node, ast.AugAssign) and _name(node.target):
        name = _name(node.target)
        return name, ast.BinOp(ast.Name(name, ast.Load()), node.op, node.value)
    raise UnfitError("a side does more than set one name")


def _short(node: ast.AST) -> str:
    return ast.unparse(node)[:60]


def draws(nodes: Sequence[ast.AST]) -> str:
    """Return the first call that draws random numbers, or an empty text."""
    calls = (node for node in walk(nodes) if isinstance(node, ast.Call))
    return next((_short(one) for one in calls if getattr(one.func, "attr", "") in RANDOM), "")


def _draws_in_python(nodes: Sequence[ast.AST]) -> str:
    """Return the first call of ``random`` or of NumPy's, or an empty text.

    Dynamo draws their numbers before the graph runs, also for a side that does not run.
    """
    calls = (_short(node) for node in walk(nodes) if isinstance(node, ast.Call))
    roots = ("random.", "np.random.", "numpy.random.")
    return next((one for one in calls if one.startswith(roots)), "")


def without_gradient(names: Sequence[str]) -> str:
    """Return the check that no gradient is asked for: a backward pass draws again (torch 2.13)."""
    return f"torch._check(not ({' or '.join(f'{name}.requires_grad' for name in names)}))"


def refuse(nodes: Sequence[ast.stmt], *, random: bool = False) -> None:
    """Raise ``UnfitError`` if statements do what no side of an op can do.

    With ``random``, they may draw random numbers; ``without_gradient`` has to follow.
    """
    if (call := _draws_in_python(nodes)) or (not random and (call := draws(nodes))):
        raise UnfitError(f"`{call}` draws random numbers")
    for node in walk(nodes):
        if isinstance(node, ast.Name) and node.id.startswith("_graphbreak_later"):
            raise UnfitError("a line in it is written after the graph")
        stored = isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)
        if stored or isinstance(node, _LEAVES) or changes_attribute(node):
            raise UnfitError(f"it holds `{_short(node)}`")


def _keeps(place: Surroundings, names: Sequence[str]) -> None:
    """Raise ``UnfitError`` if a name is changed in place later: its tensor may have other names."""
    for name in names:
        if name in place.changed:
            raise UnfitError(f"{name} is changed in place later, and would be a new tensor")


def to_cond(node: ast.stmt, place: Surroundings) -> list[str]:
    """Rewrite an ``if t:`` whose blocks bind names, or both return, as ``torch.cond``."""
    if not isinstance(node, ast.If):
        raise UnfitError("it is no `if`")
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
    lines: list[str] = []
    for name, side in (("true", node.body), ("false", node.orelse)):
        result = ", ".join(
            f"[_one.clone() for _one in {one}]" if one in lists else own(one, side) for one in out
        )
        body = [*_indented(side, place), f"    return ({result},)"]
        lines += [f"def _when_{name}({', '.join(given)}):", *body, ""]
    operands = f"({', '.join(given)},)" if given else "()"
    test = condition(node.test)
    lines.append(f"{pack} = torch.cond({test}, _when_true, _when_false, {operands})")
    return [*lines, without_gradient(out)] if draws(both) else lines


def _with_else(node: ast.If, place: Surroundings) -> ast.If:
    """Return ``if t: return a``, followed by ``return b``, with an ``else`` for the latter."""
    leaves = isinstance(node.body[-1], ast.Return) and not node.orelse
    return ast.If(node.test, node.body, [place.then]) if leaves and place.then else node


def _returned_cond(node: ast.If, place: Surroundings) -> list[str]:
    """Rewrite an ``if`` whose blocks both return as ``torch.cond``."""
    sides = [(one[:-1], one[-1]) for one in (node.body, node.orelse)]
    refuse([*node.body[:-1], *node.orelse[:-1]])
    given = sorted(set(changed([*node.body, *node.orelse])) & place.before.keys())
    if given:
        raise UnfitError(f"{given[0]} is changed in place")
    values = [one.value for _, one in sides if isinstance(one, ast.Return)]
    return returned(condition(node.test), [one for one, _ in sides], values, place)


def returned(
    test: str,
    sides: Sequence[Sequence[ast.stmt]],
    values: Sequence[ast.expr | None],
    place: Surroundings,
) -> list[str]:
    """Return the lines that return one of two values by ``torch.cond``, after its statements.

    Parts of tuples that are the same on both sides are not chosen. Raises ``UnfitError``.
    """
    first, second = map(_parts, values)
    if len(first) != len(second):
        raise UnfitError("the sides return tuples of different lengths")
    refuse([ast.Expr(one) for one in (*first, *second)])
    inner = {*bound(sides[0]), *bound(sides[1])}
    chosen = [
        number
        for number, (one, other) in enumerate(zip(first, second, strict=True))
        if ast.unparse(one) != ast.unparse(other) or read([one]) & inner
    ]
    if not chosen:
        raise UnfitError("the sides return the same")
    lines: list[str] = []
    for name, side, parts in zip(("true", "false"), sides, (first, second), strict=True):
        result = ", ".join(_result(parts[number], side) for number in chosen)
        body = [
            *_indented(side, replace(place, after=frozenset(read(parts)))),
            f"    return ({result},)",
        ]
        lines += [f"def _when_{name}():", *body, ""]
    names = [f"_chosen_{number}" for number in range(len(chosen))]
    texts = [ast.unparse(one) for one in first]
    for name, number in zip(names, chosen, strict=True):
        texts[number] = name
    end = f"({', '.join(texts)})" if isinstance(values[0], ast.Tuple) else texts[0]
    choice = f"torch.cond({test}, _when_true, _when_false, ())"
    return [*lines, f"({', '.join(names)},) = {choice}", f"return {end}"]


def _parts(value: ast.expr | None) -> list[ast.expr]:
    """Return the elements of a tuple of two or more, else the value itself."""
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
    return [f"    {line}" for line in written(side, place)]


def written(body: Sequence[ast.stmt], place: Surroundings) -> list[str]:
    """Return the lines of statements inside an op, after which ``place.after`` is read."""
    lines: list[str] = []
    for number, one in enumerate(body):
        before = place.before | dict.fromkeys(bound(body[:number]))
        after = place.after | read(body[number + 1 :])
        lines += statement(one, replace(place, before=before, after=after))
    return lines


def statement(node: ast.stmt, place: Surroundings) -> list[str]:
    """Return the lines of a statement inside an op; branches on ``place.tensors`` become ops."""
    if not isinstance(node, ast.If) or not read([node.test]) & place.tensors:
        return place.source(node)
    try:
        return to_where(node, place)
    except UnfitError:
        return to_cond(node, place)


def to_check(node: ast.stmt, place: Surroundings) -> list[str]:
    """Rewrite ``if t: raise E(text)`` as ``torch._assert_async(not t, text)``."""
    if not isinstance(node, ast.If) or node.orelse or len(node.body) != 1:
        raise UnfitError("it is no `if` with one statement")
    only = node.body[0]
    if not isinstance(only, ast.Raise) or only.exc is None:
        raise UnfitError("it raises nothing")
    words: object = "a check failed"
    if isinstance(only.exc, ast.Call) and only.exc.args:
        first = only.exc.args[0]
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            words = first.value
    test = condition(node.test)
    return [f"torch._assert_async(torch.logical_not({test}), {words!r})"]
