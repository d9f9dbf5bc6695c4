"""Graph breaks of ``torch.compile``."""

from __future__ import annotations

from typing import Final

from tests.advice.situations import Edits, Situation

HEAD: Final = """
import pytest, torch

"""
LIMIT: Final = "@pytest.mark.max_graphs(1, breaks=0)\n"
CALL: Final = f"""

{LIMIT}def test_it():
    torch.compile(f, backend="eager")(torch.ones(2, 16))
"""
REORDER: Final = "torch._dynamo.config.reorderable_logging_functions.add(print)"
PRINTED: Final = f"print after the call, or {REORDER}"
F_STRING: Final = f"one f-string, and {REORDER}; or print after"
IN_PRINT: Final = "keep it a tensor in what is printed, without .item() or float()"
CHOICE: Final = (
    "torch.where or torch.cond on the tensor, without .item(), which breaks here even captured"
)


def switch(line: str) -> tuple[str, str]:
    """Return the edit that puts a setting at the top of a program."""
    return ("import pytest, torch\n", f"import pytest, torch\n{line}\n")


def function(*lines: str) -> str:
    """Return a program whose compiled function has these lines in its middle."""
    body = "".join(f"    {line}\n" for line in lines)
    return f"{HEAD}def f(x):\n    x = x + 1\n{body}    return x * 2\n{CALL}"


def printing(name: str, line: str, said: tuple[str, ...], *ways: Edits) -> Situation:
    """Return a row of a print, which may also be done with after the call."""
    after: Edits = ((f"    {line}\n", ""), (LIMIT, LIMIT), ("16))\n", "16))\n    print('after')\n"))
    return Situation(name, function(line), said, (*ways, after))


README: Final = f"""{HEAD}class Head(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.score = torch.nn.Linear(16, 4)

    def forward(self, features):
        scores = self.score(features).sigmoid()
        if scores.max().item() > 0.9:
            scores = scores * 0.5
        return scores * (scores > 0.5)


{LIMIT}def test_it():
    torch.compile(Head(), backend="eager")(torch.ones(2, 16))
"""
IF: Final = "        if scores.max().item() > 0.9:\n            scores = scores * 0.5\n"

AUTOGRAD: Final = f"""{HEAD}class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        if bool(x.sum() > 0):
            return x * 2
        return x

    @staticmethod
    def backward(ctx, g):
        return g


def f(x):
    return F.apply(x + 1) * 2


{LIMIT}def test_it():
    torch.compile(f, backend="eager")(torch.ones(2, 4, requires_grad=True))
"""
IN_FUNCTION: Final = (
    "torch.where(condition, a, b): in an autograd.Function bool() and captured numbers fail"
)
READ_IN_FUNCTION: Final = (
    "keep it a tensor: captured numbers fail inside of a torch.autograd.Function"
)

SHARDED: Final = f"""
import tempfile
{HEAD}import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.block = torch.nn.Linear(16, 16)

    def forward(self, x):
        return self.block(x + 1) * 2


{LIMIT}def test_it():
    with tempfile.TemporaryDirectory() as there:
        dist.init_process_group("gloo", init_method=f"file://{{there}}/it", rank=0, world_size=1)
        try:
            net = Net()
            fully_shard(net.block, mesh=init_device_mesh("cpu", (1,)))
            net = torch.compile(net, backend="eager")
            net(torch.ones(2, 16))
        finally:
            dist.destroy_process_group()
"""

SITUATIONS: Final = (
    Situation(
        "a block under FSDP",
        SHARDED,
        (
            "block.forward = torch.compile(block.forward) for each block: "
            "the hooks of FSDP are not compiled",
        ),
        (
            (
                ('            net = torch.compile(net, backend="eager")\n', ""),
                (
                    "            net = Net()\n",
                    "            net = Net()\n            net.block.forward = torch.compile("
                    'net.block.forward, backend="eager")\n',
                ),
            ),
            (('            fully_shard(net.block, mesh=init_device_mesh("cpu", (1,)))\n', ""),),
        ),
    ),
    Situation(
        "the README's if on a number",
        README,
        (CHOICE,),
        (
            ((IF, "        scores = torch.where(scores.max() > 0.9, scores * 0.5, scores)\n"),),
            (
                (
                    IF,
                    "        scores = torch.cond(\n"
                    "            scores.max() > 0.9,\n"
                    "            lambda s: s * 0.5, lambda s: s + 0, (scores,),\n"
                    "        )\n",
                ),
            ),
        ),
    ),
    Situation(
        "an assert on a number",
        '"""PYTEST_DONT_REWRITE"""\n' + function('assert x.max().item() < 9, "large"'),
        (
            "assert on the tensor, without .item(), and a constant text: "
            'assert (x < 9).all(), "text"',
        ),
        ((("x.max().item() < 9", "(x < 9).all()"),),),
    ),
    printing("print of a tensor", 'print("mean", x.mean())', (PRINTED,), (switch(REORDER),)),
    printing("print of an f-string", 'print(f"{x.mean()}")', (PRINTED,), (switch(REORDER),)),
    printing(
        "print of a shape",
        'print("pooled", x.shape)',
        (F_STRING,),
        (switch(REORDER), ('print("pooled", x.shape)', 'print(f"pooled {x.shape}")')),
    ),
    printing(
        "print without a line end",
        'print("here", end="")',
        ("print after the call; the switch for print takes no end=, file= or flush=",),
    ),
    printing(
        "print of a number",
        "print(x.sum().item())",
        (IN_PRINT, PRINTED),
        (("x.sum().item()", "x.sum()"), switch(REORDER)),
    ),
    Situation(
        "the switch, and an argument that it does not take",
        f"{REORDER}\n".join(
            function('print("pooled", x.shape)').split("import pytest, torch\n", 1)
        ).replace(REORDER, f"import pytest, torch\n{REORDER}", 1),
        (
            'one f-string, print(f"{...}"): the switch takes text, numbers and tensors; '
            "or after the call",
        ),
        ((('print("pooled", x.shape)', 'print(f"pooled {x.shape}")'),),),
    ),
    Situation(
        "bool() in an autograd.Function",
        AUTOGRAD,
        (IN_FUNCTION,),
        (
            (
                (
                    "        if bool(x.sum() > 0):\n            return x * 2\n        return x\n",
                    "        return torch.where(x.sum() > 0, x * 2, x)\n",
                ),
            ),
        ),
    ),
    Situation(
        "float() in an autograd.Function",
        AUTOGRAD.replace(
            "        if bool(x.sum() > 0):\n            return x * 2\n        return x\n",
            "        return x * float(x.sum())\n",
        ),
        (READ_IN_FUNCTION,),
        ((("float(x.sum())", "x.sum()"),),),
    ),
    *(
        Situation(
            f"an export of an if on a number, {name}",
            f"""{HEAD}class Model(torch.nn.Module):
    def forward(self, x):
        if x.max().item() > 0.5:
            x = x * 2
        return x


{LIMIT}def test_it():
    torch.export.export(Model(), (torch.ones(4),), strict={strict})
""",
            (
                "torch.where(condition, a, b), or torch.cond: both sides in one graph; "
                "or decide outside",
            ),
            (
                (
                    (
                        "        if x.max().item() > 0.5:\n            x = x * 2\n",
                        "        x = torch.where(x.max() > 0.5, x * 2, x)\n",
                    ),
                ),
            ),
            compiles=strict,
        )
        for name, strict in (("strict", True), ("not strict", False))
    ),
)
