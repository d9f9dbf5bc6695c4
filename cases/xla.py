"""Small device programs with known graphs, for the tests of the xla observer.

Each case says how many graphs the PJRT client compiles when the case runs
alone in a fresh process, and for each graph its cause and the text of the line
that it belongs to. Counts were established by the raw ``CompileTime`` metric in
fresh processes (``test_xla.py`` does it again); causes and places were written
by hand.

A case takes no arguments and may be run any number of times in a process.
"""

from __future__ import annotations

import functools
import io
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met
import torch_xla.experimental
from torch import nn


@dataclass(frozen=True)
class Why:
    """What is expected of one graph: its cause, the text of its line, words of its reason."""

    cause: str
    code: str
    reason: str = ""


@dataclass(frozen=True)
class Case:
    name: str
    run: Callable[[], Any]
    graphs: int
    why: tuple[Why, ...]
    dynamo: int = 0
    """Graphs that the case makes on the dynamo layer."""
    recompiles: int = 0
    """Recompiles of the xla layer itself: new shapes of one FX graph, or of one lazy line."""


CASES: dict[str, Case] = {}


def case(
    *why: tuple[str, ...], dynamo: int = 0, recompiles: int = 0
) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Register a case. Every ``why`` is one graph: cause, line, and words of the reason."""

    def register(run: Callable[[], Any]) -> Callable[[], Any]:
        expected = tuple(Why(*item) for item in why)
        name = run.__name__
        CASES[name] = Case(name, run, len(expected), expected, dynamo, recompiles)
        return run

    return register


def tensor(*shape: int) -> torch.Tensor:
    """Values on the device, with no work pending on them."""
    return (torch.arange(float(torch.Size(shape).numel())).reshape(shape) * 0.25 + 0.5).to("xla")


# --- lazy tensors -----------------------------------------------------------------------


@case()
def nothing() -> None:
    pass


@case()
def upload_only() -> None:
    torch.ones(3).to("xla").cpu()


@case()
def sync_with_nothing_pending() -> None:
    tensor(3)
    torch_xla.sync()


@case()
def result_dropped_before_sync() -> None:
    y = tensor(3) + 1
    del y
    torch_xla.sync()


@case(("sync", "torch_xla.sync()  # one op"))
def lazy_op_and_sync() -> None:
    y = tensor(3) + 1
    torch_xla.sync()  # one op
    del y


@case(("sync", "torch_xla.sync()  # twice"))
def same_graph_twice() -> None:
    for _ in range(2):
        y = tensor(3) + 1
        torch_xla.sync()  # twice
        del y


@case(
    ("sync", "torch_xla.sync()  # shape"),
    (
        "recompile",
        "torch_xla.sync()  # shape",
        "as many inputs and outputs as before",
    ),
    recompiles=1,
)
def two_shapes() -> None:
    for size in (3, 4):
        y = tensor(size) + 1
        torch_xla.sync()  # shape
        del y


@case(("sync", "torch_xla.sync()  # factor"))
def python_floats_are_inputs() -> None:
    for factor in (1.5, 2.5, 3.5):
        y = tensor(3) * factor
        torch_xla.sync()  # factor
        del y


@case(
    ("sync", "torch_xla.sync()  # special"),
    ("recompile", "torch_xla.sync()  # special", "explicit sync compiles its graph again"),
    ("recompile", "torch_xla.sync()  # special", "explicit sync compiles its graph again"),
    recompiles=2,
)
def zero_and_one_are_constants() -> None:
    for term in (0, 1, 2, 3):
        y = tensor(3) * term
        torch_xla.sync()  # special
        del y


@case(("sync", "xm.mark_step()"))
def mark_step() -> None:
    y = tensor(3) + 1
    xm.mark_step()
    del y


@case(
    ("access", "y.sum().item()", ".item()"),
    ("sync", "torch_xla.sync()  # after item"),
)
def item_between() -> None:
    y = tensor(3) + 1
    y.sum().item()
    z = y * 2
    torch_xla.sync()  # after item
    del z


@case(("access", "print(y, file=io.StringIO())", "print"))
def printed() -> None:
    y = tensor(3) + 1
    print(y, file=io.StringIO())


@case(("access", 'f"{y}"'))
def formatted() -> None:
    y = tensor(3) + 1
    f"{y}"


@case(("access", "if y.sum() > 0:", "if"))
def branch_on_value() -> None:
    y = tensor(3) + 1
    if y.sum() > 0:
        y += 1


@case(("access", "y.tolist()", ".tolist()"))
def to_list() -> None:
    y = tensor(3) + 1
    y.tolist()


@case(("access", "y.cpu()", ".cpu()"))
def to_cpu() -> None:
    y = tensor(3) + 1
    y.cpu()


@case(
    ("access", "while y.sum() < 20:", "while"),
    ("recompile", "while y.sum() < 20:", "while"),
    recompiles=1,
)
def loop_on_value() -> None:
    y = tensor(3) + 1
    while y.sum() < 20:
        y = y * 4


@case(("access", "torch.equal(x + 1, x * 2)", "aten::equal runs on the CPU"))
def equal() -> None:
    x = tensor(3)
    torch.equal(x + 1, x * 2)


@case(
    ("access", "return float(value.mean())", "float()"),
    ("recompile", "return float(value.mean())", "float() compiles its graph again"),
    ("recompile", "return float(value.mean())", "float() compiles its graph again"),
    recompiles=2,
)
def read_at_each_step() -> None:
    total = tensor(3)
    for _ in range(3):
        total = torch.cat([total, total])
        read_mean(total)


def read_mean(value: torch.Tensor) -> float:
    return float(value.mean())


@case(
    ("access", "h = torch.histc(y, 4)", "aten::histc runs on the CPU"),
    ("sync", "torch_xla.sync()  # after histc"),
)
def histc_between() -> None:
    y = tensor(8) + 1
    h = torch.histc(y, 4)
    z = h * 2
    torch_xla.sync()  # after histc
    del z


@case(
    ("access", "picked = y[y > 1]", "aten::nonzero runs on the CPU"),
    ("sync", "torch_xla.sync()  # after mask"),
)
def mask_index() -> None:
    y = tensor(3) + 1
    picked = y[y > 1]
    picked += 1
    torch_xla.sync()  # after mask


@case()
def cpu_op_on_settled_data() -> None:
    torch.histc(tensor(8), 4)


@case(("sync", "torch_xla.sync()  # in a thread"))
def sync_in_a_thread() -> None:
    def work() -> None:
        y = tensor(3) + 1
        torch_xla.sync()  # in a thread
        del y

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


@case(("access", "y.sum().item()  # in a thread"))
def item_in_a_thread() -> None:
    def work() -> None:
        y = tensor(3) + 1
        y.sum().item()  # in a thread

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


@case(
    ("access", "y.cpu()  # at once", ".cpu()"),
    *[("recompile", "y.cpu()  # at once", ".cpu()")] * 5,
    recompiles=5,
)
def two_threads_at_once() -> None:
    def work(first: int) -> None:
        for size in range(first, first + 3):
            y = tensor(size, size) @ tensor(size, size)
            y.cpu()  # at once

    threads = [threading.Thread(target=work, args=(first,)) for first in (20, 30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@case(
    ("sync", "torch_xla.sync()  # before"),
    ("sync", "torch_xla.sync()  # after"),
    ("access", "y.cpu()  # last"),
)
def metrics_cleared_inside() -> None:
    # A run that ends between our reading of the metrics and their clearing would be lost.
    y = tensor(3) + 1
    torch_xla.sync()  # before
    xm.wait_device_ops()
    met.clear_all()
    y = y * 2 - 1
    torch_xla.sync()  # after
    xm.wait_device_ops()
    met.clear_metrics()
    y = y / 3
    y.cpu()  # last


@case()
def eager_mode() -> None:
    with torch_xla.experimental.eager_mode_context(True):
        y = tensor(3) + 1
        y = y * 2
        torch_xla.sync()


# --- lazy autograd ----------------------------------------------------------------------


@case(("sync", "torch_xla.sync()  # loss and gradients"))
def backward_and_sync() -> None:
    w = tensor(3).requires_grad_()
    (w * 2).sum().backward()
    torch_xla.sync()  # loss and gradients


@case(
    ("access", "q, r = torch.linalg.qr(w + 0.0)", "aten::linalg_qr"),
    ("backward", "(q.sum() + r.sum()).backward()"),
    ("sync", "torch_xla.sync()  # after qr"),
)
def qr_backward() -> None:
    w = (tensor(3, 3) + torch.eye(3).to("xla")).requires_grad_()
    q, r = torch.linalg.qr(w + 0.0)
    (q.sum() + r.sum()).backward()
    torch_xla.sync()  # after qr


@case(
    ("access", "torch.logcumsumexp(w * 2, 0).sum().backward()", "_logcumsumexp"),
    ("backward", "torch.logcumsumexp(w * 2, 0).sum().backward()"),
    ("backward", "torch.logcumsumexp(w * 2, 0).sum().backward()"),
    ("sync", "torch_xla.sync()  # after logcumsumexp"),
)
def logcumsumexp_backward() -> None:
    w = tensor(4).requires_grad_()
    torch.logcumsumexp(w * 2, 0).sum().backward()
    torch_xla.sync()  # after logcumsumexp


@case(
    ("access", 'up = torch.nn.functional.interpolate(w * 2, scale_factor=2, mode="bicubic")'),
    ("backward", "torch.autograd.grad(up.sum(), [w])"),
)
def bicubic_grad() -> None:
    w = tensor(1, 1, 4, 4).requires_grad_()
    up = torch.nn.functional.interpolate(w * 2, scale_factor=2, mode="bicubic")
    torch.autograd.grad(up.sum(), [w])


@case(
    ("access", "return float(grad.sum())", "float()"),
    ("sync", "torch_xla.sync()  # hooked"),
)
def value_read_in_a_gradient_hook() -> None:
    w = tensor(3).requires_grad_()

    def hook(grad: torch.Tensor) -> Any:
        return read_grad(grad) and None

    w.register_hook(hook)
    (w * 2).sum().backward()
    torch_xla.sync()  # hooked


def read_grad(grad: torch.Tensor) -> float:
    return float(grad.sum())


@case(
    ("sync", "torch_xla.sync()  # step"),
)
def lazy_training_loop() -> None:
    model = nn.Linear(3, 1).to("xla")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(tensor(2, 3)).sum().backward()
        optimizer.step()
        torch_xla.sync()  # step


@case(
    ("sync", "xm.optimizer_step(optimizer, barrier=True)"),
)
def optimizer_step_with_barrier() -> None:
    model = nn.Linear(3, 1).to("xla")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(tensor(2, 3)).sum().backward()
        xm.optimizer_step(optimizer, barrier=True)


# --- torch_xla.compile ------------------------------------------------------------------


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1


@case(("sync", "y = compiled(tensor(3))  # native", "torch_xla.compile"))
def native_compile() -> None:
    compiled = torch_xla.compile(double)
    for _ in range(2):
        y = compiled(tensor(3))  # native
        del y


@case(
    ("pending", "y = compiled(x)  # with work before"),
    ("sync", "y = compiled(x)  # with work before"),
)
def native_compile_with_work_before() -> None:
    x = tensor(3) - 1
    compiled = torch_xla.compile(double)
    y = compiled(x)  # with work before
    del y


def double_if(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    if y.sum() > 0:
        y = y + 1
    return y


@case(("sync", "compiled(tensor(3))  # must be whole"))
def native_full_graph_violated() -> None:
    compiled = torch_xla.compile(double_if, full_graph=True)
    with pytest.raises(RuntimeError, match="Unexpected execution"):
        compiled(tensor(3))  # must be whole


@case(("sync", "compiled(tensor(3), False)"))
def native_too_many_graphs() -> None:
    def either(x: torch.Tensor, more: bool) -> torch.Tensor:
        return torch.sin(x) if more else torch.cos(x)

    compiled = torch_xla.compile(either, max_different_graphs=1)
    compiled(tensor(3), False)
    with pytest.raises(RuntimeError, match="Maximum number of different graphs"):
        compiled(tensor(3), True)


# --- torch.compile(backend="openxla") ---------------------------------------------------


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend="openxla", **options)


@case(("fx", "return x * 2 + 1"), dynamo=1)
def compiled_three_calls() -> None:
    run = compiled(double)
    for _ in range(3):
        run(tensor(3))


@case(
    ("fx", "return x * 2 + 1"),
    ("access", "run(tensor(3)).sum().item()", ".item()"),
    dynamo=1,
)
def compiled_then_read() -> None:
    run = compiled(double)
    run(tensor(3)).sum().item()


@case(
    ("pending", "run(tensor(3) + 1)  # pending", "x"),
    ("fx", "return x * 2 + 1"),
    dynamo=1,
)
def compiled_with_pending_input() -> None:
    run = compiled(double)
    run(tensor(3) + 1)  # pending


@case(
    ("fx", "return x * 2 + 1"),
    ("pending", "run(x)  # pending later", "x"),
    dynamo=1,
)
def compiled_with_pending_input_later() -> None:
    run = compiled(double)
    run(tensor(3))
    x = tensor(3) + 1
    run(x)  # pending later


@case(
    ("fx", "return x * 2 + 1"),
    ("pending", "run(y - 1)  # between", "x"),
    dynamo=1,
)
def lazy_op_between_compiled_calls() -> None:
    run = compiled(double)
    y = run(tensor(3))
    run(y - 1)  # between


def with_break(x: torch.Tensor) -> torch.Tensor:
    y = torch.sin(x)
    torch._dynamo.graph_break()
    return torch.cos(y)


@case(("fx", "y = torch.sin(x)"), ("fx", "return torch.cos(y)"), dynamo=2)
def compiled_with_break() -> None:
    compiled(with_break)(tensor(3))


def with_item(x: torch.Tensor) -> torch.Tensor:
    total = x.sum()
    return x * total.item()


@case(("fx", "return x * 2 + 1"), ("recompile", "return x * 2 + 1"), dynamo=2)
def compiled_two_shapes() -> None:
    run = compiled(double)
    run(tensor(3))
    run(tensor(4))


@case(
    ("fx", "return x * 2 + 1"),
    ("recompile", "return x * 2 + 1", "3 to 4"),
    ("recompile", "return x * 2 + 1", "4 to 5"),
    dynamo=1,
    recompiles=2,
)
def compiled_dynamic_three_shapes() -> None:
    run = compiled(double, dynamic=True)
    for size in (3, 4, 5, 4, 3):
        run(tensor(size))


def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    return torch.sin(x) * factor


@case(("fx", "return torch.sin(x) * factor"), dynamo=3)
def compiled_floats() -> None:
    run = compiled(scaled)
    for factor in (1.5, 2.5, 3.5):
        run(tensor(3), factor)


@case(
    ("fx", "return torch.sin(x) * factor"),
    ("recompile", "return torch.sin(x) * factor", "1.5 to 1.0"),
    dynamo=2,
)
def compiled_float_becomes_constant() -> None:
    run = compiled(scaled)
    for factor in (1.5, 1.0):
        run(tensor(3), factor)


def with_histc(x: torch.Tensor) -> torch.Tensor:
    a = torch.sin(x)
    h = torch.histc(a, 4)
    return h * 2


@case(
    ("split", "h = torch.histc(a, 4)", "aten::histc runs on the CPU"),
    ("split", "h = torch.histc(a, 4)", "aten::histc runs on the CPU"),
    dynamo=1,
)
def compiled_histc() -> None:
    compiled(with_histc)(tensor(8))


class Captures(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.full((3,), 2.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.sin(x)
        y = torch.cos(y) * self.scale[0]
        return torch.tanh(y)


@case(
    ("split", "y = torch.cos(y) * self.scale[0]", "CPU tensor of shape []"),
    ("split", "y = torch.cos(y) * self.scale[0]", "CPU tensor of shape []"),
    ("split", "y = torch.cos(y) * self.scale[0]", "CPU tensor of shape []"),
    ("split", "y = torch.cos(y) * self.scale[0]", "CPU tensor of shape []"),
    dynamo=1,
)
def compiled_captured_cpu_tensor() -> None:
    compiled(Captures())(tensor(3))


def with_device_move(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    y = torch.sin(x)
    return torch.cos(y) * scale.to(x.device)


@case(("fx", "y = torch.sin(x)"), dynamo=1)
def compiled_cpu_tensor_moved() -> None:
    compiled(with_device_move)(tensor(3), torch.ones(3))


def with_literal(x: torch.Tensor) -> torch.Tensor:
    y = torch.sin(x)
    y = torch.cos(y) * torch.tensor(3.0)
    return torch.tanh(y)


@case(
    ("split", "y = torch.cos(y) * torch.tensor(3.0)", "* torch.tensor(3.0)`"),
    ("split", "y = torch.cos(y) * torch.tensor(3.0)", "* torch.tensor(3.0)`"),
    ("split", "y = torch.cos(y) * torch.tensor(3.0)", "* torch.tensor(3.0)`"),
    ("split", "y = torch.cos(y) * torch.tensor(3.0)", "* torch.tensor(3.0)`"),
    dynamo=1,
)
def compiled_literal() -> None:
    compiled(with_literal)(tensor(3))


def with_literal_last(x: torch.Tensor) -> torch.Tensor:
    y = torch.sin(x)
    return torch.cos(y) * torch.tensor(3.0)


@case(
    ("split", "return torch.cos(y) * torch.tensor(3.0)", "CPU tensor of shape []"),
    ("access", "compiled(with_literal_last)(tensor(3)).cpu()", ".cpu()"),
    dynamo=1,
)
def compiled_literal_in_the_last_op() -> None:
    compiled(with_literal_last)(tensor(3)).cpu()


@case(("fx", "x.add_(1)"), dynamo=1)
def compiled_input_mutation() -> None:
    def update(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2

    run = compiled(update)
    x = tensor(3)
    run(x)
    run(x)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(Block(), Block())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.blocks(x).sum()


@case(
    ("fx", "return self.blocks(x).sum()"),
    ("pending", "loss.backward()  # compiled", "gradient"),
    ("backward", "loss.backward()  # compiled"),
    dynamo=1,
)
def compiled_backward() -> None:
    loss = compiled(Model().to("xla"))(tensor(2, 3))
    loss.backward()  # compiled


def loss_with_break(x: torch.Tensor) -> torch.Tensor:
    y = torch.sin(x)
    torch._dynamo.graph_break()
    return torch.cos(y).sum()


@case(
    ("fx", "y = torch.sin(x)"),
    ("fx", "return torch.cos(y).sum()"),
    ("pending", "loss.backward()  # two graphs", "gradient"),
    ("backward", "loss.backward()  # two graphs"),
    ("backward", "loss.backward()  # two graphs"),
    dynamo=2,
)
def compiled_backward_with_break() -> None:
    x = tensor(3).requires_grad_()
    loss = compiled(loss_with_break)(x)
    loss.backward()  # two graphs


@case(
    ("fx", "return self.blocks(x).sum()"),
    ("pending", "model(tensor(2, 3)).backward()", "gradient"),
    ("backward", "model(tensor(2, 3)).backward()"),
    ("sync", "torch_xla.sync()  # compiled step"),
    dynamo=1,
)
def compiled_training_loop() -> None:
    plain = Model().to("xla")
    model = compiled(plain)
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(tensor(2, 3)).backward()
        optimizer.step()
        torch_xla.sync()  # compiled step


class Histogram(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.histc(x, 4)


class Split(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = Block()
        self.stats = Histogram()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.stats(self.first(x)) * 2


@case(
    ("split", "return torch.histc(x, 4)", "aten::histc runs on the CPU"),
    ("split", "return torch.histc(x, 4)", "aten::histc runs on the CPU"),
    dynamo=1,
)
def compiled_split_in_a_module() -> None:
    with torch.no_grad():
        compiled(Split().to("xla"))(tensor(2, 3))


def to_host(x: torch.Tensor) -> torch.Tensor:
    y = torch.sin(x).cpu()
    return y * 2


@case(
    ("split", "y = torch.sin(x).cpu()", "a tensor was moved to the CPU by .cpu()"),
    ("split", "y = torch.sin(x).cpu()", "a tensor was moved to the CPU by .cpu()"),
    dynamo=1,
)
def compiled_result_on_cpu() -> None:
    compiled(to_host)(tensor(3))


@case(
    ("split", "y = torch.logcumsumexp(torch.sin(x), 0)", "_logcumsumexp"),
    ("split", "y = torch.logcumsumexp(torch.sin(x), 0)", "_logcumsumexp"),
    ("pending", "loss.backward()  # split", "gradient"),
    ("split", "y = torch.logcumsumexp(torch.sin(x), 0)", "_logcumsumexp"),
    ("split", "y = torch.logcumsumexp(torch.sin(x), 0)", "_logcumsumexp"),
    ("split", "y = torch.logcumsumexp(torch.sin(x), 0)", "_logcumsumexp"),
    ("split", "y = torch.logcumsumexp(torch.sin(x), 0)", "_logcumsumexp"),
    dynamo=1,
)
def compiled_split_backward() -> None:
    def total(x: torch.Tensor) -> torch.Tensor:
        y = torch.logcumsumexp(torch.sin(x), 0)
        return torch.cos(y).sum()

    x = tensor(4).requires_grad_()
    loss = compiled(total)(x)
    loss.backward()  # split


@case(("fx", "return x * 2 + 1"), dynamo=1)
def compiled_in_a_thread() -> None:
    thread = threading.Thread(target=lambda: compiled(double)(tensor(3)))
    thread.start()
    thread.join()


@case(
    ("fx", "y = torch.sin(x)"),
    ("pending", "y = y[y > 0.5]"),
    ("fx", "return y * 2"),
    dynamo=2,
)
def compiled_mask_index() -> None:
    def pick(x: torch.Tensor) -> torch.Tensor:
        y = torch.sin(x)
        y = y[y > 0.5]
        return y * 2

    compiled(pick)(tensor(8))


def with_two_cpu_ops(x: torch.Tensor) -> torch.Tensor:
    a = torch.histc(torch.sin(x), 4)
    b = torch.median(a + 1)
    return b * 2


@case(
    ("split", "a = torch.histc(torch.sin(x), 4)", "aten::histc"),
    ("split", "b = torch.median(a + 1)", "aten::median"),
    ("split", "b = torch.median(a + 1)", "aten::median"),
    dynamo=1,
)
def compiled_two_cpu_ops() -> None:
    compiled(with_two_cpu_ops)(tensor(8))


def helper_on_cpu(x: torch.Tensor) -> torch.Tensor:
    return torch.histc(x, 4)


@case(
    ("split", "return torch.histc(x, 4)", "aten::histc"),
    ("split", "return torch.histc(x, 4)", "aten::histc"),
    dynamo=1,
)
def compiled_cpu_op_in_a_helper() -> None:
    def outer(x: torch.Tensor) -> torch.Tensor:
        return helper_on_cpu(torch.sin(x)) * 2

    compiled(outer)(tensor(8))


@case(
    ("fx", "return x * 2 + 1"),
    ("recompile", "return x * 2 + 1"),
    ("recompile", "return x * 2 + 1"),
    dynamo=3,
)
def compiled_growing_input() -> None:
    run = compiled(double)
    x = tensor(1)
    for _ in range(3):
        x = run(torch.cat([x.cpu(), x.cpu()]).to("xla"))


@case(
    ("sync", "torch_xla.sync()  # traced by aot_eager"),
    dynamo=1,
)
def other_backend() -> None:
    y = torch.compile(double, backend="aot_eager")(tensor(3))
    torch_xla.sync()  # traced by aot_eager
    del y


@case(("fx", "return torch.relu(self.linear(x))"), dynamo=1)
def compiled_exported_program() -> None:
    block = Block().to("xla").eval()
    program = torch.export.export(block, (tensor(2, 3),))
    with torch.no_grad():
        compiled(program.module())(tensor(2, 3))


def step_inside(x: torch.Tensor) -> torch.Tensor:
    loss = torch.sin(x).sum()
    loss.backward()
    return loss * 2


@case(
    ("fx", "loss = torch.sin(x).sum()"),
    ("pending", "loss.backward()", "gradient"),
    ("backward", "loss.backward()"),
    ("fx", "return loss * 2"),
    dynamo=2,
)
def compiled_step_with_backward_inside() -> None:
    compiled(step_inside)(tensor(3).requires_grad_())


def sync_inside(x: torch.Tensor) -> torch.Tensor:
    y = torch.sin(x)
    torch_xla.sync()
    return y * 2


@case(("fx", "y = torch.sin(x)"), ("fx", "return y * 2"), dynamo=2)
def compiled_sync_inside() -> None:
    compiled(sync_inside)(tensor(3))


def clear_inside(x: torch.Tensor) -> torch.Tensor:
    y = torch.sin(x)
    met.clear_all()
    return y * 2


@case(("fx", "y = torch.sin(x)"), ("fx", "return y * 2"), dynamo=2)
def compiled_metrics_cleared_inside() -> None:
    compiled(clear_inside)(tensor(3))


def histc_of_any_size(x: torch.Tensor) -> torch.Tensor:
    return torch.histc(torch.sin(x), 4) * 2


@case(
    ("split", "return torch.histc(torch.sin(x), 4) * 2", "aten::histc runs on the CPU"),
    ("split", "return torch.histc(torch.sin(x), 4) * 2", "aten::histc runs on the CPU"),
    dynamo=1,
)
def compiled_dynamic_histc() -> None:
    compiled(histc_of_any_size, dynamic=True)(tensor(8))


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        if grad.sum() > 100:
            return grad
        return grad * 2


@case(
    ("access", "if grad.sum() > 100:", "`if`"),
    ("sync", "torch_xla.sync()  # own function"),
)
def value_read_in_an_autograd_function() -> None:
    x = tensor(3).requires_grad_()
    Doubled.apply(x).sum().backward()
    torch_xla.sync()  # own function


@case(
    ("fx", "return x * 2 + 1"),
    ("sync", "torch_xla.sync()  # around"),
    dynamo=1,
)
def compiled_result_used_lazily() -> None:
    y = compiled(double)(tensor(3))
    z = y - 1
    torch_xla.sync()  # around
    del y, z


@case(
    ("pending", "compiled(double)(view)", "`x`"),
    ("fx", "return x * 2 + 1"),
    dynamo=1,
)
def compiled_view_input() -> None:
    view = tensor(4, 4).t()
    compiled(double)(view)


@case(
    ("pending", "run(x, y)  # second pending", "`y`"),
    ("fx", "return torch.matmul(x, y)"),
    dynamo=1,
)
def compiled_second_input_pending() -> None:
    def multiply(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.matmul(x, y)

    run = compiled(multiply)
    x, y = tensor(3, 3), tensor(3, 3) + 1
    run(x, y)  # second pending


def through_export(gm: Any, inputs: list[torch.Tensor]) -> Any:
    """A backend of its own over torch_xla's bridge, as tt's is."""
    import torch_xla.core.dynamo_bridge as bridge

    module = torch.export.export(gm, tuple(inputs), strict=False).run_decompositions().graph_module
    lowered: list[Any] = []

    def run(*args: torch.Tensor) -> Any:
        if not lowered:
            lowered.append(bridge.extract_compiled_graph(module, args))
        return lowered[0](*args)

    return run


@case(
    ("pending", "run(tensor(8) + 1)  # own backend", "`x`"),
    ("split", "h = torch.histc(a, 4)", "aten::histc runs on the CPU"),
    ("split", "h = torch.histc(a, 4)", "aten::histc runs on the CPU"),
    dynamo=1,
)
def own_backend_over_the_bridge() -> None:
    run = torch.compile(with_histc, backend=through_export)
    run(tensor(8) + 1)  # own backend


@case(
    ("split", "h = torch.histc(a, 4)", "aten::histc runs on the CPU"),
    dynamo=1,
)
def compiled_cpu_op_that_raises() -> None:
    def count(x: torch.Tensor) -> torch.Tensor:
        a = x.int() + 1
        h = torch.histc(a, 4)
        return h * 2

    with pytest.raises(NotImplementedError):
        compiled(count)(tensor(8))


def logged(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


class Decorated(nn.Module):
    @logged
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.sin(x)
        return torch.cos(y)


@case(("fx", "y = torch.sin(x)"), dynamo=1)
def compiled_decorated_forward() -> None:
    compiled(Decorated())(tensor(3))


# --- functions shared between cases: what one compiled, the other must compile again ------

SHARED = torch.compile(double, backend="openxla")


@case(("fx", "return x * 2 + 1"), dynamo=1)
def shared_first() -> None:
    SHARED(tensor(3))


@case(("fx", "return x * 2 + 1"), dynamo=1)
def shared_second() -> None:
    SHARED(tensor(3))


KEPT: list[torch.Tensor] = []


@case()
def leaves_work_pending() -> None:
    KEPT[:] = [tensor(3) + 1, tensor(4) * 2]


@case(("sync", "torch_xla.sync()  # mine"))
def after_work_left_pending() -> None:
    y = tensor(3) - 1
    torch_xla.sync()  # mine
    del y


# --- backends as Tenstorrent's is: markers behind inputs, and a flow that computes lazily ---


@torch.library.custom_op("graphbreak_cases::mark", mutates_args=())
def mark(value: torch.Tensor, kind: str) -> torch.Tensor:
    """Stands behind an input and says what it is. It computes nothing."""
    return value.clone()


@mark.register_fake
def _(value: torch.Tensor, kind: str) -> torch.Tensor:
    return value.clone()


def marked(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    for node in module.graph.find_nodes(op="placeholder"):
        users = list(node.users)
        if not users or not isinstance(node.meta.get("val"), torch.Tensor):
            continue
        with module.graph.inserting_after(node):
            marker = module.graph.call_function(
                torch.ops.graphbreak_cases.mark.default, (node, "input")
            )
        for user in users:
            user.replace_input_with(node, marker)
    module.recompile()
    return module


class Executor:
    """Runs a graph on the device: by the bridge, or lazily and then cut at its results."""

    def __init__(self, module: torch.fx.GraphModule, flow: str, lifted: tuple[Any, ...]) -> None:
        self.module = module
        self.flow = flow
        self.lifted = lifted
        self.lowered: Any = None

    def __call__(self, *args: Any) -> Any:
        import torch_xla.core.dynamo_bridge as bridge

        args = (*self.lifted, *args)
        if self.flow == "bridge":
            if self.lowered is None:
                self.lowered = bridge.extract_compiled_graph(self.module, args)
            return self.lowered(*args)
        if self.flow == "interpreted":
            results = torch.fx.Interpreter(self.module).run(*args)
        else:
            results = self.module(*args)
        if self.flow == "synced":
            torch_xla.sync()
        else:
            tensors = [result for result in results if isinstance(result, torch.Tensor)]
            torch_xla._XLAC._xla_sync_multi(tensors, ["xla"], wait=False)
        return results


def executed(flow: str) -> Callable[..., Any]:
    """A backend that goes by AOTAutograd."""
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    def lower(module: torch.fx.GraphModule, inputs: Any) -> Any:
        return make_boxed_func(Executor(marked(module), flow, ()))

    return aot_autograd(fw_compiler=lower, bw_compiler=lower)


def executed_export(flow: str) -> Callable[..., Any]:
    """A backend that exports: what the module holds is handed over before the user's inputs."""

    def backend(gm: Any, inputs: list[torch.Tensor]) -> Any:
        program = torch.export.export(gm, tuple(inputs), strict=False).run_decompositions()
        held = [
            {**program.state_dict, **program.constants}[spec.target].to("xla")
            for spec in program.graph_signature.input_specs
            if spec.kind is not torch.export.graph_signature.InputKind.USER_INPUT
        ]
        return Executor(marked(program.graph_module), flow, tuple(held))

    return backend


