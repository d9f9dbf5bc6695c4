"""What a loop takes for a number because it begins as one: another value raises, or is right."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch._dynamo.config
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.rewrite import apply
from pytest_graphbreak.repair.rewrite.scope import UnfitError
from tests.examples import examples
from tests.repair.test_sound import bits, loaded

LINE = "while x.sum() > limit:"
SOURCE = """\
def f(x, limit, y):
    {first}
    while x.sum() > limit:
        x = x * 0.5
        {body}
    return x, y
"""
SET = {
    "a default that is an int": ("", "y = y * 2", "1"),
    "a default that is a float": ("", "y = y * 0.5", "2.0"),
    "a default that is a flag": ("n = 0", "n = n + y", "False"),
    "a default that gets a shape": ("", "y = y + x", "0"),
    "a default that is changed": ("", "y += x", "0.0"),
    "a default that is read back": ("", "y = x.max().item() + y", "0.0"),
    "a default that is a step": ("n = 0", "n = n + y", "1"),
    "a default that is None": ("", "y = x + 1", "None"),
    "a number on one side": ("if limit < 2:\n        y = 0", "y = y + 1", "0"),
    "a number that was changed": ("n = y\n    y = 0.0\n    y += n", "y = y * 0.5", "0.0"),
}
GIVEN = {
    "an int": 3,
    "a float": 0.1,
    "a flag": True,
    "infinity": math.inf,
    "a tensor": torch.tensor(0.1),
    "a double": torch.tensor(0.1, dtype=torch.float64),
    "an element": torch.tensor([2.0]),
    "a row": torch.tensor([1.0, 0.0, -2.0]),
    "an int in a tensor": torch.tensor(2),
}


@pytest.fixture(autouse=True)
def _compiles_numbers() -> Iterator[None]:
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_scalar_outputs=True, recompile_limit=99):
        yield


def outcome(function: Any, *args: Any) -> list[Any]:
    """Return the results, numbers with their type; or that there is an error."""
    try:
        with torch.no_grad():
            found = function(*args)
    except Exception as error:
        return [error]
    return [bits(one) if isinstance(one, torch.Tensor) else [type(one), one] for one in found]


@pytest.mark.parametrize("name", sorted(SET))
def test_an_argument_is_what_its_default_is(name: str) -> None:
    first, body, default = SET[name]
    source = SOURCE.format(first=first or "pass", body=body)
    source = source.replace("limit, y):", f"limit, y={default}):")
    changed = apply(source, "while_loop", Frame("a.py", "f", 0, LINE))
    assert changed is not None
    plain = loaded(source)["f"]
    run = torch.compile(loaded(changed)["f"], backend="eager", fullgraph=True)

    @examples(24)
    @example("a tensor", 1)
    @example("a float", 1)
    @given(st.sampled_from(sorted(GIVEN)), st.sampled_from([1, 2]))
    def check(kind: str, limit: int) -> None:
        value = GIVEN[kind]
        args = [value.clone() if isinstance(value, torch.Tensor) else value for _ in range(2)]
        wanted = outcome(plain, torch.ones(3), limit, args[0])
        found = outcome(run, torch.ones(3), limit, args[1])
        assert found == wanted or isinstance(found[0], Exception)
        assert isinstance(found[0], Exception) or repr(args[0]) == repr(args[1])

    check()
    wanted = outcome(plain, torch.ones(3), 1)
    assert outcome(run, torch.ones(3), 1) == wanted


def test_the_error_names_the_argument() -> None:
    source = SOURCE.format(first="pass", body="y = y * 2").replace("limit, y):", "limit, y=1):")
    changed = apply(source, "while_loop", Frame("a.py", "f", 0, LINE))
    assert changed is not None
    run = torch.compile(loaded(changed)["f"], backend="eager")
    with pytest.raises(TypeError, match="y has to be int: the loop was rewritten for that"):
        run(torch.ones(3), 1, 0.5)


NONE = {
    "is None": "y = x if y is None else y * x",
    "is not None": "if y is not None:\n            x = x - y\n        y = x * 2",
    "a truth": "if not y:\n            x = x * 0.5\n        y = x * 2",
    "a choice": "y = (y or x) * 2",
    "an equal": "x = x * 0.5 if y == None else x\n        y = x * 2",
    "a call": "y = step(x, y)",
    "a bias": "y = torch.nn.functional.linear(x, torch.eye(3), y)",
    "another name": "z = y\n        y = x * 2 if z is None else z",
}


@pytest.mark.parametrize("name", sorted(NONE))
def test_what_begins_as_none_and_is_asked_for_it_is_left(name: str) -> None:
    """It is a tensor of zeros in the loop, also in the first round."""
    source = SOURCE.format(first="y = None", body=NONE[name])
    with pytest.raises(UnfitError, match="y begins as None, which"):
        apply(source, "while_loop", Frame("a.py", "f", 0, LINE))
    source = SOURCE.format(first="y = None", body="y = x * 2\n        " + NONE[name])
    assert apply(source, "while_loop", Frame("a.py", "f", 0, LINE))


@pytest.mark.parametrize("body", ["y = y + x", "y = x.sum() + y", "y += x"])
def test_a_number_that_gets_a_shape_stays_one_without_a_round(body: str) -> None:
    """It would be a tensor of zeros: the loop has to run once, as where it only sets a name."""
    source = SOURCE.format(first="y = 0.0", body=body)
    changed = apply(source, "while_loop", Frame("a.py", "f", 0, LINE))
    assert changed is not None
    plain = loaded(source)["f"]
    run = torch.compile(loaded(changed)["f"], backend="eager", fullgraph=True)
    assert outcome(run, torch.ones(3), 1, 0) == outcome(plain, torch.ones(3), 1, 0)
    assert outcome(plain, torch.zeros(3), 1, 0)[1] == [float, 0.0]
    with pytest.raises(RuntimeError, match="the loop does not run once"), torch.no_grad():
        run(torch.zeros(3), 1, 0)


def test_a_test_that_draws_is_not_asked_once_more() -> None:
    source = SOURCE.format(first="y = 0.0", body="y = y + x")
    source = source.replace("x.sum() > limit", "torch.rand(()) > limit")
    with pytest.raises(UnfitError, match="draws once more to find the shape of y"):
        apply(source, "while_loop", Frame("a.py", "f", 0, "while torch.rand(()) > limit:"))
