"""Graph breaks of ``torch.compile``."""

from __future__ import annotations

from typing import Final

from tests.advice.situations import Situation

HEAD: Final = """
import pytest, torch

"""
LIMIT: Final = "@pytest.mark.max_graphs(1, breaks=0)\n"
CALL: Final = f"""

{LIMIT}def test_it():
    torch.compile(f, backend="eager")(torch.ones(2, 16))
"""
CHOICE: Final = (
    "torch.where(condition, a, b), without .item(), "
    "where both sides only make a tensor of one shape"
)


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
IN_FUNCTION: Final = "torch.where(condition, a, b) in place of the if"
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
        (((IF, "        scores = torch.where(scores.max() > 0.9, scores * 0.5, scores)\n"),),),
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
)
