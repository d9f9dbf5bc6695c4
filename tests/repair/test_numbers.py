"""Numbers that are read from tensors as constants of the graph, which checks them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.build import build
from pytest_graphbreak.repair.gain import graphs
from pytest_graphbreak.repair.outcome import SearchResult
from pytest_graphbreak.repair.patch import Rewrite, SourcePatch
from pytest_graphbreak.repair.remedies.numbers import CONSTANTS
from pytest_graphbreak.repair.rewrite import apply
from pytest_graphbreak.repair.search import Search
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench

NUMBERS = "torch._graphbreak_numbers"


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("a, b = t[0].tolist()", f"a, b = {NUMBERS}(t[0])"),
        ("n = t.max().item()", f"n = {NUMBERS}(t.max().reshape(()))"),
        ("y = torch.split(x, t.tolist(), dim=2)", f"y = torch.split(x, {NUMBERS}(t), dim=2)"),
        ("y = torch.arange(t.sum(), device=d)", f"y = torch.arange({NUMBERS}(t.sum()), device=d)"),
        (
            "y = torch.repeat_interleave(x, a * b)",
            f"y = torch.repeat_interleave(x, a * b, output_size={NUMBERS}((a * b).sum()))",
        ),
        ("y = torch.repeat_interleave(x, 2)", None),
        ("y = x.repeat_interleave(t, 0, output_size=n)", None),
        ("y = x + 1", None),
        ("y = x[t > 0]", "y = x[torch._graphbreak_places(t > 0)]"),
        ("x[~t] += 1", "x[torch._graphbreak_places(~t)] += 1"),
        (
            "y = x[:, t.bool()]",
            "y = x[(slice(None, None, None), *torch._graphbreak_each(t.bool()))]",
        ),
        ("y = x[: t[0], 1]", f"y = x[: {NUMBERS}(t[0]), 1]"),
        ("a, b = torch.where(t == 1)", "a, b = torch._graphbreak_places(t == 1)"),
        ("y = torch.where(t, x, 0)", None),
        ("y = t.nonzero(as_tuple=False)", "y = torch._graphbreak_nonzero(t)"),
        ("y = x.view(t, -1)", f"y = x.view({NUMBERS}(t), -1)"),
        ("y = torch.split(x, t)", f"y = torch.split(x, {NUMBERS}(t))"),
        ("y = F.pad(x, (0, t), 'constant')", f"y = F.pad(x, {NUMBERS}((0, t)), 'constant')"),
    ],
)
def test_what_reads_numbers_is_rewritten(line: str, becomes: str | None) -> None:
    source = f"def f(x, t):\n    {line}\n    return y\n"
    where = Frame("f.py", "f", 2, line)
    assert apply(source, "constants", where) == (
        None if becomes is None else f"def f(x, t):\n    {becomes}\n    return y\n"
    )


@pytest.mark.parametrize(
    ("loop", "line", "becomes"),
    [
        ("for i in range(n):", "y = m[i] + x[:i]", None),
        ("for i, one in enumerate(m):", "y = x[i]", None),
        ("for i in m:", "y = x[i]", "y = x[torch._graphbreak_places(i)]"),
        ("for i in range(n):", "i = y = x[i]", "i = y = x[torch._graphbreak_places(i)]"),
    ],
)
def test_what_counts_is_no_tensor(loop: str, line: str, becomes: str | None) -> None:
    source = f"def f(x, m, n):\n    {loop}\n        {line}\n    return y\n"
    changed = apply(source, "masks", Frame("f.py", "f", 3, line))
    assert changed == (None if becomes is None else source.replace(line, becomes))


def test_an_index_is_no_mask_where_no_size_is_read() -> None:
    line = "y = x[m[n], n, : m[0]]"
    source = f"def f(x, m, n):\n    {line}\n    return y\n"
    changed = apply(source, "constants", Frame("f.py", "f", 2, line))
    assert changed == source.replace(": m[0]", f": {NUMBERS}(m[0])")


@pytest.mark.parametrize(
    ("head", "becomes"),
    [
        ("for n in zip(t.tolist(), m):", f"for n in zip({NUMBERS}(t), m):"),
        ("if t.any():", f"if {NUMBERS}(t.any()):"),
        (
            "if m is not None and not t.any():",
            f"if m is not None and not {NUMBERS}(t.any()):",
        ),
    ],
)
def test_the_head_of_a_block_is_rewritten(head: str, becomes: str) -> None:
    source = f"def f(x, t, m):\n    {head}\n        x = t.tolist()\n    return x\n"
    where = Frame("f.py", "f", 2, head)
    assert apply(source, "constants", where) == source.replace(head, becomes)


def test_of_a_whole_function_what_visibly_reads_is_rewritten() -> None:
    source = (
        "def f(x, t):\n    n = t.tolist()\n    y = x[t > 0].view(n, 1)\n"
        "    return y.repeat_interleave(2) + x[n]\n"
    )
    changed = apply(source, "all_constants", Frame("f.py", "f", 0, ""))
    assert changed == source.replace("t.tolist()", f"{NUMBERS}(t)").replace(
        "x[t > 0]", "x[torch._graphbreak_places(t > 0)]"
    )
    assert apply(changed, "all_constants", Frame("f.py", "f", 0, "")) is None


SIZES = """\
import torch


