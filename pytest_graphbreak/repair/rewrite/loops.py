"""Rewrites loops that end by the value of a tensor as ``torch.while_loop``.

A value that the loop carries has one shape and one dtype: PyTorch refuses others, and side effects.
A number that the loop changes is carried as a tensor. A name that is only set inside is local to
the body; if it is read later it is carried too, with a start of the shape that the body gives it.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Final

from pytest_graphbreak.repair.rewrite.branches import (
    condition,
    draws,
    own,
    refuse,
    without_gradient,
    written,
)
from pytest_graphbreak.repair.rewrite.leaving import without_return
from pytest_graphbreak.repair.rewrite.read_back import as_tensors
from pytest_graphbreak.repair.rewrite.rounds import by_index
from pytest_graphbreak.repair.rewrite.scope import (
    Surroundings,
    UnfitError,
    bound,
    changed,
    read,
    values,
    walk,
)
from pytest_graphbreak.repair.rewrite.writes import quiet

_NUMBERS: Final = {"int": "torch.full((), {})", "float": "torch.full((), {}, dtype=torch.float64)"}
"""Not ``torch.tensor``: torch 2.13 takes what one iteration computes from it for the result."""
_CONSTANT: Final = ("torch.tensor", "torch.as_tensor", "torch.scalar_tensor")
_STOP: Final = "_stop"


@dataclass(slots=True)
class _Loop:
    """A loop in the normal form ``while tests: body``, with the lines that set it up."""

    tests: list[str]
    body: list[ast.stmt]
    head: list[str] = field(default_factory=list)
    reads: set[str] = field(default_factory=set)
    counter: str = ""
    """The name in ``for counter in range(...)``; at the end it is one more than in Python."""


def to_while_loop(node: ast.stmt, place: Surroundings) -> list[str]:
    """Rewrite a ``while``, or a ``for`` over a range, as ``torch.while_loop``.

    Raises ``UnfitError``.
    """
    left = without_return(node, place)
    if left is not None:
        node, place = left.loop, replace(place, after=place.after | read(left.values))
    body, read_back = as_tensors(getattr(node, "body", []), _no_floats(place))
    loop = _normal(node, body, place)
    names = bound(loop.body)
    before = place.before | ({loop.counter: ast.Constant(0)} if loop.counter else {})
    stopped = _STOP in loop.reads
    if stopped:
        before |= {_STOP: ast.Constant(value=False)}
    kinds = {name: kind for name in names if (kind := _kind(before.get(name))) is not None}
    kinds |= dict.fromkeys(read_back & kinds.keys(), "float")
    numbers = _numbers(loop.body, kinds, read_back)
    in_place = _in_place(loop.body, kinds, numbers, place)
    loop.body = [_AsNew(kinds).visit(copy.deepcopy(one)) for one in loop.body]
    later = place.after | loop.reads
    carried = [
        name
        for name in names
        if name in later or (name in before and not _is_set_first(name, loop.body))
    ]
    unset = [name for name in carried if name not in before or _is_none(before[name])]
    shaped = [name for name in carried if name in kinds and name not in numbers] + unset
    if not carried:
        raise UnfitError("nothing is changed in it")
    if shaped and (call := draws(loop.body)):
        raise UnfitError(f"`{call}` draws once more to find the shape of {shaped[0]}")
    copied = [name for name in in_place if name in carried]
    rounds = {name for name, kind in numbers.items() if kind == "int" and name in carried}
    loop.body = by_index(loop.body, rounds, place.changed)
    lines = _written(_Plan(loop, place, carried, numbers, shaped, unset, copied))
    return lines if left is None else [*lines, *left.lines(_STOP, place)]


def to_quiet_loop(node: ast.stmt, place: Surroundings) -> list[str]:
    """Do the same without the statements of the loop that only write. Raises ``UnfitError``."""
    return to_while_loop(quiet(node), place)


def _no_floats(place: Surroundings) -> frozenset[str]:
    """Return the names that no loop may use for a number that it reads from a tensor.

    If the loop does not run once, they are still something else after it.
    """
    return frozenset(
        name
        for name, value in place.before.items()
        if not _is_none(value)
        and (kind := _kind(value)) != "float"
        and (kind is None or name in place.after)
    )


class _AsNew(ast.NodeTransformer):
    """Replaces ``n += 1`` by ``n = n + 1`` if ``n`` begins as a number, and ``x.T`` by ``x.t()``.

    Dynamo computes ``x.T`` outside the loop, and then both it and ``x`` are inputs that share
    memory.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = names

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        if not isinstance(node.target, ast.Name) or node.target.id not in self._names:
            self.generic_visit(node)
            return node
        value = ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value)
        return ast.copy_location(ast.Assign([ast.Name(node.target.id, ast.Store())], value), node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        if node.attr != "T":
            return node
        return ast.copy_location(ast.Call(ast.Attribute(node.value, "t", node.ctx), [], []), node)


@dataclass(frozen=True, slots=True)
class _Plan:
    loop: _Loop
    place: Surroundings
    carried: list[str]
    numbers: dict[str, str]
    """Names that are carried as tensors, with their kind; the loop assigns only numbers to them."""
    shaped: list[str]
    """Names without a tensor as first value: they get the shape that the body gives them."""
    unset: list[str]
    copied: list[str]
    """Tensors that the loop changes in place: the result is copied into them."""


def _written(plan: _Plan) -> list[str]:
    loop, carried = plan.loop, plan.carried
    given = ", ".join(carried)
    varying = frozenset(carried) | set(bound(loop.body))
    inner = Surroundings(
        plan.place.text,
        before=plan.place.before | dict.fromkeys(carried),
        after=frozenset(carried),
        tensors=varying,
    )
    body = written(loop.body, inner)
    results = ", ".join(own(name, loop.body) for name in carried)
    tests = loop.tests[0]
    for one in loop.tests[1:]:
        tests = f"torch.logical_and({tests}, {one})"
    lines = [
        "from torch._higher_order_ops.while_loop import while_loop",
        *loop.head,
        *([f"torch._check({loop.tests[0]})"] if loop.counter in plan.place.after else ()),
        *(f"_{name} = {name}" for name in plan.copied),
        f"def _goes_on({given}):",
        f"    return {tests}",
        f"def _body({given}):",
        *(f"    {name} = {name}.clone()" for name in plan.copied),
        *(f"    {line}" for line in body),
        f"    return ({results},)",
    ]
    starts = [_start(name, plan) for name in carried]
    if plan.shaped:
        first = ", ".join(map(_first, carried, starts, repeat(plan)))
        lines.append(f"_first = _body({first})  # its shapes and dtypes")
    packed = f"({', '.join(starts)},)"
    if set(plan.unset) & plan.place.after:
        lines.append(f"_starts = {packed}")
        lines.append('torch._assert_async(_goes_on(*_starts), "the loop does not run once")')
        packed = "_starts"
    lines.append(f"({given},) = while_loop(_goes_on, _body, {packed})")
    return [*lines, *_after(plan)]


def _after(plan: _Plan) -> list[str]:
    """Return the lines after the loop, which make numbers again and copy changed tensors back."""
    lines = [f"{name} = _{name}.copy_({name})" for name in plan.copied]
    if draws(plan.loop.body):
        lines.append(without_gradient([name for name in plan.carried if name not in plan.numbers]))
    for name in plan.carried:
        if name == plan.loop.counter and name in plan.place.after:
            lines.append(f"{name} = {name}.item() - 1")
        elif name in plan.numbers and name in plan.place.after:
            lines.append(f"{name} = {name}.item()")
    return lines


def _first(name: str, start: str, plan: _Plan) -> str:
    """Return the argument for the first call of the body, which shows the shapes and dtypes."""
    if name not in plan.shaped:
        return start
    return "None" if name in plan.unset else f"torch.full((), {name})"


def _start(name: str, plan: _Plan) -> str:
    number = plan.carried.index(name)
    if name in plan.unset:
        return f"torch.zeros_like(_first[{number}])"
    if name in plan.shaped:
        return f"torch.full_like(_first[{number}], {name})"
    before = plan.place.before.get(name)
    if isinstance(before, ast.Call) and ast.unparse(before.func) in _CONSTANT:
        return f"torch.empty_like({name}).copy_({name})"
    if isinstance(before, ast.Name | ast.Attribute | ast.Subscript):  # inputs may not alias
        return f"{name}.clone()"
    kind = plan.numbers.get(name)
    return name if kind is None else _NUMBERS[kind].format(name)


def _normal(node: ast.stmt, inside: list[ast.stmt], place: Surroundings) -> _Loop:
    """Return a loop with another body in normal form, with a flag for its ``break``."""
    if not isinstance(node, ast.While | ast.For) or node.orelse:
        raise UnfitError("it has an `else`")
    body, stop = _without_break(inside, place)
    if isinstance(node, ast.While):
        always = isinstance(node.test, ast.Constant) and bool(node.test.value)
        loop = _Loop([] if always else [condition(node.test)], body, reads=read([node.test]))
    else:
        loop = _counted(node, body)
    if stop:
        loop.tests.append(f"torch.logical_not({_STOP})")
        loop.head.append(f"{_STOP} = False")
        loop.reads.add(_STOP)
    refuse(loop.body, random=True)
    _refuse_growing(loop.body, place)
    if not loop.tests:
        raise UnfitError("no test ends it")
    return loop


def _refuse_growing(body: Sequence[ast.stmt], place: Surroundings) -> None:
    """Raise ``UnfitError`` if a list from before the loop gets longer in it."""
    for node in walk(body):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("append", "extend", "insert", "pop")
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id in place.before
        ):
            raise UnfitError(f"`{ast.unparse(node)[:60]}`: what it carries has a fixed size")