def through(function: Any, flow: str, export: bool = False) -> Any:
    make = executed_export if export else executed
    return torch.compile(function, backend=make(flow))


def lifted_weights() -> Any:
    """As tt_torch sets it: weights are the graph module's own, and lifted later."""
    return torch._dynamo.config.patch(inline_inbuilt_nn_modules=False)


@case(
    ("fx", "return torch.matmul(x, y)"),
    ("pending", "run(x, x + 1)  # marked, pending later", "`y` was"),
    dynamo=1,
)
def marked_input_pending_later() -> None:
    def multiply(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.matmul(x, y)

    run = through(multiply, "bridge")
    x = tensor(3, 3)
    run(x, tensor(3, 3))
    run(x, x + 1)  # marked, pending later


@case(
    ("fx", "return self.blocks(x).sum()"),
    ("pending", "loss.backward()  # marked", "gradient"),
    ("backward", "loss.backward()  # marked", "of graph 0/0"),
    dynamo=1,
)
def marked_training() -> None:
    loss = through(Model().to("xla"), "bridge")(tensor(2, 3))
    loss.backward()  # marked


@case(
    ("pending", "run(tensor(2, 3) + 1)  # lifted", "`x` was"),
    ("fx", "return self.blocks(x).sum()"),
    dynamo=1,
)
def marked_lifted_weights() -> None:
    with lifted_weights():
        run = through(Model().to("xla"), "bridge")
        run(tensor(2, 3) + 1)  # lifted


@case(
    ("pending", "run(tensor(2, 3) + 1)  # exported", "`x` was"),
    ("fx", "return self.blocks(x).sum()"),
    dynamo=1,
)
def marked_export() -> None:
    with lifted_weights(), torch.no_grad():
        run = through(Model().to("xla"), "bridge", export=True)
        run(tensor(2, 3) + 1)  # exported


@case(
    ("pending", "run(tensor(3) + 1)  # handed over", "`x` was"),
    ("fx", "return x * 2 + 1"),
    dynamo=1,
)
def handed_to_the_bridge() -> None:
    def backend(gm: Any, inputs: Any) -> Any:
        import torch_xla.core.dynamo_bridge as bridge

        lowered: list[Any] = []

        def run(*args: torch.Tensor) -> Any:
            if not lowered:
                lowered.append(bridge.extract_compiled_graph(gm, args))
            return (lowered[0](*args),)

        return run

    run = torch.compile(double, backend=backend)
    run(tensor(3) + 1)  # handed over


@case(
    ("pending", "run = bridge.extract_compiled_graph(traced, (x,))  # by hand", "`x` was"),
    ("fx", "run = bridge.extract_compiled_graph(traced, (x,))  # by hand"),
)
def handed_to_the_bridge_by_the_user() -> None:
    import torch_xla.core.dynamo_bridge as bridge

    traced = torch.fx.symbolic_trace(double)
    x = tensor(3) + 1
    run = bridge.extract_compiled_graph(traced, (x,))  # by hand
    run(x)


@case(("fx", "return x * 2 + 1"), dynamo=1)
def lazily_executed() -> None:
    run = through(double, "lazy")
    for _ in range(3):
        run(tensor(3))


@case(("fx", "return x * 2 + 1"), dynamo=1)
def lazily_executed_and_synced() -> None:
    run = through(double, "synced")
    for _ in range(3):
        run(tensor(3))


@case(("fx", "return x * 2 + 1"), dynamo=1)
def lazily_executed_by_an_interpreter() -> None:
    through(double, "interpreted")(tensor(3))


@case(("fx", "return self.blocks(x).sum()"), dynamo=1)
def lazily_executed_export() -> None:
    with lifted_weights(), torch.no_grad():
        through(Model().to("xla"), "lazy", export=True)(tensor(2, 3))


@case(
    ("fx", "return self.blocks(x).sum()"),
    ("backward", "loss.backward()  # lazily", "of graph 0/0"),
    dynamo=1,
)
def lazily_executed_training() -> None:
    loss = through(Model().to("xla"), "lazy")(tensor(2, 3))
    loss.backward()  # lazily


@case(
    ("fx", "total = x.sum()"),
    ("fx", "return x * total.item()"),
    dynamo=2,
)
def lazily_executed_with_item() -> None:
    through(with_item, "lazy")(tensor(3))


@case(
    ("split", "h = torch.histc(a, 4)", "aten::histc runs on the CPU"),
    ("split", "h = torch.histc(a, 4)", "aten::histc runs on the CPU"),
    dynamo=1,
)
def lazily_executed_histc() -> None:
    through(with_histc, "lazy")(tensor(8))


@case(
    ("fx", "return x * 2 + 1"),
    ("pending", "run(tensor(3) + 1)  # became part", "`x` was"),
    dynamo=1,
)
def lazily_executed_pending_later() -> None:
    run = through(double, "lazy")
    run(tensor(3))
    run(tensor(3) + 1)  # became part


@case(
    ("fx", "return x * 2 + 1"),
    ("recompile", "return x * 2 + 1", "`x` was pending"),
    dynamo=1,
    recompiles=1,
)
def lazily_executed_pending_at_first() -> None:
    run = through(double, "lazy")
    run(tensor(3) + 1)
    run(tensor(3))


@case(
    ("fx", "return x * 2 + 1"),
    ("access", "y.sum().item()  # after", ".item()"),
    ("sync", "torch_xla.sync()  # after it"),
    dynamo=1,
)
def lazily_executed_and_then_the_user() -> None:
    y = through(double, "lazy")(tensor(3))
    y.sum().item()  # after
    z = y - 1
    torch_xla.sync()  # after it
    del z


@case(
    ("fx", "return self.blocks(x).sum()"),
    ("backward", "model(tensor(2, 3)).backward()  # lazy steps"),
    ("sync", "torch_xla.sync()  # lazy step"),
    dynamo=1,
)
def lazily_executed_training_loop() -> None:
    plain = Model().to("xla")
    model = through(plain, "lazy")
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(tensor(2, 3)).backward()  # lazy steps
        optimizer.step()
        torch_xla.sync()  # lazy step


# --- code of the user's that is nowhere on the stack of what was traced -------------------


@case(("fx", "compiled(chain)(tensor(2, 3))"), dynamo=1)
def compiled_library_module() -> None:
    chain = nn.Sequential(nn.Linear(3, 3), nn.ReLU()).to("xla")
    with torch.no_grad():
        compiled(chain)(tensor(2, 3))


@case(
    ("split", "compiled(net)(tensor(1, 1, 4, 4))", "im2col"),
    ("split", "compiled(net)(tensor(1, 1, 4, 4))", "im2col"),
    dynamo=1,
)
def compiled_library_module_split() -> None:
    net = nn.Sequential(nn.ReLU(), nn.Unfold(2), nn.ReLU())
    compiled(net)(tensor(1, 1, 4, 4))


@case(
    ("access", "value = tensor(3).sum().item()  # before the step", ".item()"),
    ("fx", "step()  # compiled optimizer"),
    dynamo=1,
)
def compiled_optimizer() -> None:
    parameter = nn.Parameter(tensor(3))
    parameter.grad = tensor(3)
    optimizer = torch.optim.SGD([parameter], lr=0.5)
    value = tensor(3).sum().item()  # before the step
    assert value
    step = compiled(optimizer.step)
    step()  # compiled optimizer


_OVERRIDES: dict[str, Any] = {"torch": torch}
exec(
    compile(
        """
from torch.overrides import TorchFunctionMode

class Overrides(TorchFunctionMode):
    def __torch_function__(self, func, types, args, kwargs=None):
        return func(*args, **(kwargs or {}))
""",
        "/opt/site-packages/tt_torch/torch_overrides.py",
        "exec",
    ),
    _OVERRIDES,
)


@case(
    ("split", "y = torch.cos(y) * torch.tensor(3.0)", "* torch.tensor(3.0)`"),
    ("split", "y = torch.cos(y) * torch.tensor(3.0)", "* torch.tensor(3.0)`"),
    ("split", "y = torch.cos(y) * torch.tensor(3.0)", "* torch.tensor(3.0)`"),
    ("split", "y = torch.cos(y) * torch.tensor(3.0)", "* torch.tensor(3.0)`"),
    dynamo=1,
)
def compiled_literal_under_a_function_mode() -> None:
    with _OVERRIDES["Overrides"]():
        compiled(with_literal)(tensor(3))
