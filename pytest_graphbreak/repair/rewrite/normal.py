"""Brings a loop into the form ``while tests: body``, without ``break`` and ``continue``."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pytest_graphbreak.repair.rewrite.branches import checked, refuse, statement
from pytest_graphbreak.repair.rewrite.conditions import STOP, condition
from pytest_graphbreak.repair.rewrite.kinds import kind
from pytest_graphbreak.repair.rewrite.rounds import by_index
from pytest_graphbreak.repair.rewrite.scope import Surroundings, UnfitError, bound, read, walk

_LEAVES: Final = (ast.Break, ast.Continue)
_WHOLE: Final = """\
if isinstance({0}, float) or (isinstance({0}, torch.Tensor) and {0}.is_floating_point()):
    raise TypeError("range() takes integers")"""
_GROWS: Final = ("append", "extend", "insert", "pop")


@dataclass(slots=True)
class Loop:
    """A loop in the normal form, with the lines that set it up."""

    body: list[ast.stmt]
    test: ast.expr | None = None
    """What a ``while`` tests, or None if it is always true."""
    bound: str = ""
    """What a ``for`` tests: ``i < _end``."""
    stops: bool = False
    """Whether ``STOP`` ends it as well."""
    head: list[str] = field(default_factory=list)
    counter: str = ""
    """The name in ``for counter in range(...)``; at the end it is one more than in Python."""
    otherwise: Sequence[ast.stmt] = ()
    """What follows if it was not left: its ``else``."""

    @property
    def reads(self) -> set[str]:
        """The names that decide whether it goes on."""
        names = read([self.test]) if self.test is not None else set()
        return names | ({self.counter} - {""}) | ({STOP} if self.stops else set())

    @property
    def nodes(self) -> list[ast.AST]:
        """Its body and its test."""
        return [*self.body, *([self.test] if self.test is not None else ())]

    def tests(self) -> list[str]:
        """Return what it tests, as expressions of bool tensors. Raises ``UnfitError``."""
        found = [self.bound] if self.bound else []
        found += [condition(self.test)] if self.test is not None else []
        return [*found, *([f"torch.logical_not({STOP})"] if self.stops else ())]

    def choose(self, numbers: set[str], place: Surroundings) -> None:
        """Index by one element where one of ``numbers`` chooses. Raises ``UnfitError``."""
        self.body = by_index(self.body, numbers, place.changed)
        if self.test is not None:
            (changed,) = by_index([ast.Expr(self.test)], numbers, place.changed)
            assert isinstance(changed, ast.Expr)
            self.test = changed.value

    def behind(self, place: Surroundings) -> list[str]:
        """Return the lines for its ``else``. Raises ``UnfitError``."""
        if not self.otherwise:
            return []
        if not self.stops:
            return [line for one in self.otherwise for line in place.source(one)]
        (first, *more) = self.otherwise
        if isinstance(first, ast.Raise) and not more:
            return [checked(STOP, first)]
        left = ast.If(ast.UnaryOp(ast.Not(), ast.Name(STOP, ast.Load())), [*self.otherwise], [])
        return statement(left, replace(place, tensors=frozenset({STOP})))


def normal(node: ast.stmt, inside: Sequence[ast.stmt], place: Surroundings) -> Loop:
    """Return a loop with another body in normal form. Raises ``UnfitError``."""
    if not isinstance(node, ast.While | ast.For):
        raise UnfitError("it is no loop")
    body = _without_break(inside)
    loop = _counted(node, body) if isinstance(node, ast.For) else Loop(body, _tested(node.test))
    loop.stops, loop.otherwise = STOP in bound(body), node.orelse
    if loop.stops:
        loop.head.append(f"{STOP} = False")
    refuse(loop.body, random=True)
    _refuse_growing(loop.body, place)
    if not loop.reads:
        raise UnfitError("no test ends it")
    return loop


def _tested(test: ast.expr) -> ast.expr | None:
    return None if isinstance(test, ast.Constant) and test.value else test


def _refuse_growing(body: Sequence[ast.stmt], place: Surroundings) -> None:
    """Raise ``UnfitError`` if a list from before the loop gets longer in it."""
    for node in walk(body):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _GROWS
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id in place.before
        ):
            raise UnfitError(f"`{ast.unparse(node)[:60]}`: what it carries has a fixed size")


def _counted(node: ast.For, body: list[ast.stmt]) -> Loop:
    """Return ``for i in range(a, b)`` as a loop with its own counter."""
    call = node.iter
    if (
        not isinstance(node.target, ast.Name)
        or not isinstance(call, ast.Call)
        or ast.unparse(call.func) != "range"
        or len(call.args) not in (1, 2)
    ):
        raise UnfitError(f"it goes over `{ast.unparse(call)[:60]}`")
    name = node.target.id if node.target.id != "_" else "_round"
    if name in bound(body):
        raise UnfitError(f"{name} is set in it")
    start = "0" if len(call.args) == 1 else ast.unparse(call.args[0])
    step = ast.parse(f"{name} = {name} + 1").body[0]
    head = [f"{name} = {start}", f"_end = {ast.unparse(call.args[-1])}"]
    for one, value in (("_end", call.args[-1]), *([(name, call.args[0])] if start != "0" else ())):
        if kind(value) != "int":
            head += _WHOLE.format(one).splitlines()
    return Loop([*body, step], bound=f"{name} < _end", head=head, counter=name)


def _without_break(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Return the statements with a flag for ``if t: break``, and none for ``if t: continue``.

    What follows them runs if the test is not true. Raises ``UnfitError``.
    """
    number = next((at for at, one in enumerate(body) if _leaves(one)), None)
    if number is None:
        return list(body)
    leave = body[number]
    assert isinstance(leave, ast.If)
    chosen = leave.body[:-1]
    rest = [*leave.orelse, *body[number + 1 :]]
    rest = _without_break(rest)
    flag: list[ast.stmt] = []
    test = leave.test
    if isinstance(leave.body[-1], ast.Break):
        stop = ast.Assign([ast.Name(STOP, ast.Store())], test)
        flag = [ast.copy_location(stop, leave)]
        test = ast.Name(STOP, ast.Load())
    after: list[ast.stmt] = []
    if chosen:
        after = [ast.If(test, chosen, rest)]
    elif rest:
        after = [ast.If(ast.UnaryOp(ast.Not(), test), rest, [])]
    return [*body[:number], *flag, *after]


def _leaves(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and isinstance(node.body[-1], _LEAVES)