def f(x, sizes):
    out, x = [], x * 2
    for a, b in sizes.tolist():
        out.append(x[:a].sum() * b)
    return torch.stack(out)


f = torch.compile(f, backend="eager")
"""
CALL = "f(torch.arange(8.0), torch.tensor({}))\n"


def search(target: Target, trials: Bench, *, assume: bool = True) -> SearchResult:
    return Search(
        target,
        trials,
        most=8,
        keep_side_effects=False,
        assume=assume,
        header="",
        say=lambda _: None,
        progress=lambda *_: None,
    ).run()


def patched(source: str, line: str, tmp_path: Path) -> Target:
    target = Target(tmp_path / "a.py")
    where = Frame("a.py", "f", 0, line)
    patch = SourcePatch("constants", (*CONSTANTS, Rewrite("constants", where)))
    target.path.write_text(build(source, "a.py", [patch], {}))
    return target


def test_a_loop_over_numbers_is_one_graph(tmp_path: Path, shared: Bench) -> None:
    target = Target(tmp_path / "a.py")
    target.path.write_text(SIZES + CALL.format("[[1, 2], [3, 4]]"))
    out = search(target, shared)
    assert [patch.title for patch in out.kept] == [
        "the numbers are constants of the graph, which checks them"
    ]
    assert (out.after, out.last.record.breaks, not out.comparison.words) == (1, (), True)


def test_constants_of_inputs_are_no_fix_but_are_offered(tmp_path: Path, shared: Bench) -> None:
    """Other numbers in inputs of the same sizes would be compiled again, each time."""
    target = Target(tmp_path / "a.py")
    target.path.write_text(LISTED)
    out = search(target, shared, assume=False)
    assert all("constants" not in patch.title for patch in out.kept)
    why = [one.why for problem in out.problems for one in problem.tried]
    assert any("but compiled again for 2 other inputs (--assume keeps it)" in one for one in why)


def test_constants_of_the_module_hold_for_all_inputs(tmp_path: Path, shared: Bench) -> None:
    target = Target(tmp_path / "a.py")
    target.path.write_text(HELD)
    out = search(target, shared, assume=False)
    assert (out.after, out.last.record.breaks, not out.comparison.words) == (1, (), True)


CHECKED = """\
import torch


def check(whole):
    if torch.compiler.is_compiling():
        torch._check_tensor_all(whole)
    elif not whole.all():
        raise ValueError("the tokens do not match")


@torch.compile(backend="eager")
def f(x):
    check(x > 0)
    return x * 2


f(torch.ones(3))
"""


@pytest.mark.parametrize("before", ["", "    x = x * x.abs().sum().item()\n"])
def test_a_check_of_a_library_raises_as_without_the_patch(
    before: str, tmp_path: Path, shared: Bench
) -> None:
    """Not as the uncompiled program does: the library asks Dynamo to check, and that is said.

    It is one patch, also where another place needs it.
    """
    target = Target(tmp_path / "a.py")
    target.path.write_text(CHECKED.replace("    check(x", f"{before}    check(x"))
    out = search(target, shared)
    (patch,) = out.kept
    assert patch.title.startswith("capture_scalar_outputs")
    assert patch.note.endswith("the graph raises RuntimeError, as without the patch")
    assert out.last.raising


def test_an_exception_of_the_program_stays(tmp_path: Path, shared: Bench) -> None:
    target = Target(tmp_path / "a.py")
    own = CHECKED.replace("torch.compiler.is_compiling()", "False")
    assert own != CHECKED
    target.path.write_text(own)
    out = search(target, shared)
    assert not any("capture_scalar_outputs" in patch.title for patch in out.kept)


LISTED = """\
import torch