def _counted(node: ast.For, body: list[ast.stmt]) -> _Loop:
    """Return ``for i in range(a, b)`` as a loop with its own counter."""
    call = node.iter
    if (
        not isinstance(node.target, ast.Name)
        or not isinstance(call, ast.Call)
        or ast.unparse(call.func) != "range"
        or len(call.args) not in (1, 2)
    ):
        raise UnfitError(f"it goes over `{ast.unparse(call)[:60]}`")
    name = node.target.id
    if name in bound(body):
        raise UnfitError(f"{name} is set in it")
    start = "0" if len(call.args) == 1 else ast.unparse(call.args[0])
    name = name if name != "_" else "_round"
    step = ast.parse(f"{name} = {name} + 1").body[0]
    head = [f"{name} = {start}", f"_end = {ast.unparse(call.args[-1])}"]
    return _Loop([f"{name} < _end"], [*body, step], head, {name}, name)


def _without_break(body: list[ast.stmt], place: Surroundings) -> tuple[list[ast.stmt], bool]:
    """Return the body with a flag for ``if t: break``, and whether there is one."""
    at = [number for number, one in enumerate(body) if isinstance(one, ast.If) and _breaks(one)]
    if not at:
        return body, False
    number = at[0]
    leave = body[number]
    assert isinstance(leave, ast.If)
    if len(at) > 1 or leave.orelse:
        raise UnfitError("it breaks in more than one place")
    flag = ast.parse(f"{_STOP} = {condition(leave.test)}").body
    chosen, rest = leave.body[:-1], body[number + 1 :]
    after: list[ast.stmt] = []
    if rest or chosen:
        test = ast.Name(_STOP, ast.Load())
        if not chosen:
            after = [ast.If(ast.UnaryOp(ast.Not(), test), rest, [])]
        else:
            after = [ast.If(test, chosen, rest)]
    return [*body[:number], *flag, *after], True


