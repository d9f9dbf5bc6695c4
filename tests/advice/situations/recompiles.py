"""Recompiles of ``torch.compile``."""

from __future__ import annotations

from typing import Final

from tests.advice.situations import Situation
from tests.advice.situations.breaks import HEAD

LIMIT: Final = "@pytest.mark.max_graphs(1, recompiles=0)\n"
ALL_INSTANCES: Final = (
    "one code for all instances: compile what holds them, or expect a graph for each that differs"
)
A_NUMBER: Final = (
    "one code for all instances: register_buffer for a number to compute with, "
    "or compile the holder"
)
AN_INDEX: Final = (
    "one code for all instances: pass in what the index selects, or compile what holds them"
)


def blocks(init: str, result: str, call: str = "block(x)") -> str:
    """Return a program of three compiled blocks that are called one after the other."""
    return f"""{HEAD}class Block(torch.nn.Module):
    def __init__(self, number):
        super().__init__()
        {init}

    def forward(self, x, *more):
        return {result}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block(number) for number in range(3))
        for block in self.blocks:
            block.compile(backend="eager")

    def forward(self, x):
        cache = [torch.ones(16), torch.ones(16), torch.ones(16)]
        for block in self.blocks:
            x = {call}
        return x


{LIMIT}def test_it():
    with torch.no_grad():
        net = Net()
        net(torch.ones(2, 16))
"""


WHOLE: Final = (
    ('        for block in self.blocks:\n            block.compile(backend="eager")\n', ""),
    ("        net = Net()\n", '        net = torch.compile(Net(), backend="eager")\n'),
)
"""Compiles what holds the blocks, and not each of them."""

MODELS: Final = f"""{HEAD}class Model(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = torch.nn.Linear(size, size)

    def forward(self, x):
        return self.linear(x)


@pytest.mark.max_graphs(2, recompiles=0)
def test_it():
    for size in (16, 8):
        torch.compile(Model(size), backend="eager")(torch.ones(2, size))
"""
EXPECTED: Final = (("@pytest.mark.max_graphs(2, recompiles=0)", "@pytest.mark.max_graphs(2)"),)
"""The recompile of the second model, which is expected, is allowed."""

STANCE: Final = f"""{HEAD}@torch.compile(backend="eager")
def f(x):
    return x * 2


def test_it():
    torch.compiler.set_stance("default")
    f(torch.ones(4))
"""
LESS: Final = (
    "look for a torch.compile that is gone or has less in it, torch.compiler.disable, "
    'set_stance("force_eager"), an exception that is caught'
)
SITUATIONS: Final = (
    *(
        Situation(
            f"the stance {stance}",
            STANCE.replace("default", stance),
            (LESS,),
            (((stance, "default"),),),
            (f'torch.compiler.set_stance("{stance}") at test_it.py:9: {effect}',),
            recorded=((stance, "default"),),
        )
        for stance, effect in (
            ("force_eager", "everything runs without the compiler"),
            ("eager_on_recompile", "what is not compiled yet runs without the compiler"),
        )
    ),
    Situation(
        "a number of each block",
        blocks("self.number = number", "x * self.number"),
        (A_NUMBER,),
        (
            (
                (
                    "self.number = number",
                    'self.register_buffer("number", torch.tensor(number))',
                ),
            ),
            WHOLE,
        ),
        ("another Block in each call, with another value of self.number: 1, 2",),
    ),
    Situation(
        "an index of each block",
        blocks("self.number = number", "x * more[0][self.number]", "block(x, cache)"),
        (AN_INDEX,),
        (
            (
                ("more[0][self.number]", "more[0]"),
                ("block(x, cache)", "block(x, cache[block.number])"),
            ),
            WHOLE,
        ),
    ),
    Situation(
        "two models of one class, with other sizes",
        MODELS,
        (ALL_INSTANCES,),
        (EXPECTED,),
        ("(another Model: x has shape [2, 8] now)",),
    ),
)
