"""A loop that a tensor's value ends becomes ``torch.while_loop``.

Before::

    diff = torch.tensor(1.0)
    n = 0
    while diff.abs().max() > self.tol and n < self.max_iter:
        x_new = x - 0.1 * x
        diff = x_new - x
        x = x_new
        n += 1
    return x

After::

    def _goes_on(diff, n, x):
        return torch.logical_and(...)

    def _body(diff, n, x):
        x_new = x - 0.1 * x
        diff = x_new - x
        x = x_new
        n = n + 1
        return (diff, n, x)

    diff, n, x = _graphbreak_while(_goes_on, _body, (diff, n, x), (False, False, True))

``break``, ``continue`` and ``return`` at the end of an ``if`` become a flag that the loop carries.
The helper makes numbers tensors for the loop, and gives a value that begins in another shape
(``diff`` has none) that of the loop: the test is worked out at the end of each round, so nothing in
the loop ever reads such a value. What it carries otherwise keeps its shape.

When not: where something grows, is changed in place, printed or drawn in it; in training; and on an
xla device, which runs such a loop on the host.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import libcst as cst
from libcst import matchers as m

from pytest_graphbreak.model.record import Break
from pytest_graphbreak.repair.patch import Rewrite, SourcePatch, UnfitError, switch
from pytest_graphbreak.repair.remedies.cond import operator, own, refuse, returned
from pytest_graphbreak.repair.rewrite.conditions import READS, condition, tensor
from pytest_graphbreak.repair.rewrite.helpers import helper
from pytest_graphbreak.repair.rewrite.loop_numbers import (
    CONSTANT,
    made_tensors,
    numbers_of,
    tensors_of,
)
from pytest_graphbreak.repair.rewrite.names import (
    after,
    before,
    bound,
    changed_after,
    read,
    reads_first,
)
from pytest_graphbreak.repair.rewrite.reasons import may_branch
from pytest_graphbreak.repair.rewrite.tree import (
    Place,
    body,
    changed,
    code,
    function,
    only,
    operand,
    rewriting,
    statements,
    walk,
)
from pytest_graphbreak.repair.trial import Trial

if TYPE_CHECKING:
    import torch

_ON_THE_HOST: Final = "torch_xla runs it on the host, with a graph or more for each round"
_RANGE: Final = m.Call(func=m.Name("range"), args=[m.Arg(star=""), m.AtMostN(m.Arg(star=""), n=1)])
_LEAVES: Final = (cst.Break, cst.Continue, cst.Return)
_STOP: Final = "_stop"


def propose(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    if not may_branch(item):
        return
    unfit = _ON_THE_HOST if trial.record.graphs.get("xla") else ""
    edits = (helper(_graphbreak_while), Rewrite(CHANGE, item.where, helper=True))
    title = "the loop became torch.while_loop"
    yield SourcePatch(title, edits, unfit=unfit)
    numbers = (*edits, switch("capture_scalar_outputs"))
    yield SourcePatch(f"{title}, its numbers nodes of the graph", numbers, unfit=unfit)


@dataclass(slots=True)
class _Loop:
    """A loop while its body is written anew."""

    place: Place
    state: list[str]
    """The names whose values go from one round to the next, or behind the loop."""
    stops: bool = False
    """Whether a ``break`` or a ``return`` ends it."""
    leaves: cst.BaseExpression | None = None
    """What a ``return`` in it returns."""


def to_while_loop(place: Place) -> Sequence[cst.BaseStatement]:
    """Return the statements that take the place of a loop. Raises ``UnfitError``."""
    node = place.node
    if not isinstance(node, cst.While | cst.For) or node.orelse:
        raise UnfitError("it is no loop, or has an `else`")
    inside = body(node.body)
    _refuse(inside)
    head, tests, counter = _counted(node)
    behind = [x.value for x in walk(inside) if isinstance(x, cst.Return) and x.value is not None]
    names, test = bound(place, [node]), [node.test] if isinstance(node, cst.While) else []
    used = [name for name in names if name in {*after(place), *read(place, behind)}]
    known = before(place) | ({counter} - {""})
    carried = [x for x in names if x in known and (x == counter or reads_first(place, x, inside))]
    loop = _Loop(place, [x for x in names if x in {*used, *carried, *read(place, test)}])
    rounds = _rounds(inside, loop, known | set(loop.state))
    rounds += statements(f"{counter} = {counter} + 1") if counter else []
    tests += [condition(one, place) for one in test if not m.matches(one, m.Name("True"))]
    if loop.stops:
        head += statements(f"{_STOP} = torch.tensor(False)")
        loop.state.append(_STOP)
        known.add(_STOP)
        tests.append(f"torch.logical_not({_STOP})")
    _check(used, loop, tests)
    both = tests[0] if len(tests) == 1 else f"torch.logical_and({tests[0]}, {tests[1]})"
    given, ends = ", ".join(loop.state), _behind(loop, counter if counter in used else "")
    used += [_STOP] if any(_STOP in code(one) for one in ends) else []
    values = ", ".join(f'"{x}": {x if x in known else None}' for x in loop.state)
    kinds = _kinds(loop, inside, used, [*carried, _STOP], {counter} - {""})
    call = f"_graphbreak_while(_goes_on, _body, {{{values}}}, {used}, {kinds})"
    return [
        *head,
        function(f"_goes_on({given})", statements(f"return {both}")),
        function(f"_body({given})", [*rounds, *statements(f"return ({given},)")]),
        *statements(f"({', '.join(used)},) = {call}" if used else call),
        *ends,
    ]


def _kinds(
    loop: _Loop,
    inside: Sequence[cst.BaseStatement],
    used: Sequence[str],
    carried: Sequence[str],
    counter: set[str],
) -> str:
    """Return the names that are loose, those that have to be numbers, and those that must not."""
    loose = [x for x in loop.state if x not in carried]
    numbers = sorted(numbers_of(inside) & set(loop.state) | counter)
    made = made_tensors(inside, numbers) & set(used)
    tensors = sorted((tensors_of(loop.place, numbers) | made) & set(loop.state))
    if mixed := set(tensors) & set(numbers):
        raise UnfitError(f"a tensor would not compute like the number {min(mixed)}")
    return f"{loose}, {numbers}, {tensors}"


CHANGE: Final = rewriting(to_while_loop, around=(cst.While, cst.For))


def _refuse(inside: Sequence[cst.BaseStatement]) -> None:
    """Raise ``UnfitError`` for what no round of an operator can do; ``n += 1`` is ``n = n + 1``."""
    every = [one for x in inside for one in walk([x])]
    added = [x for x in every if isinstance(x, cst.AugAssign) and isinstance(x.target, cst.Name)]
    leave = [x for x in every if isinstance(x, _LEAVES)]
    skip = {id(one) for one in (*added, *leave)}
    for line in every:
        if isinstance(line, cst.SimpleStatementLine):
            small = [one for one in line.body if id(one) not in skip]
            refuse([cst.SimpleStatementLine(small)] if small else [])
            if any(m.matches(one, m.Expr(m.Call())) for one in small):
                raise UnfitError(f"`{code(line)[:60]}` does something else than compute")
        elif isinstance(line, cst.With | cst.Try | cst.FunctionDef):
            raise UnfitError(f"it holds `{code(line)[:60]}`")


def _counted(
    node: cst.While | cst.For,
) -> tuple[list[cst.BaseStatement], list[str], str]:
    """Return the lines before a loop, its tests and its counter: those of ``for i in range``."""
    if isinstance(node, cst.While):
        return [], [], ""
    if not m.matches(node.iter, _RANGE) or not isinstance(node.target, cst.Name):
        raise UnfitError(f"it goes over `{code(node.iter)[:60]}`")
    name, args = (
        node.target.value,
        [code(x.value) for x in cst.ensure_type(node.iter, cst.Call).args],
    )
    first = "0" if len(args) == 1 else args[0]
    return statements(f"{name} = {first}\n_end = {args[-1]}"), [f"{name} < _end"], name


def _rounds(
    lines: Sequence[cst.BaseStatement], loop: _Loop, known: set[str]
) -> list[cst.BaseStatement]:
    """Return statements in which flags take the place of jumps, and ops that of branches."""
    place, found = loop.place, list[cst.BaseStatement]()
    varying = {*bound(place, [place.node])}
    for at, one in enumerate(lines):
        later = lines[at + 1 :]
        if not isinstance(one, cst.If) or not varying & {*read(place, [one.test])}:
            found.append(_computed(one, place))
            known = known | set(bound(place, [one]))
            continue
        if isinstance(one.orelse, cst.If):
            raise UnfitError("it has an `elif`")
        sides = [body(one.body), body(one.orelse.body) if one.orelse else []]
        test, last = condition(one.test, place), only(sides[0][-1])
        if isinstance(last, _LEAVES):
            sides = [sides[0][:-1], [*sides[1], *later]]
            if not isinstance(last, cst.Continue):
                found += statements(f"{_STOP} = {test}")
                loop.stops, test = True, _STOP
                loop.leaves = last.value if isinstance(last, cst.Return) else None
            return [*found, *_branch(test, sides, [], loop, known)]
        found += _branch(test, sides, later, loop, known)
        known = known | set(bound(place, [one]))
    return found


def _computed(node: cst.BaseStatement, place: Place) -> cst.BaseStatement:
    """Return a line in which numbers that it reads are tensors, and ``n += 1`` is an assignment."""
    statement = only(node)
    if isinstance(statement, cst.AugAssign):
        name, sign = code(statement.target), code(statement.operator).removesuffix("=")
        text = tensor(statement.value) if m.findall(node, READS) else operand(statement.value)
        return statements(f"{name} = {name} {sign} {text}")[0]
    if isinstance(statement, cst.Assign) and m.matches(statement.value, CONSTANT):
        value, target = code(statement.value), code(statement.targets[0].target)
        double = ", dtype=torch.float64" if isinstance(statement.value, cst.Float) else ""
        return statements(f"{target} = torch.full((), {value}{double})")[0]
    if m.findall(node, READS):
        if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
            raise UnfitError(f"`{code(node)[:60]}` reads a number")
        target = code(statement.targets[0].target)
        tests = isinstance(statement.value, cst.Comparison | cst.BooleanOperation)
        text = condition(statement.value, place) if tests else tensor(statement.value)
        return statements(f"{target} = {text}.detach().reshape(())")[0]
    # Dynamo works x.T out before the loop, which then has two inputs that share memory.
    turned = [x for x in walk([node]) if isinstance(x, cst.Attribute) and x.attr.value == "T"]
    return changed(node, {x: cst.Call(x.with_changes(attr=cst.Name("t"))) for x in turned})


def _branch(
    test: str,
    sides: Sequence[Sequence[cst.BaseStatement]],
    later: Sequence[cst.BaseStatement],
    loop: _Loop,
    known: set[str],
) -> Sequence[cst.BaseStatement]:
    """Return ``torch.cond`` for a branch; what it sets and nothing reads stays inside of it."""
    place = loop.place
    live = {*loop.state, *read(place, later)}
    names = bound(place, [*sides[0], *sides[1]])
    out = [name for name in names if name in live]
    for name in out:
        if name not in known and not all(name in bound(place, side) for side in sides):
            raise UnfitError(f"{name} is set on one side only")
    written = [_rounds(side, loop, known) for side in sides]
    stops = [any(_STOP in code(x) for x in side) for side in written]
    out += [_STOP] if any(stops) else []
    results = [f"({', '.join(own(x, side) for x in out)},)" for side in written]
    given = [x for x in (*names, *([_STOP] if any(stops) else [])) if x in known or x == _STOP]
    if not out:
        return []
    return operator(test, written, results, given, f"({', '.join(out)},) = ")


def _check(used: Sequence[str], loop: _Loop, tests: Sequence[str]) -> None:
    later = set(changed_after(loop.place)) & set(used)
    if later:
        raise UnfitError(f"{min(later)} is changed in place later, and would be a new tensor")
    if not tests or not loop.state:
        raise UnfitError("no test ends it")


def _behind(loop: _Loop, counter: str) -> Sequence[cst.BaseStatement]:
    """Return the lines behind a loop: its counter in Python is one less; what it returns."""
    lines = statements(f"{counter} = {counter} - 1") if counter else []
    if loop.leaves is None:
        return lines
    following = loop.place.following
    then = only(following[0]) if following else None
    inside = returned(loop.leaves)
    if isinstance(then, cst.Return):
        behind = returned(then.value)
        if behind == inside:
            return lines
        choice = f"return torch.cond({_STOP}, lambda: {inside}, lambda: {behind}, ())"
        return [*lines, *statements(choice)]
    if following:
        raise UnfitError("no `return` follows it, and it returns")
    return [*lines, *statements(f"return {inside}")]


def _graphbreak_while(
    goes_on: Any, body: Any, state: Any, used: Any, loose: Any, numbers: Any, tensors: Any
) -> Any:
    """Run a loop as one operator, and return what is used of its state, by name.

    Numbers are tensors in it. What is loose, no round reads before it sets it: it may begin with
    another shape, or as None. Raises TypeError where a name of ``numbers`` is none, or one of
    ``tensors`` is one.
    """
    from torch._higher_order_ops.while_loop import while_loop

    dtypes = {bool: torch.bool, int: torch.int64, float: torch.float64}
    # Filled, not cloned: a value that torch knows as a constant stays one through the loop.
    start: Any = {
        name: torch.full((), one, dtype=dtypes[type(one)])
        if type(one) in dtypes
        else one
        if one is None
        else torch.empty_like(one, memory_format=torch.contiguous_format).copy_(one)
        for name, one in state.items()
    }
    plain = [name for name, one in state.items() if type(one) in dtypes]
    go = goes_on(*start.values())
    made = dict(zip(start, body(*start.values()))) if loose else start  # shapes, dtypes
    for name in loose:
        one, new = start[name], made[name]
        if one is None or (one.shape, one.dtype) != (new.shape, new.dtype):
            if name in used:
                torch._assert_async(go, f"{name} is not set: the loop does not run")
            start[name] = torch.zeros_like(new)
            plain = [x for x in plain if x != name]
    if any(name not in plain for name in numbers) or any(name in plain for name in tensors):
        raise TypeError(f"numbers are to be {numbers}, but not {tensors}")
    every = [*start.values(), *made.values()]
    if any(one.requires_grad for one in every):
        raise RuntimeError("the loop would lose its gradient")
    if plain and any(one.dtype in (torch.bfloat16, torch.float16) for one in every):
        raise TypeError("a number is no tensor of this dtype")

    def again(go: Any, *values: Any) -> Any:
        return go.clone()

    def one_round(go: Any, *values: Any) -> Any:
        results = [one.clone() for one in body(*values)]
        return (goes_on(*results), *results)

    ended = dict(zip(start, while_loop(again, one_round, (go, *start.values()))[1:]))
    return tuple(ended[name].item() if name in plain else ended[name] for name in used)
