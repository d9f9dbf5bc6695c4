"""Tests of Python as expressions of a bool tensor: what is written, and what is refused."""

from __future__ import annotations

import ast

import pytest

from pytest_graphbreak.repair.rewrite.conditions import as_doubles, condition, decided
from pytest_graphbreak.repair.rewrite.scope import Surroundings, UnfitError


def expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


@pytest.mark.parametrize(
    ("test", "written"),
    [
        ("x.sum() > 0", "x.sum() > 0"),
        ("a > b", "(a > b).reshape(())"),
        ("not done", "torch.logical_not(done.reshape(()).ne(0))"),
        ("not _stop", "torch.logical_not(_stop)"),
        ("x.max().item() > 0.1", "x.max().double() > 0.1"),
        ("x.item() > 0.5", "x > 0.5"),  # as exact in any dtype
        (
            "a.item() < tol * max(1.0, b.item())",
            "(a.double() < (tol * torch.where(b.double().reshape(()) > 1.0, "
            "b.double().reshape(()), 1.0))).reshape(())",
        ),
        ("math.isnan(x.item())", "torch.isnan(x.double().reshape(())).reshape(()).ne(0)"),
        ("np.isnan(x.item())", "torch.isnan(x.double().reshape(())).reshape(()).ne(0)"),
        (
            "not math.isfinite(v)",
            "torch.logical_not(torch.isfinite(v + torch.zeros((), dtype=torch.float64))"
            ".reshape(()).ne(0))",
        ),
        (
            "n < 5 and x[n] > 0",
            "torch.cond(torch.as_tensor(n < 5).reshape(()), "
            "lambda: torch.as_tensor(x[n] > 0).reshape(()), lambda: torch.tensor(False))",
        ),
        (
            "a.any() or x[0] > 0",
            "torch.logical_or(a.any().reshape(()).ne(0), torch.as_tensor(x[0] > 0).reshape(()))",
        ),
    ],
)
def test_what_is_written(test: str, written: str) -> None:
    assert condition(expression(test)) == written


@pytest.mark.parametrize(
    "test",
    [
        "x.item() / y.item() > 2",  # by zero, Python raises and a tensor does not
        "x.item() / n > 2",
        "x.item() % 2 > 1",
        "x.item() ** 0.5 > 1",
        "math.log(x.item()) > 1",
        "round(x.item()) > 1",
        "0 < x < 1",
    ],
)
def test_what_tensors_compute_in_another_way_is_refused(test: str) -> None:
    with pytest.raises(UnfitError):
        condition(expression(test))


def test_arithmetic_without_a_value_that_is_read_stays() -> None:
    plain = expression("a / b + max(c, 1)")
    assert as_doubles(plain) is plain


@pytest.mark.parametrize(
    ("test", "written"),
    [
        ("n > 3", "({n} > 3).reshape(())"),
        ("-1 < n", "((-1) < {n}).reshape(())"),
        ("not n >= m", "torch.logical_not(({n} >= {m}).reshape(()))"),
        ("share == 0", "({share} == 0).reshape(())"),
        ("n > x.sum()", "(n > x.sum()).reshape(())"),  # a tensor of another type
        ("k > 3", "(k > 3).reshape(())"),
        ("twice > 3", "(twice > 3).reshape(())"),
    ],
)
def test_a_number_that_was_read_before_is_a_tensor_again(test: str, written: str) -> None:
    made = {
        "n": "x.max().item()",
        "m": "float(y)",
        "k": "y.sum()",
        "share": "(a - b).item() / 255",
        "twice": "x.item()",
    }
    before: dict[str, ast.expr | None] = {name: expression(one) for name, one in made.items()}
    place = Surroundings((), before, several=frozenset({"twice"}))
    tensors = {name: f"torch.tensor({name}, dtype=torch.float64)" for name in ("n", "m", "share")}
    asked = expression(test)
    assert decided(asked, place) == written.format(**tensors)
    assert ast.unparse(asked) == test
