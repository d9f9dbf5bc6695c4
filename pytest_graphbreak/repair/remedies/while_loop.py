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

    def _goes_on(diff, x, n):
        return torch.logical_and(...)

    def _body(diff, x, n):
        x_new = x - 0.1 * x
        diff = x_new - x
        x = x_new
        n = n + 1
        return (diff, x, n)

    (x,) = _graphbreak_while(_goes_on, _body, {"diff": diff, "x": x, "n": n}, ["x"], ...)
    return x

``break``, ``continue`` and ``return`` at the end of an ``if`` become a flag that the loop carries.
The helper makes numbers tensors for the loop, and gives a value that begins in another shape
(``diff`` has none) that of the loop: the test is worked out at the end of each round, so nothing in
the loop ever reads such a value. What it carries otherwise keeps its shape, and begins in the dtype
that it has at the end of a round if that is a wider one (``torch.zeros(3)`` beside float64).

When not: where something grows, is changed in place, printed or drawn in it; in training; and on an
xla device, which runs such a loop on the host.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import libcst as cst
from libcst import matchers as m

from pytest_graphbreak.model.record import Break
from pytest_graphbreak.repair.patch import Rewrite, SourcePatch, UnfitError, switch
from pytest_graphbreak.repair.rewrite import names
from pytest_graphbreak.repair.rewrite.conditions import condition
from pytest_graphbreak.repair.rewrite.helpers import helper
from pytest_graphbreak.repair.rewrite.jumps import STOP, returned_value, statements_behind
from pytest_graphbreak.repair.rewrite.loop_numbers import kinds
from pytest_graphbreak.repair.rewrite.reasons import may_branch
from pytest_graphbreak.repair.rewrite.rounds import Loop, loop_of, refuse_round, round_of
from pytest_graphbreak.repair.rewrite.tree import Place, body, code, function, rewriting, statements
from pytest_graphbreak.repair.trial import Trial

if TYPE_CHECKING:
    import torch

_ON_THE_HOST: Final = "torch_xla runs it on the host, with a graph or more for each round"
_RANGE: Final = m.Call(func=m.Name("range"), args=[m.Arg(star=""), m.AtMostN(m.Arg(star=""), n=1)])
_SURE: Final = m.Call(args=[m.Arg(m.Integer(m.MatchIfTrue(lambda text: int(text, 0) > 0)))])
"""Matches ``range(9)``, which has a first round."""


