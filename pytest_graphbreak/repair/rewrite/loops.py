"""Rewrites loops that end by the value of a tensor as ``torch.while_loop``.

A value that the loop carries has one shape and one dtype: PyTorch refuses others, and side effects.
A number that the loop changes is carried as a tensor. A name that is only set inside is local to
the body; if it is read later it is carried too, with a start of the shape that the body gives it.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Final

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.rewrite.aliases import Copied, copy_of, refuse_views, views
from pytest_graphbreak.repair.rewrite.branches import own, without_gradient, written
from pytest_graphbreak.repair.rewrite.conditions import STOP, Chosen, draws
from pytest_graphbreak.repair.rewrite.doubles import HELPER, AsPython, counters, types
from pytest_graphbreak.repair.rewrite.growing import grown
from pytest_graphbreak.repair.rewrite.kinds import asked, assumed, is_none, kind, that_stay
from pytest_graphbreak.repair.rewrite.leaving import without_return
from pytest_graphbreak.repair.rewrite.lists import as_rows
from pytest_graphbreak.repair.rewrite.normal import Loop, normal
from pytest_graphbreak.repair.rewrite.read_back import AsFlags, as_tensors, flags, unclear
from pytest_graphbreak.repair.rewrite.scope import (
    Surroundings,
    UnfitError,
    bound,
    changed,
    loops_around,
    read,
    values,
    walk,
)
from pytest_graphbreak.repair.rewrite.writes import quiet
from pytest_graphbreak.repair.source import functions

_NUMBERS: Final = {"int": "torch.full((), {})", "float": "torch.full((), {}, dtype=torch.float64)"}
"""Not ``torch.tensor``: torch 2.13 takes what one iteration computes from it for the result."""
_IMPORT: Final = "from torch._higher_order_ops.while_loop import while_loop"
_STRIDED: Final = ("expand", "expand_as", "movedim", "permute", "swapaxes", "t", "transpose")
"""Methods that give other strides than an op does: each round has to give those of the first."""
_OTHERS: Final = (ast.Name, ast.Attribute, ast.Subscript)
"""Values that may be held, or seen, elsewhere as well."""
_CHECK: Final = 'torch._assert_async(_goes_on(*_starts), "the loop does not run once")'
"""A name that only the loop sets is not set otherwise, and one that it gives a shape has none."""
_COPY: Final = "{0} = {1}.clone() if isinstance({1}, torch.Tensor) else {1}"
_OWN: Final = re.compile(r"\b(_stop|_end|_round|_starts|_first|_ran|_made|_seed)(?:_(\d+))?\b")
_CONSTANT: Final = ("torch.tensor", "torch.as_tensor", "torch.scalar_tensor")


def to_while_loop(node: ast.stmt, place: Surroundings) -> list[str]:
    """Rewrite a ``while``, or a ``for`` over a range, as ``torch.while_loop``.

    Raises ``UnfitError``.
    """
    left = without_return(node, place)
    if left is not None:
        node, place = left.loop, replace(place, after=place.after | read(left.values))
    rows = as_rows(node, place)
    if rows is not None:
        if left is not None:
            raise UnfitError("it fills a list and returns")
        node, place = rows.loop, rows.place
    longer = grown(node, place)
    if longer is not None:
        node, place = longer.loop, longer.place
    body, read_back = as_tensors(getattr(node, "body", []), _no_floats(node, place))
    loop = normal(node, body, place)
    held = _held(loop, read_back, place)
    in_place = _in_place(loop.body, held, place)
    refuse_views(in_place, loop.nodes, place)
    seen = views(loop.nodes, bound(loop.body), place)
    as_python = _as_python(loop, held, place)
    changes = (_AsNew(held.plain), as_python, Chosen(held.varying), AsFlags(held.flags))
    for change in (*changes, Copied(seen)):
        loop.body = [change.visit(copy.deepcopy(one)) for one in loop.body]
    if loop.test is not None:
        loop.test = as_python.test(copy.deepcopy(loop.test))
    plan = _plan(loop, held, place, in_place)
    rounds = {one for one, kind in held.numbers.items() if kind == "int" and one in plan.carried}
    loop.choose(rounds, place)
    if loop.test is not None:
        loop.test = Copied(seen).visit(loop.test)
    copies = [_COPY.format(copy_of(name), name) for name in seen]
    helper = HELPER if as_python.used else ()
    lines = [*copies, *helper, *_written(plan), *loop.behind(place)]
    if longer is not None:
        lines = [*longer.head, *lines, *longer.behind]
    if rows is not None:
        lines = [*rows.head, *lines, *rows.behind]
    return lines if left is None else [*lines, *left.lines(STOP, place, _types(plan, held))]


def _as_python(loop: Loop, held: _Held, place: Surroundings) -> AsPython:
    """Return the change that computes with the numbers of a loop as Python does."""
    carried = _carried(loop, held, place)
    kinds = types(loop.body, held.numbers, held.inner)
    unsure = place.given | place.several
    sure = {name: value for name, value in place.before.items() if name not in unsure}
    if f"{loop.counter} = 0" in loop.head:
        sure[loop.counter] = ast.Constant(0)
    set_there = bound(loop.body)
    fixed = {name: one for name, value in sure.items() if (one := kind(value))}
    fixed = {name: one for name, one in fixed.items() if name not in set_there}
    numbers, tensors = held.numbers.keys() & {*carried}, {*carried} - kinds.keys()
    return AsPython(kinds, numbers, fixed, tensors, counters(loop.body, sure, kinds))


def _types(plan: _Plan, held: _Held) -> dict[str, str]:
    """Return the names that hold Python numbers behind a loop, with their types."""
    found = {name: held.numbers[name] for name in plan.carried if name in held.numbers}
    return found | dict.fromkeys(held.flags & found.keys(), "bool")


def to_quiet_loop(node: ast.stmt, place: Surroundings) -> list[str]:
    """Do the same without the statements of the loop that only write. Raises ``UnfitError``."""
    return to_while_loop(quiet(node), place)


def helpers(source: str, where: Frame) -> list[Frame]:
    """Return the functions of the file that the innermost loop calls and that read ``x.T``."""
    found = loops_around(source, where)
    if not found:
        return []
    module = ast.parse(source)
    calls = (one for node, _ in found for one in ast.walk(node) if isinstance(one, ast.Call))
    called = dict.fromkeys(ast.unparse(one.func) for one in calls)
    owner = where.function.rpartition(".")[0]
    names = [one.replace("self.", f"{owner}.") if owner else one for one in called]
    return [
        Frame(where.file, name, 0, "")
        for name in names
        for function in functions(module, name)
        if any(isinstance(one, ast.Attribute) and one.attr == "T" for one in ast.walk(function))
    ]


def _no_floats(node: ast.stmt, place: Surroundings) -> frozenset[str]:
    """Return the names that no loop may use for a number that it reads from a tensor.

    They are something else if it reads them first, or after it if it does not run once.
    """
    body: list[ast.stmt] = getattr(node, "body", [])
    return frozenset(
        name
        for name, value in place.before.items()
        if not is_none(value)
        and (found := kind(value)) != "float"
        and ((found is None and not _is_set_first(name, body)) or name in place.after)
    )


@dataclass(frozen=True, slots=True)
class _Held:
    """What the names hold that a loop sets."""

    before: dict[str, ast.expr | None]
    kinds: dict[str, str]
    """Those that begin as numbers, with the kind of these."""
    numbers: dict[str, str]
    """Those that are numbers throughout: they become tensors of that kind."""
    inner: set[str]
    """Numbers that are local to the loop."""
    flags: frozenset[str]

    @property
    def plain(self) -> set[str]:
        """The names that ``n += 1`` gives a new value: no tensor is changed in place by it."""
        return {*self.kinds, *self.inner}

    @property
    def varying(self) -> set[str]:
        """The numbers that are tensors inside of the loop."""
        return {*self.numbers, *self.inner}


def _held(loop: Loop, read_back: frozenset[str], place: Surroundings) -> _Held:
    names = bound(loop.body)
    before = dict(place.before)
    before |= {loop.counter: ast.Constant(0)} if loop.counter else {}
    before |= {STOP: ast.Constant(value=False)} if loop.stops else {}
    tests = flags(loop.body, before) | ({STOP} if loop.stops else set())
    if test := unclear(loop.body, tests & place.after):
        raise UnfitError(f"`{test}` is a tensor or a bool, and is read later")
    kinds = {name: found for name in names if (found := kind(before.get(name))) is not None}
    kinds |= dict.fromkeys(read_back & kinds.keys(), "float")
    tensors = dict.fromkeys(read_back, "float") | dict.fromkeys(tests, "int")
    numbers, inner = that_stay(loop.body, kinds, tensors, before)
    return _Held(before, kinds, numbers, inner, tests)


def _plan(loop: Loop, held: _Held, place: Surroundings, in_place: Sequence[str]) -> _Plan:
    """Return what a loop carries, and how each value begins. Raises ``UnfitError``."""
    before, carried = held.before, _carried(loop, held, place)
    for name in sorted(place.changed.intersection(carried) - {*held.numbers, *in_place}):
        if name in place.given or isinstance(before.get(name), _OTHERS):
            raise UnfitError(f"{name} is changed in place later, and would be a new tensor")
    unset = [name for name in carried if name not in before or is_none(before[name])]
    shaped = [name for name in carried if name in held.kinds and name not in held.numbers] + unset
    if not carried:
        raise UnfitError("nothing is changed in it")
    _refuse_none(unset, loop, before)
    if shaped and (call := draws(loop.nodes)):
        raise UnfitError(f"`{call}` draws once more to find the shape of {shaped[0]}")
    copied = [name for name in in_place if name in carried]
    checks = _checks(loop, held, place, (carried, shaped))
    return _Plan(loop, place, carried, held.numbers, shaped, unset, copied, checks)


def _carried(loop: Loop, held: _Held, place: Surroundings) -> list[str]:
    """Return the names whose values go from one round to the next, or behind the loop."""
    later = place.after | loop.reads
    return [
        name
        for name in bound(loop.body)
        if name in later or (name in held.before and not _is_set_first(name, loop.body))
    ]


def _refuse_none(names: Iterable[str], loop: Loop, before: dict[str, ast.expr | None]) -> None:
    """Raise ``UnfitError`` if a loop may ask whether what begins as None is one: it is a tensor."""
    for name in names:
        first = name in before and not _is_set_first(name, loop.body)
        parts = [*([loop.test] if loop.test is not None else ()), *(loop.body if first else ())]
        if name in before and (use := asked(name, parts)) is not None:
            raise UnfitError(f"{name} begins as None, which `{ast.unparse(use)[:60]}` may ask for")


def _checks(
    loop: Loop, held: _Held, place: Surroundings, names: tuple[Sequence[str], Sequence[str]]
) -> list[str]:
    """Return the lines that hold names to be numbers, or None, where something else may be there.

    ``names`` are those that are carried, and those of these that get the shape of the body.
    """
    carried, shaped = names
    begins: dict[str, Sequence[str]] = dict.fromkeys(held.inner, ())
    begins |= dict.fromkeys(shaped, ("float", "int"))
    for name in held.numbers.keys() & set(carried):
        read_back = held.numbers[name] == "float" and kind(place.before.get(name)) == "int"
        begins[name] = ("float", "int") if read_back else ()
    begins |= dict.fromkeys((one for one in shaped if is_none(held.before.get(one))), ())
    unsure = (place.given | place.several) - {loop.counter, STOP}
    before = place.before.items()
    return assumed(loop.body, begins, {name: value for name, value in before if name in unsure})


def to_trained_loop(node: ast.stmt, place: Surroundings) -> list[str]:
    """Do the same for a loop that gradients go through. Raises ``UnfitError``."""
    return to_while_loop(node, replace(place, trained=True))


def to_quiet_trained_loop(node: ast.stmt, place: Surroundings) -> list[str]:
    """Do both. Raises ``UnfitError``."""
    return to_trained_loop(quiet(node), place)


def _inner(node: ast.stmt, place: Surroundings) -> list[str]:
    """Return the lines of a loop inside another one; its own names get a number.

    They may be set in the outer one as well.
    """
    lines = [one for one in to_while_loop(node, place) if one != _IMPORT]
    return [_OWN.sub(lambda name: f"{name[1]}_{int(name[2] or 0) + 1}", line) for line in lines]


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
    loop: Loop
    place: Surroundings
    carried: list[str]
    numbers: dict[str, str]
    """Names that are carried as tensors, with their kind; the loop assigns only numbers to them."""
    shaped: list[str]
    """Names without a tensor as first value: they get the shape that the body gives them."""
    unset: list[str]
    copied: list[str]
    """Tensors that the loop changes in place: the result is copied into them."""
    checks: list[str]
    """Lines that raise TypeError where a name is not what it was taken for."""


def _written(plan: _Plan) -> list[str]:
    loop, carried = plan.loop, plan.carried
    given = ", ".join(carried)
    varying = frozenset(carried) | set(bound(loop.body))
    inner = Surroundings(
        plan.place.text,
        before=plan.place.before | dict.fromkeys(carried),
        after=frozenset(carried),
        tensors=varying | plan.place.tensors,
        loop=_inner,
        given=plan.place.given - varying,
        several=plan.place.several - varying,
        earlier=[*plan.place.earlier, *walk(loop.body)],
    )
    body = written(loop.body, inner)
    results = ", ".join(own(name, loop.body) for name in carried)
    tests, *more = loop.tests()
    for one in more:
        tests = f"torch.logical_and({tests}, {one})"
    lines = [
        _IMPORT,
        *plan.checks,
        *loop.head,
        *([f"torch._check({loop.bound})"] if loop.counter in plan.place.after else ()),
        *(f"_{name} = {name}" for name in plan.copied),
        f"def _goes_on({given}):",
        f"    return {tests}",
        f"def _body({given}):",
        *(f"    {name} = {name}.clone()" for name in plan.copied),
        *(f"    {line}".rstrip() for line in body),
        f"    return ({results},)",
    ]
    starts = [_start(name, plan) for name in carried]
    if plan.shaped:
        first = ", ".join(map(_first, carried, starts, repeat(plan)))
        lines.append(f"_first = _body({first})  # its shapes and dtypes")
    packed = f"({', '.join(starts)},)"
    gradient, behind = _gradient(plan)
    checked = bool({*plan.unset, *plan.shaped} & plan.place.after)
    if checked or gradient:
        lines += [f"_starts = {packed}", *([_CHECK] if checked else ()), *gradient]
        packed = "_starts"
    lines.append(f"({given},) = while_loop(_goes_on, _body, {packed})")
    return [*lines, *behind, *_after(plan)]


def _gradient(plan: _Plan) -> tuple[list[str], list[str]]:
    """Return the lines before and behind the loop that keep its gradient, or check for none.

    torch 2.13 loses the gradient of a value that begins without one, and that of a loop that does
    not run, for a value that has none in the body: ``y = y.floor()``.
    """
    held = [name for name in plan.carried if name not in plan.numbers]
    if not held:
        return [], []
    if not plan.place.trained or plan.place.loop is not None or draws(plan.loop.nodes):
        return [], [without_gradient(held)]
    starts = [f"_starts[{plan.carried.index(name)}]" for name in held]
    chosen = map("torch.where(_ran, {}, {})".format, held, starts)
    return [
        "_ran, _made = _goes_on(*_starts), _body(*_starts)",
        "_seed = [made.sum() for made in _made if made.requires_grad]",
        "_starts = tuple(  # torch 2.13 gives what begins without a gradient none",
        "    torch.where(torch.full((), False), _seed[0].to(one.dtype), one)",
        "    if _seed and one.is_floating_point() and not one.requires_grad",
        "    else one",
        "    for one in _starts",
        ")",
    ], [f"{', '.join(held)}, = {', '.join(chosen)},"]


def _after(plan: _Plan) -> list[str]:
    """Return the lines after the loop, which make numbers again and copy changed tensors back."""
    lines = [f"{name} = _{name}.copy_({name})" for name in plan.copied]
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
    at = plan.carried.index(name)
    if name in plan.unset:
        return f"torch.zeros_like(_first[{at}])"
    if name in plan.shaped:
        return f"torch.full_like(_first[{at}], {name})"
    if (number := plan.numbers.get(name)) is not None:
        return _NUMBERS[number].format(name)
    before = plan.place.before.get(name)
    if isinstance(before, ast.Call) and ast.unparse(before.func) in _CONSTANT:
        return f"torch.empty_like({name}).copy_({name})"
    if isinstance(before, ast.Call) and getattr(before.func, "attr", "") in _STRIDED:
        return f"{name}.contiguous()"
    alias = isinstance(before, _OTHERS)  # inputs may not alias
    return f"{name}.clone()" if alias or name in plan.place.tensors else name


def _in_place(body: Sequence[ast.stmt], held: _Held, place: Surroundings) -> list[str]:
    """Return the tensors from before the loop that it changes in place. Raises ``UnfitError``."""
    reassigned = {name for name, _ in values(body)}
    other = {value.id for _, value in values(body) if isinstance(value, ast.Name)}
    for name in changed(body):
        if name in other and name not in held.varying:
            raise UnfitError(f"{name} has another name and is changed in place")
    found = [name for name in changed(body) if name in place.before and name not in held.plain]
    for name in found:
        if name in reassigned:
            raise UnfitError(f"{name} is set again and changed in place")
    return found


def _is_set_first(name: str, body: Sequence[ast.stmt]) -> bool:
    """Return whether the body sets a name before it reads it."""
    for one in body:
        if name in read([one]):
            return False
        if isinstance(one, ast.Assign) and name in bound([one]):
            return True
    return False
