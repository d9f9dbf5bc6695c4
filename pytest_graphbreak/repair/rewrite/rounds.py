"""The body of a loop as one round of an operator: flags for jumps, ``torch.cond`` for branches."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import libcst as cst
from libcst import matchers as m
from msgspec import Struct

from pytest_graphbreak.repair.patch import UnfitError
from pytest_graphbreak.repair.rewrite.conditions import READS, condition, tensor
from pytest_graphbreak.repair.rewrite.jumps import JUMPS, STOP, refuse_jumps
from pytest_graphbreak.repair.rewrite.loop_numbers import CONSTANT
from pytest_graphbreak.repair.rewrite.names import after, before, bound_names, read, reads_first
from pytest_graphbreak.repair.rewrite.operators import cond_of, output_of, refuse
from pytest_graphbreak.repair.rewrite.tree import (
    Place,
    body,
    code,
    only,
    operand,
    replace_nodes,
    statements,
    walk,
)


class Loop(Struct):
    """A loop while its rounds are written."""

    place: Place
    used: list[str]
    """The names whose values are used behind it."""
    carried: list[str]
    """The names whose values a round begins with."""
    state: list[str]
    """All of these, and what its test reads."""
    stops: bool = False
    """Whether a ``break`` or a ``return`` ends it."""


def loop_of(
    place: Place,
    lines: Sequence[cst.BaseStatement],
    counters: set[str],
    value: cst.BaseExpression | None,
) -> Loop:
    """Return a loop with the names of its state; ``value`` is what a ``return`` in it gives."""
    node = place.node
    names, start = bound_names(place, [node]), before(place) | counters
    behind = {*after(place), *read(place, [value] if value else [])}
    carried = [
        name
        for name in names
        if name in start and (name in counters or reads_first(place, name, lines))
    ]
    tests = [node.test] if isinstance(node, cst.While) else []
    state = {*behind, *carried, *read(place, tests)}
    return Loop(
        place,
        [name for name in names if name in behind],
        carried,
        [name for name in names if name in state],
    )


def refuse_round(lines: Sequence[cst.BaseStatement]) -> None:
    """Raise ``UnfitError`` for what no round of an operator can do; ``n += 1`` is ``n = n + 1``."""
    nodes = list(walk(lines))
    skip = {
        id(node)
        for node in nodes
        if isinstance(node, JUMPS)
        or (isinstance(node, cst.AugAssign) and isinstance(node.target, cst.Name))
    }
    for line in nodes:
        if isinstance(line, cst.SimpleStatementLine):
            small = [statement for statement in line.body if id(statement) not in skip]
            refuse([cst.SimpleStatementLine(small)] if small else [])
            if any(m.matches(statement, m.Expr(m.Call())) for statement in small):
                raise UnfitError(f"`{code(line)[:60]}` does something else than compute")
        elif isinstance(line, cst.With | cst.Try | cst.FunctionDef):
            raise UnfitError(f"it holds `{code(line)[:60]}`")


def round_of(
    lines: Sequence[cst.BaseStatement], loop: Loop, names: set[str], live: Collection[str]
) -> list[cst.BaseStatement]:
    """Return the lines of a round. Raises ``UnfitError``.

    ``names`` are those that are set when it begins, ``live`` those that it reads behind the lines.
    """
    place, written = loop.place, list[cst.BaseStatement]()
    varying = {*bound_names(place, [place.node])}
    for at, line in enumerate(lines):
        later = lines[at + 1 :]
        if not isinstance(line, cst.If) or not varying & {*read(place, [line.test])}:
            refuse_jumps([line])
            written.append(_with_tensors(line, place))
            names = names | set(bound_names(place, [line]))
            continue
        if isinstance(line.orelse, cst.If):
            raise UnfitError("it has an `elif`")
        sides = [body(line.body), body(line.orelse.body) if line.orelse else []]
        test, last = condition(line.test, place), only(sides[0][-1])
        if isinstance(last, JUMPS):
            sides = [sides[0][:-1], [*sides[1], *later]]
            if not isinstance(last, cst.Continue):
                refuse_jumps(sides[0])
                written += statements(f"{STOP} = {test}")
                loop.stops, test = True, STOP
            return [*written, *_branch(test, sides, loop, names, live)]
        refuse_jumps([line])
        written += _branch(test, sides, loop, names, {*live, *read(place, later)})
        names = names | set(bound_names(place, [line]))
    return written


def _branch(
    test: str,
    sides: Sequence[Sequence[cst.BaseStatement]],
    loop: Loop,
    names: set[str],
    live: Collection[str],
) -> Sequence[cst.BaseStatement]:
    """Return ``torch.cond`` for a branch; what it sets and nothing reads stays inside of it."""
    place = loop.place
    targets = bound_names(place, [*sides[0], *sides[1]])
    out = [name for name in targets if name in {*loop.state, *live}]
    for name in out:
        if name not in names and not all(name in bound_names(place, side) for side in sides):
            raise UnfitError(f"{name} is set on one side only")
    written = [round_of(side, loop, names, live) for side in sides]
    stops = [STOP] if any(STOP in code(line) for side in written for line in side) else []
    out += stops
    results = [f"({', '.join(output_of(name, side) for name in out)},)" for side in written]
    operands = [name for name in (*targets, *stops) if name in names or name == STOP]
    return cond_of(test, written, results, operands, f"({', '.join(out)},) = ") if out else []


def _with_tensors(node: cst.BaseStatement, place: Place) -> cst.BaseStatement:
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
        return replace_nodes(node, changes)
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