def _breaks(node: ast.If) -> bool:
    return isinstance(node.body[-1], ast.Break)


def _in_place(
    body: Sequence[ast.stmt], kinds: dict[str, str], numbers: dict[str, str], place: Surroundings
) -> list[str]:
    """Return the tensors from before the loop that it changes in place. Raises ``UnfitError``."""
    reassigned = {name for name, _ in values(body)}
    other = {value.id for _, value in values(body) if isinstance(value, ast.Name)}
    for name in changed(body):
        if name in other and name not in numbers:
            raise UnfitError(f"{name} has another name and is changed in place")
    found = [name for name in changed(body) if name in place.before and name not in kinds]
    for name in found:
        if name in reassigned:
            raise UnfitError(f"{name} is set again and changed in place")
    return found


def _kind(value: ast.expr | None) -> str | None:
    """Return ``int`` or ``float`` if an expression has the form of a Python number, else None."""
    if isinstance(value, ast.UnaryOp):
        value = value.operand
    if isinstance(value, ast.Constant):
        name = type(value.value).__name__
        return {"bool": "int"}.get(name, name) if name in ("bool", "int", "float") else None
    text = ast.unparse(value) if value is not None else ""
    if text in ("math.inf", "torch.inf", "np.inf", "math.pi") or text.startswith("float("):
        return "float"
    return "int" if text.startswith(("len(", "int(")) else None


def _is_none(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _numbers(
    body: Sequence[ast.stmt], kinds: dict[str, str], read_back: Collection[str]
) -> dict[str, str]:
    """Return those of the names in ``kinds`` that stay numbers, whatever the loop does.

    ``read_back`` are floats that it reads from tensors.
    """
    numbers = {**kinds, **dict.fromkeys(read_back, "float")}
    steps = [(name, value) for name, value in values(body) if name in kinds.keys() - read_back]
    steps += [
        (node.target.id, node.value)
        for node in walk(body)
        if isinstance(node, ast.AugAssign)
        and isinstance(node.target, ast.Name)
        and node.target.id in kinds
    ]
    while True:
        lost = {
            name
            for name, value in steps
            if name in numbers and name != _STOP and not _is_number(value, numbers)
        }
        if not lost:
            return numbers
        numbers = {name: kind for name, kind in numbers.items() if name not in lost}


def _is_number(value: ast.expr | None, numbers: dict[str, str]) -> bool:
    allowed = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.expr_context)
    return value is not None and all(
        isinstance(node, allowed) or (isinstance(node, ast.Name) and node.id in numbers)
        for node in ast.walk(value)
    )


def _is_set_first(name: str, body: Sequence[ast.stmt]) -> bool:
    """Return whether the body sets a name before it reads it."""
    for one in body:
        if name in read([one]):
            return False
        if isinstance(one, ast.Assign) and name in bound([one]):
            return True
    return False
