"""Loops that a tensor ends, as ``torch.while_loop``, and loops over what a tensor chose."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo.config

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.rewrite import apply
from pytest_graphbreak.repair.rewrite.loops import helpers
from pytest_graphbreak.repair.rewrite.scope import UnfitError
from pytest_graphbreak.repair.rewrite.writes import quiet
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench
from tests.repair.loops import LOOPS, OPEN
from tests.repair.test_numbers import search

TITLE = "the loop goes over all indices, and capture_dynamic_output_shape_ops"


@pytest.fixture
def _compiles_numbers() -> Iterator[None]:
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        yield


def loaded(source: str) -> Any:
    space: dict[str, Any] = {"torch": torch}
    exec(source, space)
    return space["f"]


def as_while_loop(name: str) -> str | None:
    line, source, _ = LOOPS[name]
    return apply(source, "while_loop", Frame("a.py", "f", 0, line))


def drawn(function: Any, args: tuple[Any, ...]) -> Any:
    """Return the result with the random numbers of a seed."""
    torch.manual_seed(0)
    return function(*args)


@pytest.mark.usefixtures("_compiles_numbers")
@pytest.mark.parametrize("name", sorted(LOOPS.keys() - OPEN.keys()))
def test_a_numerical_loop_is_one_graph(name: str) -> None:
    """Without a break, with equal results, also in arguments that it changes in place."""
    changed = as_while_loop(name)
    assert changed is not None
    plain, patched = loaded(LOOPS[name][1]), loaded(changed)
    run = torch.compile(patched, backend="eager", fullgraph=True)
    for given in LOOPS[name][2]:
        args = eval(f"({given},)")
        mine = copy.deepcopy(args)
        with torch.no_grad():
            wanted, found = drawn(plain, args), drawn(run, mine)
        torch.testing.assert_close((found, mine), (wanted, args), equal_nan=True)


@pytest.mark.usefixtures("_compiles_numbers")
@pytest.mark.parametrize("name", sorted(OPEN))
def test_a_loop_that_stays_has_a_reason(name: str) -> None:
    with pytest.raises(Exception, match=OPEN[name]):
        run_rewritten(name)


def run_rewritten(name: str) -> None:
    changed = as_while_loop(name)
    assert changed is not None
    run = torch.compile(loaded(changed), backend="eager", fullgraph=True)
    with torch.no_grad():
        run(*eval(f"({LOOPS[name][2][0]},)"))


def test_newtons_loop_in_a_module_is_fixed(tmp_path: Path, shared: Bench) -> None:
    """The program of issue 27 as it is: x_new is local to the loop."""
    target = Target(tmp_path / "a.py")
    target.path.write_text(NEWTON)
    out = search(target, shared)
    assert [patch.title for patch in out.kept] == ["the loop became torch.while_loop"]
    assert (out.after, out.last.record.breaks, not out.comparison.words) == (1, (), True)


NEWTON = """\
import torch


