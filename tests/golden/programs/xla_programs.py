"""Programs of torch_xla: what cuts a graph in two, on the way to the device."""

from __future__ import annotations

from typing import Final

from tests.golden.situation import Situation

LAZY: Final = """
    import torch
    import torch_xla

    def run():
        x = torch.ones(4, device="xla")
        y = torch.sin(x)
        z = torch.cos(y) * 2
        torch_xla.sync()
        return z
    """
"""Lazy tensors, and one sync."""
COMPILED: Final = """
    import torch
    import torch_xla
    from torch import nn

    class Head(nn.Module):
        def forward(self, x):
            y = torch.sin(x)
            z = y * 2
            return z + 1

    def run():
        compiled = torch.compile(Head(), backend="openxla")
        x = torch.ones(4).to("xla")
        compiled(x)
        torch_xla.sync()
    """
"""A module that is one graph of Dynamo and one of XLA."""
_BETWEEN: Final = "y = torch.sin(x)\n"


def _then(text: str) -> tuple[str, str]:
    """A change: a line more after the first operation."""
    return (_BETWEEN, f"y = torch.sin(x); {text}\n")


ALL: Final = (
    Situation("xla_over_access", LAZY, (_then("y.sum().item()"),)),
    Situation("xla_over_print", LAZY, (_then("print(y)"),)),
    Situation("xla_over_branch", LAZY, (_then("assert y.sum() > 0"),)),
    Situation("xla_over_sync", LAZY, (_then("torch_xla.sync()"),)),
    Situation("xla_over_to_cpu", LAZY, (_then("y.cpu()"),)),
    Situation("xla_over_two_accesses", LAZY, (_then("y.max().item(); y.min().item()"),)),
    Situation(
        "xla_over_backward",
        COMPILED,
        (("compiled(x)", "compiled(x.requires_grad_()).sum().backward()"),),
    ),
    Situation("xla_over_break", COMPILED, (_then("print(); y = y + 1"),)),
    Situation("xla_over_item_in_graph", COMPILED, (_then("y = y * y.max().item()"),)),
    Situation("xla_over_split", COMPILED, (_then("y = y + torch.histc(y, 4)"),)),
    Situation(
        "xla_over_pending",
        COMPILED,
        (('x = torch.ones(4).to("xla")', 'x = torch.ones(4).to("xla") * 3'),),
    ),
    Situation(
        "xla_over_recompile",
        COMPILED,
        (("compiled(x)", 'compiled(x), compiled(torch.ones(5).to("xla"))'),),
    ),
    Situation(
        "xla_over_marker",
        COMPILED,
        (_then("print(); y = y + 1"),),
        mark="max_graphs(dynamo=1)",
        new=True,
    ),
    Situation(
        "xla_over_marker_on_every_layer",
        COMPILED,
        (_then("print(); y = y + 1"),),
        mark="max_graphs(1)",
        new=True,
    ),
    Situation(
        "xla_lost",
        COMPILED,
        (
            ('torch.compile(Head(), backend="openxla")', "Head()"),
            ('torch.ones(4).to("xla")', "torch.ones(4)"),
        ),
    ),
    Situation(
        "xla_lost_compile", COMPILED, (('torch.compile(Head(), backend="openxla")', "Head()"),)
    ),
    Situation("xla_new", LAZY, new=True),
    Situation(
        "xla_improved", LAZY.replace(*_then("y.sum().item()")), (_then("y.sum().item()")[::-1],)
    ),
    Situation(
        "xla_changed", LAZY.replace(*_then("y.sum().item()")), (("y.sum().item()", "print(y)"),)
    ),
)
