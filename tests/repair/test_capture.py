"""What is noted of compiled calls: what the program gave and got, whatever is in between."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._pytree import register_pytree_node

from pytest_graphbreak.repair import capture
from pytest_graphbreak.repair.capture import Capture
from pytest_graphbreak.repair.compare import ENDLESS
from pytest_graphbreak.repair.copies import leaves_of

pytestmark = pytest.mark.once


def plus_one(compile: Callable[..., Any]) -> Callable[..., Any]:
    """A wrapper around torch.compile, as a patch puts one there."""

    def wrap(model: Any, **options: Any) -> Any:
        compiled = compile(model, **options)
        return lambda x: compiled(x + 1)

    return wrap


def test_ours_goes_around_the_wrappers_of_the_program() -> None:
    recorder = Capture(allow_breaks=True)
    real, kind = torch.compile, type(torch)
    with recorder.install():
        first = torch.compile
        torch.compile = plus_one(first)
        assert torch.compile(lambda x: x * 2, backend="eager")(torch.ones(1)).item() == 4
        torch.compile = first  # as a monkeypatch is undone
        assert torch.compile(lambda x: x * 3, backend="eager")(torch.ones(1)).item() == 3
    assert (torch.compile, type(torch)) == (real, kind)
    assert len(recorder.entries) == 2
    values = [
        [x.item() for _, x in call if isinstance(x, torch.Tensor)]
        for call in recorder.results({}, None, eager=True, values_only=True, left_out=[])["calls"]
    ]
    assert values == [[4, 1], [3, 1]]  # the result, then the argument


def test_dynamo_meets_the_module_torch_as_it_is() -> None:
    """Dynamo of torch 2.9 and 2.11 breaks at ``import torch`` where its class is another."""
    kinds: list[type] = []

    def backend(gm: torch.fx.GraphModule, _: Any) -> Any:
        kinds.append(type(torch))
        return gm

    recorder = Capture()
    with recorder.install():
        torch.compile(lambda x: x + 1, backend=backend)(torch.ones(2))
        torch._dynamo.reset()
        recorder.results({}, None, eager=False, values_only=True, left_out=[])
        assert type(torch) is not types.ModuleType  # torch.compile is watched again
    assert set(kinds) == {types.ModuleType}
    assert len(kinds) > 1


def drawn(model: Any, *args: Any) -> dict[str, Any]:
    recorder = Capture()
    with recorder.install(), torch.compiler.set_stance("force_eager"):
        torch.compile(model, backend="eager")(*args)
    options = {"eager": True, "values_only": False, "left_out": ["random"]}
    found: dict[str, Any] = recorder.results({}, None, **options)["drawn"]
    return found


def test_each_of_the_drawn_inputs_has_random_numbers_of_its_own() -> None:
    values = [drawn(lambda x: torch.rand(1), torch.ones(1)) for _ in range(2)]
    numbers = [[value[0][1].item() for value in one.values()] for one in values]
    assert numbers[0] == numbers[1]
    assert len(set(numbers[0])) == len(numbers[0])


def test_what_a_call_prints_changes_and_gives_is_kept() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        print("here")
        x.add_(1)
        return x * 2

    values = drawn(model, torch.ones(2))
    assert "random" not in values
    assert values["zero"][:2] == [("output", values["zero"][0][1]), values["zero"][1]]
    kept = {name: value for name, value in values["zero"] if isinstance(value, torch.Tensor)}
    assert [value.tolist() for value in kept.values()] == [[2, 2], [1, 1]]
    assert values["zero"][-1] == ("lines", ("here",))
    assert values["inputs that require gradients"].startswith("raises RuntimeError: a leaf")


def test_a_call_that_does_not_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "LIMIT", 0.1)

    def model(x: torch.Tensor) -> torch.Tensor:
        while bool((x < 0).all()):
            x = x - 1
        return x

    values = drawn(model, torch.ones(2))
    assert values["negated"] == values["negated, with gradients"] == ENDLESS
    assert ENDLESS not in (values["zero"], values["NaN"])


def test_the_structure_of_a_result_has_no_address() -> None:
    """As that of a tensordict, which names functions."""
    context = [lambda: None, lambda: None]
    words = [leaves_of(Box(function, torch.ones(1)))[0] for function in context]
    assert words[0] == words[1]
    assert "function" in words[0]


class Box:
    def __init__(self, function: Any, value: torch.Tensor) -> None:
        self.function, self.value = function, value


register_pytree_node(
    Box, lambda box: ([box.value], box.function), lambda values, context: Box(context, values[0])
)