def propose(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    if not may_branch(item):
        return
    unfit = _ON_THE_HOST if trial.record.graphs.get("xla") else ""
    helpers = (helper(_graphbreak_state), helper(_graphbreak_while))
    edits = (*helpers, Rewrite(CHANGE, item.where, helper=True))
    title = "the loop became torch.while_loop"
    yield SourcePatch(title, edits, unfit=unfit)
    numbers = (*edits, switch("capture_scalar_outputs"))
    yield SourcePatch(f"{title}, its numbers nodes of the graph", numbers, unfit=unfit)


def to_while_loop(place: Place) -> Sequence[cst.BaseStatement]:
    """Return the statements that take the place of a loop. Raises ``UnfitError``."""
    node = place.node
    if not isinstance(node, cst.While | cst.For) or node.orelse:
        raise UnfitError("it is no loop, or has an `else`")
    lines = body(node.body)
    refuse_round(lines)
    head, tests, counter = _count(node, place)
    counters = {counter} - {""}
    value = returned_value(lines)
    loop, start = loop_of(place, lines, counters, value), names.before(place) | counters
    rounds = round_of(lines, loop, start | set(loop.state), ())
    rounds += statements(f"{counter} = {counter} + 1") if counter else []
    if isinstance(node, cst.While) and not m.matches(node.test, m.Name("True")):
        tests.append(condition(node.test, place))
    if loop.stops:
        head += statements(f"{STOP} = torch.tensor(False)")
        loop.state.append(STOP)
        start.add(STOP)
        tests.append(f"torch.logical_not({STOP})")
    _refuse(loop, tests)
    # The counter of Python stays at the last round, that of the loop is one more.
    ends = statements(f"{counter} = {counter} - 1") if counter in loop.used else []
    ends += statements_behind(place, value)
    loop.used += [STOP] if any(STOP in code(line) for line in ends) else []
    table = kinds(place, lines, loop.state, loop.used, [*loop.carried, STOP], counters)
    return [*head, *_operator(loop, rounds, tests, start, table), *ends]


CHANGE: Final = rewriting(to_while_loop, kinds=(cst.While, cst.For))


def _count(
    node: cst.While | cst.For, place: Place
) -> tuple[list[cst.BaseStatement], list[str], str]:
    """Return the lines before a loop, its tests and its counter: those of ``for i in range``."""
    if isinstance(node, cst.While):
        return [], [], ""
    if not m.matches(node.iter, _RANGE) or not isinstance(node.target, cst.Name):
        raise UnfitError(f"it goes over `{code(node.iter)[:60]}`")
    name, call = node.target.value, cst.ensure_type(node.iter, cst.Call)
    if name in names.bound_names(place, [node.body]):
        raise UnfitError(f"it sets {name}, which counts its rounds")
    if name in names.before(place) & {*names.after(place)} and not m.matches(call, _SURE):
        raise UnfitError(f"{name} is set before it, and stays so where no round runs")
    bounds = [code(argument.value) for argument in call.args]
    first = "0" if len(bounds) == 1 else bounds[0]
    return statements(f"{name} = {first}\n_end = {bounds[-1]}"), [f"{name} < _end"], name


def _refuse(loop: Loop, tests: Sequence[str]) -> None:
    if later := set(names.changed_after(loop.place)) & set(loop.used):
        raise UnfitError(f"{min(later)} is changed in place later, and would be a new tensor")
    if not tests or not loop.state:
        raise UnfitError("no test ends it")


def _operator(
    loop: Loop,
    rounds: Sequence[cst.BaseStatement],
    tests: Sequence[str],
    start: Collection[str],
    table: str,
) -> Sequence[cst.BaseStatement]:
    """Return the two functions of a loop, and its call; None is what is not set before it."""
    both = tests[0] if len(tests) == 1 else f"torch.logical_and({tests[0]}, {tests[1]})"
    arguments = ", ".join(loop.state)
    values = ", ".join(f'"{name}": {name if name in start else None}' for name in loop.state)
    call = f"_graphbreak_while(_goes_on, _body, {{{values}}}, {loop.used}, {table})"
    return [
        function(f"_goes_on({arguments})", statements(f"return {both}")),
        function(f"_body({arguments})", [*rounds, *statements(f"return ({arguments},)")]),
        *statements(f"({', '.join(loop.used)},) = {call}" if loop.used else call),
    ]


def _graphbreak_state(state: Any) -> Any:
    """Return the state of a loop as tensors, and the names of the numbers in it."""
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
    return start, [name for name, value in state.items() if type(value) in dtypes]


# Longer than a function of ours should be: it is pasted, and a fixed file gets one for a loop.
def _graphbreak_while(
    goes_on: Any, body: Any, state: Any, used: Any, loose: Any, numbers: Any, tensors: Any
) -> Any:
    """Run a loop as one operator, and return what is used of its state, by name.

    Numbers are tensors in it. What is loose, no round reads before it sets it: it may begin with
    another shape, or as None. Raises TypeError where a name of ``numbers`` is none, or one of
    ``tensors`` is one.
    """
    from torch._higher_order_ops.while_loop import while_loop

    start, scalars = _graphbreak_state(state)
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
    for name in [name for name in start if name not in (*loose, *scalars)]:
        old, new = start[name].dtype, first[name].dtype
        if old != new == torch.promote_types(old, new):
            torch._assert_async(go, f"{name} is {old}: the loop does not run")
            start[name] = start[name].to(new)
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