class Newton(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tol, self.max_iter = 1e-3, 30

    def forward(self, x):
        diff = torch.full_like(x, torch.inf)
        iterations = 0
        while diff.abs().max() > self.tol and iterations < self.max_iter:
            x_new = x - 0.1 * x
            diff = x_new - x
            x = x_new
            iterations += 1
        return x


model = torch.compile(Newton(), backend="eager")
with torch.no_grad():
    model(torch.ones(3))
"""


COUNTED = """\
import torch


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = torch.nn.GRUCell(4, 4)

    def forward(self, x, lengths):
        longest = lengths.max().item()
        h = torch.zeros(x.shape[0], 4)
        for t in range(longest):
            new = self.cell(x[:, t], h)
            h = torch.where((t < lengths).unsqueeze(1), new, h)
        return h


model = torch.compile(Encoder(), backend="eager")
{around}
    for n in (2, 5, 3):
        model(torch.randn(2, 6, 4), torch.tensor([n, 1])){after}
"""


@pytest.mark.parametrize(
    ("around", "after", "kept"),
    [
        ("with torch.no_grad():", "", ""),
        ("if True:", ".sum().backward()", " that keeps its gradient"),
    ],
)
def test_a_loop_over_a_number_that_is_read_is_compiled_once(
    tmp_path: Path, shared: Bench, around: str, after: str, kept: str
) -> None:
    target = Target(tmp_path / "a.py")
    target.path.write_text(COUNTED.format(around=around, after=after))
    out = search(target, shared)
    title = f"the loop over a number that is read became torch.while_loop{kept}"
    assert [patch.title for patch in out.kept] == [title]
    assert (out.after, out.last.record.breaks, not out.comparison.words) == (1, (), True)
    assert not out.last.again


TALKING = """\
import torch


@torch.compile(backend="eager")
def settle(x):
    n = 0
    while x.abs().max() > 0.1:
        x = x * 0.5
        n += 1
        if n % 2:
            print("round", n, x.max().item())
    return x


with torch.no_grad():
    settle(torch.ones(3))
"""


def test_a_loop_that_prints_no_longer_does_and_the_patch_says_so(
    tmp_path: Path, shared: Bench
) -> None:
    target = Target(tmp_path / "a.py")
    target.path.write_text(TALKING)
    (patch,) = (out := search(target, shared)).kept
    assert patch.title == "the loop became torch.while_loop that writes nothing"
    assert patch.drops == "`if n % 2:` no longer happens in compiled code"
    assert (out.after, out.last.record.breaks, not out.comparison.words) == (1, (), True)


FITTED = """\
import torch


def gradient(w, x, y):
    return x.T @ (x @ w - y)


class Fit(torch.nn.Module):
    def residual(self, x, w):
        return x.T.mT @ w

    def forward(self, x, y):
        w = torch.zeros(x.shape[1])
        n = 0
        while gradient(w, x, y).norm() > 0.1 and n < 50:
            w = w - 0.1 * gradient(w, x, y) + 0 * self.residual(x, w).sum()
            n += 1
        return w, n


fit = torch.compile(Fit(), backend="eager")
with torch.no_grad():
    fit(torch.eye(3), torch.ones(3))
"""


def test_functions_that_a_loop_calls_transpose_by_a_method(tmp_path: Path, shared: Bench) -> None:
    """``x.T`` is read before the loop, and would be a second input of it that shares memory."""
    where = Frame("a.py", "Fit.forward", 0, "while gradient(w, x, y).norm() > 0.1 and n < 50:")
    assert [one.function for one in helpers(FITTED, where)] == ["gradient", "Fit.residual"]
    target = Target(tmp_path / "a.py")
    target.path.write_text(FITTED)
    out = search(target, shared)
    title = "the loop became torch.while_loop, its numbers nodes of the graph"
    assert [patch.title for patch in out.kept] == [title]
    assert (out.after, out.last.record.breaks, not out.comparison.words) == (1, (), True)
    assert b"x.t() @ (x @ w - y)" in (out.source or b"")


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("print(x.sum().item())", ""),
        ("logger.info('%s', float(x[0]))", ""),
        ("bar.set_postfix(loss=x.item())", ""),
        ("if x.sum() > 2:\n            print('large')", ""),
        ("if check(x):\n            print('large')", "\n    if check(x):\n        pass"),
    ],
)
def test_what_only_writes_is_taken_out_of_a_loop(line: str, left: str) -> None:
    assert ast.unparse(quiet(loop_with(line))) == f"while x.sum() > 1:\n    x = x / 2{left}"


@pytest.mark.parametrize(
    "line",
    ["print(check(x))", "print(x.add_(1))", "print(y := x.sum())", "seen.append(x)", "self.log(x)"],
)
def test_what_may_raise_change_or_be_read_stays(line: str) -> None:
    with pytest.raises(UnfitError, match="nothing in it only writes"):
        quiet(loop_with(line))


def loop_with(line: str) -> ast.stmt:
    return ast.parse(f"while x.sum() > 1:\n        x = x / 2\n        {line}\n").body[0]


TRAINED = """\
import torch


class Halting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.cell, self.halt = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)

    def forward(self, x):
        h, halted = torch.zeros_like(x), torch.zeros(x.shape[0])
        left, n = torch.zeros(x.shape[0]), 0
        while (halted < 0.9).any() and n < 6:
            h = torch.tanh(self.cell(h + x))
            left = left + (halted > 0.5) * (1 - halted)
            halted = halted + 0.3 * torch.sigmoid(self.halt(h)).squeeze(1)
            n += 1
        return h.sum() + halted.sum() + left.sum(), n


