"""Recompiles of ``torch.compile``."""

from __future__ import annotations

from typing import Final

from tests.advice.situations import Situation
from tests.advice.situations.breaks import HEAD

LIMIT: Final = "@pytest.mark.max_graphs(1, recompiles=0)\n"
A_NUMBER: Final = (
    "one code for all instances: register_buffer for the number, "
    "where no if, index or length depends on it"
)
AN_INDEX: Final = "one code for all instances: pass in what the index selects"


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

STANCE: Final = f"""{HEAD}@torch.compile(backend="eager")
def f(x):
    return x * 2


def test_it():
    torch.compiler.set_stance("default")
    f(torch.ones(4))
"""
LESS: Final = "look for a moved torch.compile, disable, force_eager, a caught error"
FIRST: Final = "give the attribute its first value in __init__, before the first compiled call"
NUMBER: Final = (
    "pass it as a tensor (torch.tensor(n, device=x.device)), "
    "where no if, index or length depends on it"
)


def function(body: str, call: str) -> str:
    """Return a program that calls a compiled function with a call for each ``n``."""
    return f"""{HEAD}@torch.compile(backend="eager")
def f(x, n=1):
    return {body}


{LIMIT}def test_it():
    for n in (4, 5, 9):
        {call}
"""


def module(init: str, *lines: str) -> str:
    """Return a program of a compiled module that is called three times, and has ``init``."""
    body = "".join(f"        {line}\n" for line in lines)
    return f"""{HEAD}class Net(torch.nn.Module):
    rate = 2

    def __init__(self):
        super().__init__()
        {init}

    def forward(self, x):
{body}

{LIMIT}def test_it():
    net = Net()
    model = torch.compile(net, backend="eager")
    assert sum(float(model(torch.ones(()))) for _ in range(3)) == 12
"""


SITUATIONS: Final = (
    Situation(
        "a size",
        function("x * 2", "x = torch.ones(n); assert f(x).shape == (n,)"),
        ("many sizes: torch._dynamo.mark_dynamic(x, 0) before each call",),
        ((("assert f", "torch._dynamo.mark_dynamic(x, 0); assert f"),),),
    ),
    Situation(
        "a number",
        function("x * n", "assert float(f(torch.ones(()), n)) == n"),
        (NUMBER,),
        ((("f(torch.ones(()), n)", "f(torch.ones(()), torch.tensor(n))"),),),
    ),
    Situation(
        "a layout",
        function("x * 2", "f(torch.ones(4, 4) if n < 5 else torch.ones(4, 4).t())")
        .replace("ones(4, 4)", "ones(4, 2)", 1)
        .replace("ones(4, 4).t()", "ones(2, 4).t()"),
        ("make it contiguous() before each call of the compiled function",),
        ((("ones(2, 4).t()", "ones(2, 4).t().contiguous()"),),),
    ),
    Situation(
        "a counter of a module",
        module("self.step = 0", "self.step += 1", "return x * self.step * 2"),
        ("a buffer (register_buffer), where no if, index or length depends on it",),
        ((("self.step = 0", 'self.register_buffer("step", torch.tensor(0))'),),),
    ),
    Situation(
        "None at first",
        module(
            "self.sum = None",
            "self.sum = x if self.sum is None else self.sum + x",
            "return self.sum * 2",
        ),
        (FIRST,),
        ((("self.sum = None", "self.sum = torch.zeros(())"),),),
    ),
    Situation(
        "not there at first",
        module(
            "pass", "self.sum = self.sum + x if hasattr(self, 'sum') else x", "return self.sum * 2"
        ),
        (FIRST,),
        ((("        pass\n", "        self.sum = torch.zeros(())\n"),),),
    ),
    Situation(
        "an attribute of the class that becomes one of the instance",
        module("pass", "y = x * self.rate * 2", "self.rate = 2", "return y"),
        (FIRST,),
        ((("        pass\n", "        self.rate = 2\n"),),),
    ),
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
        ),
    ),
    Situation(
        "two models of one class, with other sizes",
        MODELS,
        (),
        (),
        ("(another Model: x has shape [2, 8] now)",),
    ),
)