TABLE = [1.0, 2.0, 3.0, 4.0]


def f(x, sizes):
    for a in sizes.tolist():
        x = x * TABLE[a]
    return x


f = torch.compile(f, backend="eager")
f(torch.ones(2), torch.tensor([1, 2]))
"""

HELD = """\
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("sizes", torch.tensor([2, 3]))

    def forward(self, x):
        return torch.stack([part.sum() for part in torch.split(x, self.sizes.tolist())])


model = torch.compile(Model(), backend="eager")
model(torch.arange(5.0))
"""


def test_other_numbers_are_another_graph(tmp_path: Path, shared: Bench) -> None:
    calls = CALL.format("[[1, 2], [3, 4]]") + CALL.format("[[2, 2], [3, 5]]")
    target = Target(tmp_path / "a.py")
    target.path.write_text(SIZES + calls)
    first = shared.measure(target, outputs=False)
    assert first.error is None
    target = patched(SIZES + calls, "for a, b in sizes.tolist():", tmp_path)
    last = shared.measure(target)
    assert last.same, (last.error, last.mismatch)
    assert (graphs(last.record), last.record.breaks) == (2, ())


PACKED = """\
import torch


def lengths(x, mask):
    return x[mask.bool()].view(-1, 2)


def f(x, sizes, mask):
    out = [x[:a].sum() * b for a, b in sizes.tolist()]
    return torch.stack(out), lengths(x, mask), x[: sizes[0, 0]]


f = torch.compile(f, backend="eager")
f(torch.arange(8.0), torch.tensor([[1, 2], [3, 4]]), torch.tensor([1, 1, 0, 0, 1, 1, 1, 1]))
"""


def test_all_places_that_read_small_inputs_are_fixed_at_once(tmp_path: Path, shared: Bench) -> None:
    """The other inputs have other sizes, and a mask with other places: each its graph."""
    target = Target(tmp_path / "a.py")
    target.path.write_text(PACKED)
    out = search(target, shared)
    assert (out.after, out.last.record.breaks, not out.comparison.words) == (1, (), True)
    assert len(out.first.record.breaks) > 1


CHOSEN = """\
import torch


def f(x):
    return x[x > 0].sum(), x[: x.argmax()]


f = torch.compile(f, backend="eager")
f(torch.tensor([1.0, -2.0, 3.0]))
"""


def test_places_that_the_input_itself_chooses_are_no_constants(
    tmp_path: Path, shared: Bench
) -> None:
    target = Target(tmp_path / "a.py")
    target.path.write_text(CHOSEN)
    out = search(target, shared)
    assert all("constants" not in patch.title for patch in out.kept)
    assert not out.comparison.words


FLOATS = """\
import torch


def f(x):
    return torch.cat([x[: int(n)] * 2 for n in x.tolist()])


f = torch.compile(f, backend="eager")
f(torch.tensor([1.5, 2.0, 3.0]))
"""


def test_numbers_of_the_input_itself_are_refused(tmp_path: Path, shared: Bench) -> None:
    """They are others for another input: the graph says so, and the patch is not kept."""
    target = Target(tmp_path / "a.py")
    target.path.write_text(FLOATS)
    out = search(target, shared)
    assert out.kept == []
    why = {one.patch.title: one.why for problem in out.problems for one in problem.tried}
    assert (
        "numbers that are constants of the graph changed"
        in why["the numbers are constants of the graph, which checks them"]
    )


def test_uncompiled_they_are_read_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", torch.compile)  # the program puts its own there
    space: dict[str, object] = {"torch": torch}
    for edit in CONSTANTS[:3]:
        exec(edit.source, space)
    numbers = space["_graphbreak_numbers"]
    assert callable(numbers)
    assert numbers(torch.tensor([[1, 2]])) == [[1, 2]]
    assert numbers(3) == 3
    del torch._graphbreak_numbers  # type: ignore[attr-defined]
