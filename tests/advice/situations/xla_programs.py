"""Device graphs of torch_xla, lazy and compiled by openxla."""

from __future__ import annotations

from typing import Final

from tests.advice.situations import Situation

HEAD: Final = """
import pytest, torch, torch_xla

device = torch_xla.device()
"""
MASK: Final = (
    "torch.where(mask, x, 0), where it is summed: the size of x[mask] is read from the device"
)
INDEX: Final = (
    "index_copy_ (to write), index_select (to read) with a tensor: "
    "a Python index is a constant here"
)

SITUATIONS: Final = (
    Situation(
        "a smaller last batch",
        f"""{HEAD}
@pytest.mark.max_graphs(xla=1)
def test_it():
    weight = torch.ones(3, 16).to(device)
    torch_xla.sync()
    for x in torch.utils.data.DataLoader(torch.ones(21, 16), batch_size=8):
        y = torch.nn.functional.linear(x.to(device), weight)
        torch_xla.sync()
""",
        (),
        (
            (("batch_size=8", "batch_size=8, drop_last=True"),),
            (
                (
                    "        y = ",
                    "        x = torch.nn.functional.pad(x, (0, 0, 0, 8 - len(x)))\n        y = ",
                ),
            ),
        ),
        ("as many inputs and outputs as before",),
    ),
    Situation(
        "a rate that is equal to another number",
        f"""{HEAD}
@pytest.mark.max_graphs(xla=1)
def test_it():
    x = torch.ones(8).to(device)
    torch_xla.sync()
    for rate in (0.1, 1e-8, 0.2):
        y = x * rate + 1e-8
        torch_xla.sync()
""",
        (),
        (
            (("x * rate", "x * torch.tensor([rate]).to(device)"),),
            (("(0.1, 1e-8, 0.2)", "(0.1, 1.1e-8, 0.2)"),),
        ),
    ),
    Situation(
        "a cache that is written in place",
        f"""{HEAD}
@torch.compile(backend="openxla")
def step(x, cache, at):
    cache[:, at] = x
    return cache.sum()


@pytest.mark.max_graphs(xla=1)
def test_it():
    cache = torch.zeros(1, 8).to(device)
    for at in range(3):
        step(torch.ones(1).to(device), cache, at).cpu()
""",
        (INDEX,),
        (
            (
                ("    cache[:, at] = x\n", "    cache.index_copy_(1, at, x[None])\n"),
                ("cache, at).cpu()", "cache, torch.tensor([at]).to(device)).cpu()"),
            ),
        ),
    ),
    Situation(
        "a boolean mask",
        f"""{HEAD}
@pytest.mark.max_graphs(xla=1)
def test_it():
    x = torch.arange(8.0).to(device) - 3
    y = x[x > 0].sum()
    torch_xla.sync()
""",
        (MASK,),
        ((("x[x > 0]", "torch.where(x > 0, x, 0)"),),),
    ),
)