net = Halting()
model = torch.compile(net, backend="eager")
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    loss, n = model(torch.ones(2, 4))
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(n, loss.item())
"""


def test_a_loop_that_is_trained_keeps_its_gradient(tmp_path: Path, shared: Bench) -> None:
    """torch 2.13 loses the gradient of what begins without one, as h does."""
    target = Target(tmp_path / "a.py")
    target.path.write_text(TRAINED)
    out = search(target, shared)
    title = (
        "the loop became torch.while_loop that keeps its gradient, its numbers nodes of the graph"
    )
    assert [patch.title for patch in out.kept] == [title]
    assert (out.after, out.last.record.breaks, not out.comparison.words) == (1, (), True)
    assert out.last.trained


def test_a_number_that_varies_is_a_tensor_in_a_loop_that_is_trained(
    tmp_path: Path, shared: Bench
) -> None:
    """torch 2.13 has no gradient of a loop that reads a number which is an input of the graph."""
    target = Target(tmp_path / "a.py")
    program = TRAINED.replace("def forward(self, x):", "def forward(self, x, rate):")
    program = program.replace("halted + 0.3 *", "halted + rate *").replace("range(2)", "(0.3, 0.4)")
    target.path.write_text(program.replace("ones(2, 4))\n", "ones(2, 4), _)\n"))
    out = search(target, shared)
    assert [patch.title.rpartition("; ")[2] for patch in out.kept] == [
        "Python numbers that vary became tensors"
    ]
    assert (out.after, out.last.record.breaks, not out.comparison.words) == (1, (), True)


def rewritten(body: str) -> str | None:
    source = "def f(x, mask):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    return apply(source, "every_index", Frame("a.py", "f", 0, ""))


def test_rows_become_numbers_and_nothing_is_left_out() -> None:
    changed = rewritten(
        "hit = mask.any(-1).nonzero()\n"
        "for row in hit:\n"
        "    at = int(row.item()) + row[0]\n"
        "    (place,) = torch.where(mask[row].squeeze(0))\n"
        "    if place.numel() == 0:\n"
        "        continue\n"
        "    x[place] += at\n"
        "return x"
    )
    assert changed == (
        "def f(x, mask):\n"
        "    hit = range(len(mask.any(-1)))\n"
        "    for row in hit:\n"
        "        at = int(row) + row\n"
        "        (place,) = torch.where(mask[row])\n"
        "        x[place] += at\n"
        "    return x\n"
    )


def test_the_number_of_a_row_may_have_a_name_of_its_own() -> None:
    """As in the experts of LongcatFlash: ``int(row.item())`` is what selects."""
    changed = rewritten(
        "hit = mask.any(-1).nonzero()\n"
        "for row in hit:\n"
        "    at = int(row.item())\n"
        "    (place,) = torch.where(mask[at])\n"
        "    x[place] += at\n"
        "return x"
    )
    assert changed is not None
    assert "hit = range(len(mask.any(-1)))\n" in changed
    assert "at = int(row)\n" in changed


@pytest.mark.parametrize(
    ("first", "changes"),
    [("x[place] * 2", True), ("x[row]", False), ("weight", False), ("own(x[place])", False)],
)
def test_what_the_loop_computed_may_be_changed_in_place(first: str, changes: bool) -> None:
    """As in the experts of NllbMoe; a view of what stays would be changed for all indices."""
    changed = rewritten(
        "hit = mask.any(-1).nonzero()\n"
        "for row in hit:\n"
        "    (place,) = torch.where(mask[row].squeeze(0))\n"
        f"    part = {first}\n"
        "    if x.training:\n"
        "        part = own(part)\n"
        "    else:\n"
        "        part *= 0.5\n"
        "    x.index_add_(0, place, part)\n"
        "return x"
    )
    assert (changed is not None) is changes


@pytest.mark.parametrize(
    "body",
    [
        "hit = mask.any(-1).nonzero()\nfor row in hit:\n"
        "    (place,) = torch.where(mask[row].squeeze(0))\n    part = x[place] * 2\n"
        "    if x.training:\n        part = own\n    part *= 0.5\n"
        "    x.index_add_(0, place, part)\nreturn x",
        "hit = mask.any(-1).nonzero()\nfor row in hit:\n    at = row.item() + 1\n"
        "    (place,) = torch.where(mask[at])\n    x[place] += 1\nreturn x",
        "hit = mask.any(-1).nonzero()\nfor row in hit:\n    at = row.item()\n    at = 0\n"
        "    (place,) = torch.where(mask[at])\n    x[place] += 1\nreturn x",
        "hit = mask.nonzero()\nreturn hit",
        "hit = mask.nonzero()\nfor row in hit:\n    pass\nreturn len(hit)",
        "hit = torch.nonzero(mask)\nfor row in hit:\n    pass",
        "for row in mask.nonzero():\n    pass",
        "hit = mask.any(-1).nonzero()\nfor row in hit:\n    x = x + row[0]\nreturn x",
        "hit = (mask.sum(-1) > 0).nonzero()\nfor row in hit:\n"
        "    (place,) = torch.where(mask[row])\n    x[place] += 1\nreturn x",
        "hit = (mask.sum(-1) > 2).nonzero()\nfor row in hit:\n"
        "    (place,) = torch.where(mask[row])\n    x[place] += 1\nreturn x",
    ],
)
def test_another_form_is_left_alone(body: str) -> None:
    assert rewritten(body) is None


EXPERTS = """\
import torch


class Experts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.weight = torch.nn.Parameter(torch.randn(4, 8, 8))

    def forward(self, x):
        chosen = x[:, :4].argmax(-1)
        mask = torch.nn.functional.one_hot(chosen, 4).permute(1, 0)
        out = torch.zeros_like(x)
        hit = torch.greater(mask.sum(-1), 0).nonzero()
        for row in hit:
            (token,) = torch.where(mask[row].squeeze(0))
            out.index_add_(0, token, x[token] @ self.weight[row[0]])
        return out


model = torch.compile(Experts(), backend="eager")
with torch.no_grad():
    model(torch.randn(6, 8))
"""


def test_a_mixture_of_experts_is_one_graph(tmp_path: Path, shared: Bench) -> None:
    target = Target(tmp_path / "a.py")
    target.path.write_text(EXPERTS)
    out = search(target, shared)
    assert [patch.title for patch in out.kept] == [TITLE]
    assert (out.after, out.last.record.breaks, not out.comparison.words) == (1, (), True)
