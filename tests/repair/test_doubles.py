"""Python numbers in loops that become tensors: what they compute is what Python computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch._dynamo.config

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.rewrite import apply
from tests.repair.test_sound import bits, loaded

LINE = "while x.abs().max() < limit:"
SOURCE = """\
def f(x, limit, rate):
    n, t, y = 0, 0.3, x * 0
    while x.abs().max() < limit:
        n += 1
        {body}
        x = x * 2
    return x, y, n
"""
BODIES = {
    "a counter times a number": "y = y + x * (n * 0.1)",
    "a number times a counter": "y = y + x * (0.1 * (n + 1))",
    "an argument times a counter": "y = y + x * (rate * n)",
    "a counter times an argument": "y = y + x * (-n * rate)",
    "a counter over a number": "y = y + x * (n / 10)",
    "a number over a counter": "y = y + x * (1 / (n + 2))",
    "two counters": "k = n * 3\n        y = y + x * (n / (k + 7))",
    "a local number": "a = 0.1 * n\n        y = y + x * a * (a + n)",
    "a running product": "t = t * 0.7 + n * 0.1\n        y = y + x * t",
    "the largest": "y = y + x * max(n * 0.1, 0.25)",
    "the largest of two types": "y = y + x * (max(n, 2.5) * 0.1)",
    "a sum of the tensor": "t *= 0.7\n        y = y + x * (t * x.sum())",
    "a sum with a name": "t *= 0.7\n        s = x.sum()\n        y = y + x * (s - t)",
    "a test": "y = y + 1 if n * 0.1 > 0.3 else y - 1",
    "a test with an argument": "y = y + 1 if n * rate > 0.7 else y - 1",
    "a negative number": "y = y + x * (-0.1 * -n)",
}


@pytest.fixture(autouse=True)
def _compiles_numbers() -> Iterator[None]:
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_scalar_outputs=True, recompile_limit=99):
        yield


def run_of(source: str, line: str = LINE, *, fullgraph: bool = True) -> Any:
    changed = apply(source, "while_loop", Frame("a.py", "f", 0, line))
    assert changed is not None
    return torch.compile(loaded(changed)["f"], backend="eager", fullgraph=fullgraph)


@pytest.mark.parametrize("name", sorted(BODIES))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("shape", [(), (3,)], ids=str)
def test_a_number_is_computed_as_python_does(
    name: str, dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    source = SOURCE.format(body=BODIES[name])
    plain, run = loaded(source)["f"], run_of(source)
    for start in (0.1, 0.3, 9.0):
        x = torch.full(shape, start, dtype=dtype)
        with torch.no_grad():
            wanted = plain(x, 7, 0.1)
            found = run(x, 7, 0.1)
        assert [*map(bits, found[:2]), found[2]] == [*map(bits, wanted[:2]), wanted[2]]


ZERO = {
    "a constant over a counter": "y = y + x * (1 / n)\n        n += 1",
    "counters": "y = y + x * (n / (3 - n))\n        n += 1",
    "a remainder": "y = y + x * (7 % n)\n        n += 1",
    "where there is none": "w = 1 / n if n > 0 else n * 2.0\n        y = y + x * w\n        n += 1",
    "a float": "t = max(0.3 - n * 0.3, 0.0)\n        y = y + x * (1 / t)\n        n += 1",
    "after it is counted": "n += 1\n        y = y + x * (1 / n)",
    "one more": "y = y + x * (1 / (n + 1))\n        n += 1",
}


@pytest.mark.parametrize("name", sorted(ZERO))
def test_a_number_over_zero_raises(name: str) -> None:
    source = SOURCE.replace("        n += 1\n        {body}", "        {body}").format(
        body=ZERO[name]
    )
    plain, run = loaded(source)["f"], run_of(source)

    def outcome(function: Any, start: float) -> list[Any]:
        try:
            with torch.no_grad():
                x, y, n = function(torch.full((3,), start), 7, 0.1)
        except (ZeroDivisionError, IndexError):
            return ["raises"]
        return [bits(x), bits(y), n]

    for start in (0.1, 3.0, 9.0):
        assert outcome(run, start) == outcome(plain, start)


def test_a_divisor_that_is_not_zero_is_not_checked() -> None:
    for body, checked in (("1 / (n + 1)", False), ("1 / n", True), ("n / (n - 9)", True)):
        source = SOURCE.format(body=f"y = y + x * ({body})")
        changed = apply(source, "while_loop", Frame("a.py", "f", 0, LINE))
        assert changed is not None
        assert ("== 0" in changed) is checked


COUNTED = """\
def f(x, limit, start=0):
    for i in range({given}):
        x = x * 0.5
        if x.sum() < 0.1:
            break
    return x, i
"""


@pytest.mark.parametrize("given", ["limit", "start, limit", "limit, 9"])
@pytest.mark.parametrize("limit", [3.0, torch.tensor(3.0), 3], ids=["float", "tensor", "int"])
def test_a_range_takes_integers_alone(given: str, limit: Any) -> None:
    source = COUNTED.format(given=given)
    plain, run = loaded(source)["f"], run_of(source, "if x.sum() < 0.1:", fullgraph=False)
    with torch.no_grad():
        if not isinstance(limit, int):
            for one in (plain, run):
                with pytest.raises(TypeError, match="integer"):
                    one(torch.ones(3), limit)
        else:
            wanted, found = plain(torch.ones(3), limit), run(torch.ones(3), limit)
            assert (bits(found[0]), found[1]) == (bits(wanted[0]), wanted[1])
