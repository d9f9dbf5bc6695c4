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
INFERENCE: Final = (
    "make it under torch.no_grad(), in the warm-up too, or pass x.clone(), "
    "in place of inference_mode"
)
A_MEMBER: Final = (
    "a graph for each member: keep to a few, or choose by it outside of the compiled function"
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

FUNCTION: Final = f"""{HEAD}@torch.compile(backend="eager")
def f(x):
    return x * 2


{LIMIT}def test_it():
    with torch.inference_mode():
        x = torch.ones(4)
    f(torch.ones(4))
    f(x)
"""

ENUM: Final = f"""
import enum
{HEAD}class Mode(enum.Enum):
    DOUBLE = 2
    TRIPLE = 3


@torch.compile(backend="eager")
def f(x, mode):
    return x * 2 if mode is Mode.DOUBLE else x * 3


{LIMIT}def test_it():
    f(torch.ones(4), Mode.DOUBLE)
    f(torch.ones(4), Mode.TRIPLE)
"""

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
    Situation(
        "an inference tensor",
        FUNCTION,
        (INFERENCE,),
        (
            (("torch.inference_mode()", "torch.no_grad()"),),
            (("    f(x)\n", "    f(x.clone())\n"),),
        ),
    ),
    Situation(
        "members of an enum",
        ENUM,
        (A_MEMBER,),
        (
            (
                (
                    "def f(x, mode):\n    return x * 2 if mode is Mode.DOUBLE else x * 3\n",
                    "def f(x, factor):\n    return x * factor\n",
                ),
                (
                    "    f(torch.ones(4), Mode.DOUBLE)\n",
                    "    f(torch.ones(4), torch.tensor(Mode.DOUBLE.value))\n",
                ),
                (
                    "    f(torch.ones(4), Mode.TRIPLE)\n",
                    "    f(torch.ones(4), torch.tensor(Mode.TRIPLE.value))\n",
                ),
            ),
        ),
        ("mode is Mode.TRIPLE now",),
    ),
)
