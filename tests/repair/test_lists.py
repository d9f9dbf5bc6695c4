"""Lists that a loop fills with tensors: one graph with equal results, or a reason why not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import torch
import torch._dynamo.config
import torch._dynamo.exc
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.rewrite import apply
from pytest_graphbreak.repair.rewrite.scope import UnfitError
from tests.examples import examples
from tests.repair.test_sound import VALUES, bits, loaded

LINE = "while x.abs().max() > limit and n < 6:"
SOURCE = """\
def f(x, limit):
    n = 0
    xs = {start}
    {first}
    while x.abs().max() > limit and n < 6:
        {body}
        n += 1
    return {end}
"""
BODIES = {
    "what it carries": "x = x * 0.5\nxs.append(x)",
    "before it changes": "xs.append(x)\nx = x * 0.5",
    "a local name": "y = x * 0.5\ny = y + 0.25\nx = y * y\nxs.append(y)",
    "an expression": "xs.append(x.sin() * 2)\nx = x * 0.5",
    "a loss": "loss = (x ** 2).sum()\nxs.append(loss)\nx = x * 0.5",
    "in a branch": "x = x * 0.5\nif x.sum() < 2:\n    xs.append(x)",
    "after a break": "y = x * 0.5\nif y.sum() < 0.4:\n    break\nxs.append(y)\nx = y",
    "before a break": "y = x * 0.5\nxs.append(y)\nif y.sum() < 0.4:\n    break\nx = y",
    "two": "xs.append(x)\nx = x * 0.5\nxs.append(x)",
    "one of two": "x = x * 0.5\nif x.sum() > 1:\n    xs.append(x)\nelse:\n    xs.append(-x)",
    "with the counter": "x = x * 0.5\nxs.append(x + n)",
}
ENDS = {
    "stack": "x, torch.stack(xs)",
    "along another": "x, torch.stack(xs, dim=-1).sin(), torch.stack(xs, -2)",
    "the last": "x, xs[-1] * 2, len(xs)",
    "a mean": "torch.stack(xs).mean(0)  # over rounds",
}
GROWN = {"cat": "x, torch.cat(xs), torch.cat(xs, dim=0)", "cat, last": "torch.cat(xs, -1), n"}


def source_of(body: str, end: str = ENDS["stack"], start: str = "[]", first: str = "pass") -> str:
    body = body.replace("\n", "\n        ")
    return SOURCE.format(start=start, first=first, body=body, end=end)


@pytest.fixture(autouse=True)
def _compiles_numbers() -> Iterator[None]:
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_scalar_outputs=True, recompile_limit=99):
        yield


def rewritten(source: str, kind: str = "while_loop", line: str = LINE) -> Any:
    changed = apply(source, kind, Frame("a.py", "f", 0, line))
    assert changed is not None
    return torch.compile(loaded(changed)["f"], backend="eager", fullgraph=True)


def outcome(function: Any, x: torch.Tensor, limit: torch.Tensor) -> list[Any]:
    """Return the results and the gradient; of what raises only that it does."""
    x = x.clone()
    if torch.is_grad_enabled():
        x.requires_grad_()
    try:
        found = function(x, limit)
    except (IndexError, RuntimeError, ValueError):
        return ["raises"]
    found = found if isinstance(found, tuple) else (found,)
    tensors = [one for one in found if isinstance(one, torch.Tensor)]
    if torch.is_grad_enabled():
        sum(one.sin().sum() for one in tensors).backward()
        assert x.grad is not None
        return [*found, x.grad]
    return [bits(one) if isinstance(one, torch.Tensor) else one for one in found]


def compare(source: str, kind: str, *, line: str = LINE, shape: tuple[int, ...] = (2,)) -> None:
    plain, run = loaded(source)["f"], rewritten(source, kind, line)
    with torch.set_grad_enabled(kind == "trained_loop"):
        for value, limit in ((1.0, 0.1), (4.0, 0.0), (-1.0, 0.4), (1.0, 9.0), (0.5, 0.3)):
            # A tensor: torch 2.13 has no gradient beside a number that is an input of the graph.
            x, most = torch.full(shape, value, dtype=torch.float64), torch.tensor(limit)
            wanted, found = outcome(plain, x, most), outcome(run, x, most)
            if wanted == ["raises"] or kind == "while_loop":
                assert found == wanted
            else:  # it adds up in another order
                torch.testing.assert_close(found, wanted, rtol=1e-13, atol=0)


@pytest.mark.parametrize("kind", ["while_loop", "trained_loop"])
@pytest.mark.parametrize("start", ["[]", "[x]"])
@pytest.mark.parametrize("name", sorted(BODIES))
def test_a_list_is_rows(name: str, start: str, kind: str) -> None:
    if name == "a loss" and start == "[x]":
        start = "[x.sum()]"
    source = source_of(BODIES[name], start=start)
    if kind == "trained_loop" and ("branch" in name or "break" in name or name == "one of two"):
        with pytest.raises(AssertionError) as raised:  # of a counter in torch.cond (torch 2.13)
            compare(source, kind)
        assert raised.traceback[-1].path.parts[-2] in ("_higher_order_ops", "_aot_autograd")
    else:
        compare(source, kind)


@pytest.mark.parametrize("name", sorted(ENDS | GROWN))
def test_a_list_is_read_behind_the_loop(name: str) -> None:
    end = (ENDS | GROWN)[name]
    compare(source_of(BODIES["what it carries"], end), "while_loop", shape=(2, 3))
    compare(
        source_of(BODIES["what it carries"], end, first="xs.append(x)"),
        "trained_loop",
        shape=(2, 1),
    )


READ = {
    "its end": "x = x * 0.5 + xs[-1] * 0.1\nxs.append(x)",
    "what came before its end": "x = x * 0.5 + xs[-2] * 0.1\nxs.append(x)",
    "what may not be there": "xs.append(x)\nif n > 1 and (xs[-1] - xs[-3]).abs().max() < 0.2:\n"
    "    break\nx = x * 0.5",
    "its length": "x = x / (len(xs) + 1)\nxs.append(x)",
}


@pytest.mark.parametrize("kind", ["while_loop", "trained_loop"])
@pytest.mark.parametrize("name", sorted(READ))
def test_a_list_is_read_in_the_loop(name: str, kind: str) -> None:
    start = "[x, x]" if "before" in name else "[x]"
    if "may not" in name and kind == "trained_loop":
        pytest.skip("torch.cond in a loop has no gradient (torch 2.13)")
    compare(source_of(READ[name], start=start), kind)


DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64)
WITH_ENDS = BODIES | {"its end": READ["what may not be there"], "its length": READ["its length"]}


@pytest.mark.parametrize("name", sorted(WITH_ENDS))
def test_a_list_is_what_it_is_for_any_input(name: str) -> None:
    """With NaN, infinities, no round, a break in the first, nothing in it: equal, or it raises."""
    source = source_of(WITH_ENDS[name], "x, torch.stack(xs), xs[-1], len(xs), n")
    plain, run = loaded(source)["f"], rewritten(source)

    @examples(8)
    @example([], torch.float32, 0.1)
    @example([1.0], torch.float32, 9.0)
    @example([1.0, 0.0], torch.float32, 0.1)
    @given(
        st.lists(VALUES, min_size=0, max_size=3),
        st.sampled_from(DTYPES),
        st.sampled_from([0.1, -1.0, 9.0]),
    )
    def check(values: list[float], dtype: torch.dtype, limit: float) -> None:
        finite = [0.0 if one != one or abs(one) > 9 else one for one in values]
        x = torch.tensor(finite if dtype is torch.int64 else values, dtype=dtype)
        with torch.no_grad():
            wanted = outcome(plain, x, torch.tensor(limit))
            found: list[Any] = ["left"]
            with suppress(AssertionError, TypeError, torch._dynamo.exc.TorchDynamoException):
                found = outcome(run, x, torch.tensor(limit))
        assert found == wanted or found in (["raises"], ["left"])
        assert found == wanted or dtype is torch.int64 or not values or wanted == ["raises"]

    check()


LEFT = {
    "is used before the loop": source_of("xs.append(x)\nx = x / 2", first="ys = xs"),
    "is used before": source_of("xs.append(x)\nx = x / 2", first="note(xs)"),
    "uses xs as a list": source_of("xs.append(x)\nx = x / 2", "x, xs"),
    "note": source_of("xs.append(x)\nx = x / 2", "note(xs)"),
    "for y in xs": source_of("xs.append(x)\nx = x / 2", "[y for y in xs]"),
    "xs.-2.": source_of("xs.append(x)\nx = x / 2", "xs[-2]"),
    "x is changed in place, and xs may hold it": source_of("xs.append(x)\nx *= 0.5"),
    "y is changed in place, and xs": source_of("y = x\nxs.append(y)\nx = x / 2\ny.mul_(2)"),
    "nothing says how often": source_of("xs.append(x)\nx = x / 2").replace(" and n < 6", ""),
    "another size in each round": source_of("xs.append(x)\nx = x / 2 + torch.stack(xs).sum()"),
    "set more than once": source_of("xs.append(x)\nx = x / 2", first="xs = [x]"),
    "filled by a loop in it": source_of("for _ in range(2):\n    xs.append(x)\nx = x / 2"),
    "x is changed in place behind": source_of(
        "xs.append(x)\nx = x / 2", "torch.stack(xs), x.add_(1)"
    ),
    "x is changed in place, and xs holds": source_of("xs.append(x + 1)\nx *= 0.5", start="[x]"),
    "xs has another name": source_of("xs.append(x)\nx = x / 2", start="ys = []"),
    "draws once more": source_of("y = torch.rand(2)\nxs.append(y)\nx = x / 2"),
}


BRANCHED = """\
def f(x, limit, fast=False):
    n, xs = 0, [x]
    {head}
        while x.abs().max() > limit and n < 6:
            xs.append(x)
            x = x * 0.5
            n += 1
    {then}
