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

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import libcst as cst
from libcst import matchers as m

from pytest_graphbreak.model.record import Break
from pytest_graphbreak.repair.patch import Rewrite, SourcePatch, UnfitError, switch
from pytest_graphbreak.repair.remedies.cond import operator, output_of, refuse, returned
from pytest_graphbreak.repair.rewrite.conditions import READS, condition, tensor
from pytest_graphbreak.repair.rewrite.helpers import helper
from pytest_graphbreak.repair.rewrite.loop_numbers import (
    CONSTANT,
    new_tensors,
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
_SURE: Final = m.Call(args=[m.Arg(m.Integer(m.MatchIfTrue(lambda text: int(text, 0) > 0)))])
"""Matches ``range(9)``, which has a first round."""
_FOREVER: Final = m.While(test=m.Name("True"))
_JUMPS: Final = (cst.Break, cst.Continue, cst.Return)
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
    lines = body(node.body)
    _refuse(lines)
    head, tests, counter = _counted(node, place)
    loop, used, carried = _state(place, lines, counter)
    names = before(place) | ({counter} - {""})
    rounds = _rounds(lines, loop, names | set(loop.state), ())
    rounds += statements(f"{counter} = {counter} + 1") if counter else []
    if isinstance(node, cst.While) and not m.matches(node.test, m.Name("True")):
        tests.append(condition(node.test, place))
    if loop.stops:
        head += statements(f"{_STOP} = torch.tensor(False)")
        loop.state.append(_STOP)
        names.add(_STOP)
        tests.append(f"torch.logical_not({_STOP})")
    _check(used, loop, tests)
    ends = _behind(loop, counter if counter in used else "")
    used += [_STOP] if any(_STOP in code(line) for line in ends) else []
    kinds = _kinds(loop, lines, used, [*carried, _STOP], {counter} - {""})
    return [*head, *_operator(loop, rounds, tests, used, names, kinds), *ends]


def _state(
    place: Place, lines: Sequence[cst.BaseStatement], counter: str
) -> tuple[_Loop, list[str], list[str]]:
    """Return a loop, the names whose values are used behind it, and those a round begins with."""
    node = place.node
    tests = [node.test] if isinstance(node, cst.While) else []
    names, set_before = bound(place, [node]), before(place) | {counter}
    value = _returned(lines)
    behind = {*after(place), *read(place, [value] if value else [])}
    used = [name for name in names if name in behind]
    carried = [
        name
        for name in names
        if name in set_before and (name == counter or reads_first(place, name, lines))
    ]
    every = {*used, *carried, *read(place, tests)}
    return _Loop(place, [name for name in names if name in every], leaves=value), used, carried


def _operator(
    loop: _Loop,
    rounds: Sequence[cst.BaseStatement],
    tests: Sequence[str],
    used: Sequence[str],
    set_before: Collection[str],
    kinds: str,
) -> Sequence[cst.BaseStatement]:
    """Return the two functions of a loop, and its call."""
    both = tests[0] if len(tests) == 1 else f"torch.logical_and({tests[0]}, {tests[1]})"
    names = ", ".join(loop.state)
    values = ", ".join(f'"{name}": {name if name in set_before else None}' for name in loop.state)
    call = f"_graphbreak_while(_goes_on, _body, {{{values}}}, {used}, {kinds})"
    return [
        function(f"_goes_on({names})", statements(f"return {both}")),
        function(f"_body({names})", [*rounds, *statements(f"return ({names},)")]),
        *statements(f"({', '.join(used)},) = {call}" if used else call),
    ]


def _kinds(
    loop: _Loop,
    lines: Sequence[cst.BaseStatement],
    used: Sequence[str],
    carried: Sequence[str],
    counter: set[str],
) -> str:
    """Return the names that are loose, those that have to be numbers, and those that must not."""
    loose = [x for x in loop.state if x not in carried]
    numbers = sorted(numbers_of(lines) & set(loop.state) | counter)
    fresh = new_tensors(lines, numbers) & set(used)
    tensors = sorted((tensors_of(loop.place, numbers) | fresh) & set(loop.state))
    if mixed := set(tensors) & set(numbers):
        raise UnfitError(f"a tensor would not compute like the number {min(mixed)}")
    return f"{loose}, {numbers}, {tensors}"


CHANGE: Final = rewriting(to_while_loop, around=(cst.While, cst.For))


def _refuse(lines: Sequence[cst.BaseStatement]) -> None:
    """Raise ``UnfitError`` for what no round of an operator can do; ``n += 1`` is ``n = n + 1``."""
    every = list(walk(lines))
    skip = {
        id(node)
        for node in every
        if isinstance(node, _JUMPS)
        or (isinstance(node, cst.AugAssign) and isinstance(node.target, cst.Name))
    }
    for line in every:
        if isinstance(line, cst.SimpleStatementLine):
            small = [statement for statement in line.body if id(statement) not in skip]
            refuse([cst.SimpleStatementLine(small)] if small else [])
            if any(m.matches(statement, m.Expr(m.Call())) for statement in small):
                raise UnfitError(f"`{code(line)[:60]}` does something else than compute")
        elif isinstance(line, cst.With | cst.Try | cst.FunctionDef):
            raise UnfitError(f"it holds `{code(line)[:60]}`")


def _returned(lines: Sequence[cst.BaseStatement]) -> cst.BaseExpression | None:
    """Return what a loop returns, or None if it never does. Raises ``UnfitError``.

    One flag tells that it was left, so it is left in one way.
    """
    jumps = [node for node in _jumps(lines) if not isinstance(node, cst.Continue)]
    values = [node.value for node in jumps if isinstance(node, cst.Return)]
    first = values[0] if values else None
    if not values:
        return None
    if first is None or len(values) < len(jumps):
        raise UnfitError("it returns, and is left in another way too")
    if any(value is None or code(value) != code(first) for value in values):
        raise UnfitError("it returns different values")
    return first


def _jumps(nodes: Sequence[cst.CSTNode]) -> list[cst.CSTNode]:
    """Return what ends a round in it: ``break``, ``continue``, ``return``."""
    jumps: list[cst.CSTNode] = []
    for node in nodes:
        if isinstance(node, _JUMPS):
            jumps.append(node)
        elif isinstance(node, cst.For | cst.While):  # its own `break` is none
            jumps += [part for part in walk([node.body]) if isinstance(part, cst.Return)]
            jumps += _jumps([node.orelse] if node.orelse else [])
        else:
            jumps += _jumps(node.children)
    return jumps


def _without_jumps(nodes: Sequence[cst.BaseStatement]) -> None:
    """Raise ``UnfitError`` where what follows in the round would have to know of a jump."""
    for node in _jumps(nodes):
        raise UnfitError(f"`{code(node)}` in it is not at the end of an `if` of the round")


def _counted(
    node: cst.While | cst.For, place: Place
) -> tuple[list[cst.BaseStatement], list[str], str]:
    """Return the lines before a loop, its tests and its counter: those of ``for i in range``."""
    if isinstance(node, cst.While):
        return [], [], ""
    if not m.matches(node.iter, _RANGE) or not isinstance(node.target, cst.Name):
        raise UnfitError(f"it goes over `{code(node.iter)[:60]}`")
    name, call = node.target.value, cst.ensure_type(node.iter, cst.Call)
    if name in bound(place, [node.body]):
        raise UnfitError(f"it sets {name}, which counts its rounds")
    if name in before(place) & {*after(place)} and not m.matches(call, _SURE):
        raise UnfitError(f"{name} is set before it, and stays so where no round runs")
    bounds = [code(argument.value) for argument in call.args]
    first = "0" if len(bounds) == 1 else bounds[0]
    return statements(f"{name} = {first}\n_end = {bounds[-1]}"), [f"{name} < _end"], name


def _rounds(
    lines: Sequence[cst.BaseStatement], loop: _Loop, names: set[str], live: Collection[str]
) -> list[cst.BaseStatement]:
    """Return statements in which flags take the place of jumps, and ops that of branches.

    ``live`` are the names that the round reads behind the lines.
    """
    place, written = loop.place, list[cst.BaseStatement]()
    varying = {*bound(place, [place.node])}
    for at, line in enumerate(lines):
        later = lines[at + 1 :]
        if not isinstance(line, cst.If) or not varying & {*read(place, [line.test])}:
            _without_jumps([line])
            written.append(_computed(line, place))
            names = names | set(bound(place, [line]))
            continue
        if isinstance(line.orelse, cst.If):
            raise UnfitError("it has an `elif`")
        sides = [body(line.body), body(line.orelse.body) if line.orelse else []]
        test, last = condition(line.test, place), only(sides[0][-1])
        if isinstance(last, _JUMPS):
            sides = [sides[0][:-1], [*sides[1], *later]]
            if not isinstance(last, cst.Continue):
                _without_jumps(sides[0])
                written += statements(f"{_STOP} = {test}")
                loop.stops, test = True, _STOP
            return [*written, *_branch(test, sides, loop, names, live)]
        _without_jumps([line])
        written += _branch(test, sides, loop, names, {*live, *read(place, later)})
        names = names | set(bound(place, [line]))
    return written


def _computed(node: cst.BaseStatement, place: Place) -> cst.BaseStatement:
    """Return a line in which numbers that it reads are tensors, and ``n += 1`` is an assignment."""
    statement = only(node)
    if isinstance(statement, cst.AugAssign):
        return cst.SimpleStatementLine([_assignment(statement)])
    reads, constant = m.findall(node, READS), m.Assign(value=CONSTANT)
    if not reads and not m.matches(statement or node, constant):
        # Dynamo works x.T out before the loop, which then has two inputs that share memory.
        turned = [x for x in walk([node]) if isinstance(x, cst.Attribute) and x.attr.value == "T"]
        changes: dict[cst.CSTNode, cst.CSTNode]
        changes = {x: cst.Call(x.with_changes(attr=cst.Name("t"))) for x in turned}
        changes |= {x: _assignment(x) for x in walk([node]) if isinstance(x, cst.AugAssign)}
        return changed(node, changes)
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        raise UnfitError(f"`{code(node)[:60]}` reads a number, or sets two names to one")
    target, value = code(statement.targets[0].target), statement.value
    if not reads:
        double = ", dtype=torch.float64" if isinstance(value, cst.Float) else ""
        return statements(f"{target} = torch.full((), {code(value)}{double})")[0]
    tests = isinstance(value, cst.Comparison | cst.BooleanOperation)
    text = condition(value, place) if tests else tensor(value)
    return statements(f"{target} = {text}.detach().reshape(())")[0]


def _assignment(statement: cst.AugAssign) -> cst.Assign:
    """Return ``n = n + 1`` for ``n += 1``."""
    name, sign = code(statement.target), code(statement.operator).removesuffix("=")
    text = tensor(statement.value) if m.findall(statement, READS) else operand(statement.value)
    line = only(statements(f"{name} = {name} {sign} {text}")[0])
    return cst.ensure_type(line, cst.Assign)


def _branch(
    test: str,
    sides: Sequence[Sequence[cst.BaseStatement]],
    loop: _Loop,
    set_before: set[str],
    live: Collection[str],
) -> Sequence[cst.BaseStatement]:
    """Return ``torch.cond`` for a branch; what it sets and nothing reads stays inside of it."""
    place = loop.place
    names = bound(place, [*sides[0], *sides[1]])
    out = [name for name in names if name in {*loop.state, *live}]
    for name in out:
        if name not in set_before and not all(name in bound(place, side) for side in sides):
            raise UnfitError(f"{name} is set on one side only")
    written = [_rounds(side, loop, set_before, live) for side in sides]
    stops = [_STOP] if any(_STOP in code(line) for side in written for line in side) else []
    out += stops
    results = [f"({', '.join(output_of(name, side) for name in out)},)" for side in written]
    operands = [name for name in (*names, *stops) if name in set_before or name == _STOP]
    return operator(test, written, results, operands, f"({', '.join(out)},) = ") if out else []


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
    result, following = returned(loop.leaves), loop.place.following
    if not following and m.matches(loop.place.node, _FOREVER):
        return [*lines, *statements(f"return {result}")]
    then = only(following[0]) if following else None
    if not isinstance(then, cst.Return) or then.value is None:
        raise UnfitError("no `return` follows it, and it returns")
    behind = returned(then.value)
    if behind == result:
        return lines
    choice = f"return torch.cond({_STOP}, lambda: {result}, lambda: {behind}, ())"
    return [*lines, *statements(choice)]


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
        name: torch.full((), value, dtype=dtypes[type(value)])
        if type(value) in dtypes
        else value
        if value is None
        else torch.empty_like(value, memory_format=torch.contiguous_format).copy_(value)
        for name, value in state.items()
    }
    scalars = [name for name, value in state.items() if type(value) in dtypes]
    go = goes_on(*start.values())
    first = start  # or what a round gives: its shapes, dtypes, and whether it has a gradient
    if loose or torch.is_grad_enabled():
        first = dict(zip(start, body(*start.values())))
    for name in loose:
        old, new = start[name], first[name]
        if old is None or (old.shape, old.dtype) != (new.shape, new.dtype):
            if name in used:
                torch._assert_async(go, f"{name} is not set: the loop does not run")
            start[name] = torch.zeros_like(new)
            scalars = [scalar for scalar in scalars if scalar != name]
    if any(name not in scalars for name in numbers) or any(name in scalars for name in tensors):
        raise TypeError(f"numbers are to be {numbers}, but not {tensors}")
    every = [*start.values(), *first.values()]
    if any(value.requires_grad for value in every):
        raise RuntimeError("the loop would lose its gradient")
    if scalars and any(value.dtype in (torch.bfloat16, torch.float16) for value in every):
        raise TypeError("a number is no tensor of this dtype")

    def again(go: Any, *values: Any) -> Any:
        return go.clone()

    def one_round(go: Any, *values: Any) -> Any:
        results = [value.clone() for value in body(*values)]
        return (goes_on(*results), *results)

    ended = dict(zip(start, while_loop(again, one_round, (go, *start.values()))[1:]))
    return tuple(ended[name].item() if name in scalars else ended[name] for name in used)
