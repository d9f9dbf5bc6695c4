"""What is noted of compiled calls: what the program gave and got, whatever is in between."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch

from pytest_graphbreak.repair import drawing
from pytest_graphbreak.repair.calls import ENDLESS, CallResult
from pytest_graphbreak.repair.capture import Capture
from pytest_graphbreak.repair.drawing import Drawing
from pytest_graphbreak.repair.values import TensorLeaf

pytestmark = pytest.mark.once


def test_dynamo_meets_torch_compile_as_it_is() -> None:
    """Which it knows, and the program meets ours; a wrapper around it is as the program has it."""
    met: list[object] = []

    def backend(gm: torch.fx.GraphModule, _: Any) -> Any:
        met.append(torch.compile)
        return gm

    recorder, real = Capture(results=True), torch.compile
    with recorder.install():
        ours = torch.compile
        torch.compile = lambda model, **options: ours(lambda x: model(x + 1), **options)
        assert torch.compile(lambda x: x * 2, backend=backend)(torch.ones(1)).item() == 4
        torch.compile = ours  # as a monkeypatch is undone
        torch._dynamo.reset()
        Drawing(recorder, eager=False, values_only=True).results(recorder.called())
        assert torch.compile is ours
    assert torch.compile is real
    assert set(met) == {real}
    assert len(met) > 1
    (call,) = recorder.calls()
    assert list(tensors(call).values()) == [[4], [1]]  # the result, then the argument


def test_the_options_are_those_of_the_first_compile() -> None:
    recorder = Capture()
    with recorder.install():
        torch.compile(len)
        torch.compile(len, dynamic=True)
    assert recorder.options == {}


def drawn(model: Any, *args: Any) -> dict[str, CallResult]:
    recorder = Capture(results=True)
    with recorder.install(), torch.compiler.set_stance("force_eager"):
        torch.compile(model, backend="eager")(*args)
    drawn_calls = Drawing(recorder, eager=True, values_only=False, left_out=["random"])
    return drawn_calls.results(recorder.called())


def tensors(call: CallResult) -> dict[str, Any]:
    return {path: x.value.tolist() for path, x in call.values if isinstance(x, TensorLeaf)}


def test_each_of_the_drawn_inputs_has_random_numbers_of_its_own() -> None:
    values = [drawn(lambda x: torch.rand(1), torch.ones(1)) for _ in range(2)]
    numbers = [[tensors(call)["output"][0] for call in calls.values()] for calls in values]
    assert numbers[0] == numbers[1]
    assert len(set(numbers[0])) == len(numbers[0])


def test_what_a_call_prints_changes_and_gives_is_kept() -> None:
    seen = []

    def model(x: torch.Tensor) -> torch.Tensor:
        print("here")
        seen.append(1)
        x.add_(1)
        return x * 2

    calls = drawn(model, torch.ones(2))
    assert "random" not in calls
    zero = calls["zero"]
    assert tensors(zero) == {"output": [2, 2], "arguments[0]": [1, 1]}
    assert (zero.lines, zero.changed) == (("here",), {"seen"})
    assert seen == []  # as it was before the first call
    raised = calls["inputs that require gradients"].raised
    assert (raised.kind, raised.explicit) == ("RuntimeError", False)


def test_what_the_program_refuses_itself_is_told_from_what_torch_refuses() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] == 1:
            raise ValueError("one")
        return x.reshape(2, 2)

    calls = drawn(model, torch.ones(4))
    one, empty = calls["a batch of one"].raised, calls["an empty batch"].raised
    assert (one.words, one.explicit, empty.explicit) == ("ValueError: one", True, False)


def test_a_call_that_does_not_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "LIMIT", 0.1)

    def model(x: torch.Tensor) -> torch.Tensor:
        while bool((x < 0).all()):
            with contextlib.suppress(Exception):  # as programs have it
                x = x - 1
        return x

    calls = drawn(model, torch.ones(2))
    assert calls["negated"].raised == ENDLESS
    assert calls["zero"].raised is calls["NaN"].raised is None