"""


@pytest.mark.parametrize(
    ("head", "then"),
    [
        ("if fast:", "return torch.stack(xs)"),
        ("if fast:", "else:\n        return torch.stack(xs)"),
        ("for _ in range(fast):", "return torch.stack(xs)"),
        ("try:", "except RuntimeError:\n        return xs[-1]"),
    ],
)
def test_a_list_that_a_branch_fills_is_left(head: str, then: str) -> None:
    with pytest.raises(UnfitError, match=r"also without the loop|is filled by|used before"):
        apply(BRANCHED.format(head=head, then=then), "while_loop", Frame("a.py", "f", 0, LINE))


def test_a_list_is_filled_and_read_in_one_branch() -> None:
    then = "    return torch.stack(xs), n\n    return x"
    source = BRANCHED.format(head="if not fast:", then=then)
    compare(source, "while_loop")
    compare(
        BRANCHED.format(head="with torch.no_grad():", then="return torch.stack(xs)"), "while_loop"
    )


@pytest.mark.parametrize("reason", sorted(LEFT))
def test_another_list_is_left(reason: str) -> None:
    line = LINE if LINE in LEFT[reason] else LINE.replace(" and n < 6", "")
    with pytest.raises(UnfitError, match=reason):
        apply(LEFT[reason], "while_loop", Frame("a.py", "f", 0, line))


def test_rows_of_other_shapes_raise() -> None:
    """They are no rows of one tensor: what is added has the shape of what is there."""
    for body in ("xs.append(x.sum())", "xs.append(x.float())", "xs.append(1.0)"):
        run = rewritten(source_of(f"x = x * 0.5\n{body}", start="[x]"))
        with pytest.raises(Exception, match=r"shape|dtype|subscript|dimension"), torch.no_grad():
            run(torch.ones(2, dtype=torch.float64), 0.1)


def test_two_lists_are_read_in_one_statement() -> None:
    body = "x = x / 2\nxs.append(x)\nys.append(x.sum())"
    end = "torch.stack(xs, 1), torch.stack(ys), len(ys)"
    compare(source_of(body, end, first="ys = []"), "while_loop")
    compare(source_of(body, end, first="ys = []"), "trained_loop")


def test_two_loops_that_one_statement_reads_are_left() -> None:
    end = "torch.stack(xs), torch.stack(ys)"
    source = source_of("xs.append(x)\nx = x * 0.5", end, first="ys = []")
    again = source[source.index("    while") : source.index("    return")].replace("xs", "ys")
    source = source.replace("    return", f"    n = 0\n{again}    return")
    with pytest.raises(UnfitError, match="two loops fill lists that one statement reads"):
        apply(source, "while_loop", Frame("a.py", "f", 0, LINE))


def test_a_number_that_is_set_in_the_loop_is_no_tensor_that_changes() -> None:
    body = "y = g(x)\nxs.append(y)\nt = 1.0\nt *= 0.5\nx = x * t"
    source = source_of(body, first="g = lambda one: one.sin()")
    compare(source, "while_loop")


def test_what_is_read_twice_is_two_tensors() -> None:
    run = rewritten(
        source_of("x = x / 2\nxs.append(x)", "torch.stack(xs), torch.stack(xs), xs[-1]")
    )
    with torch.no_grad():
        first, second, last = run(torch.ones(2), 0.1)
    first.zero_()
    assert second[-1].tolist() == last.tolist() == [0.0625, 0.0625]
    last.zero_()
    assert second.all()


def test_what_is_written_behind_stays_as_it_is_written() -> None:
    source = source_of("xs.append(x)\nx = x / 2", "(  # both\n        x, torch.stack(xs),\n    )")
    changed = apply(source, "while_loop", Frame("a.py", "f", 0, LINE))
    assert changed is not None
    assert changed.endswith("    return (  # both\n        x, xs.clone(),\n    )\n")
