"""Lines of inlined functions: noted in the graph, written in their order when the call ends."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch._dynamo
from torch._dynamo.testing import CompileCounterWithBackend

from pytest_graphbreak.repair.remedies.programs import program
from tests.repair.test_sound import bits, loaded

PROGRAM = """
lines = []


@torch.compiler.disable
def writes(name, y):
    lines.append((name, y.tolist() if isinstance(y, torch.Tensor) else list(y)))
    if name == "bad":
        raise ValueError(name)


def part(x, name):
    y = x * 2
    _graphbreak_note("writes", [name, y])
    y.add_(1)
    return y.sin()


@torch.compiler.disable
def outside(x):
    y = part(x, "outside")
    lines.append("what it writes itself")
    return y


@torch.compiler.disable
def fails(x):
    raise ValueError("it ends here")


@torch.compiler.disable
def calls(x):
    return compiled(x)


def compiled(x):
    return part(x, "inside")


def f(x):
"""
BODIES = {
    "two parts": (1, "return part(part(x, 'a'), 'b')"),
    "a loop": (1, "for n in range(3):\n    x = part(x, n)\nreturn x"),
    "a side of a branch": (1, "return part(x, 'a') if x.dim() else part(x, 'b')"),
    "a break": (2, "x = part(x, 'a')\ntorch._dynamo.graph_break()\nreturn part(x, 'b')"),
    "an eager part": (2, "x = outside(part(x, 'a'))\nreturn part(x, 'b')"),
    "a compiled call in an eager part": (3, "x = calls(part(x, 'a'))\nreturn part(x, 'b')"),
    "an error": (1, "return fails(part(x, 'a'))"),
    "an error of the line": (1, "x = part(x, 'a')\nx = part(x, 'bad')\nreturn part(x, 'b')"),
    "a list": (
        2,
        "held = [1]\nx = part(x, 'a')\n_graphbreak_note('writes', ['b', held])\n"
        "held.append(2)\nreturn part(x, 'c')",
    ),
}
"""Each with its graphs, as a function that calls others."""


def outcome(space: dict[str, Any], function: Any) -> list[Any]:
    """What three calls give and write, each with an error that it raises."""
    found: list[Any] = []
    for n in range(3):
        try:
            found.append(bits(function(torch.full((3,), n / 8))))
        except ValueError as error:
            found.append(str(error))
        found.append(space["lines"][:])
        space["lines"].clear()
    return found


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", sorted(BODIES))
def test_lines_are_those_of_the_program_in_their_order(name: str, backend: str) -> None:
    torch._dynamo.reset()
    graphs, body = BODIES[name]
    text = PROGRAM + "".join(f"    {line}\n" for line in body.splitlines())
    plain, patched = loaded(program("notes"), text), loaded(program("notes"), text)
    counter = CompileCounterWithBackend(backend)

    def compiled(function: Any) -> Any:
        inner = torch.compile(function, backend=counter)
        return patched["_graphbreak_flush"](function, inner)

    patched["compiled"] = compiled(patched["compiled"])
    wanted = outcome(plain, plain["f"])
    assert all(wanted)
    assert outcome(patched, compiled(patched["f"])) == wanted
    assert counter.frame_count == graphs
    assert patched["_graphbreak_notes"] == []


def test_a_line_is_written_at_once_in_code_that_is_compiled_in_another_way() -> None:
    torch._dynamo.reset()
    space = loaded(program("notes"), PROGRAM + "    return part(x, 'a')\n")
    counter = CompileCounterWithBackend("eager")
    compiled = torch.compile(space["f"], backend=counter)
    for call, graphs in ((space["_graphbreak_flush"](space["f"], compiled), 1), (compiled, 3)):
        call(torch.ones(1))
        assert space["lines"] == [("a", [2.0])]
        assert counter.frame_count == graphs
        space["lines"].clear()
