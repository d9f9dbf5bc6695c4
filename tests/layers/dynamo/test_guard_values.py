"""Of several guards that failed, that of the closest call before is reported."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from pytest_graphbreak import observe  # noqa: E402
from pytest_graphbreak.layers.dynamo.guard_values import closest, signature  # noqa: E402


def reasons(function: Any, *calls: tuple[Any, ...]) -> list[str]:
    """Why each call was compiled again; as often as a server has buckets."""
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="eager", dynamic=False)
    with observe() as seen:
        for args in calls:
            compiled(*args)
    return [item.reason for item in seen.record.recompile_list]


def scaled(x: Any, scale: Any) -> Any:
    return x * scale


def test_of_many_sizes_the_one_that_is_called_now() -> None:
    sizes = [(torch.ones(size), 1) for size in (4, 8, 16, 32)]
    *_, last = reasons(scaled, *sizes, (torch.ones(4), 2))
    assert last == "scale == 1 (scale is 2 now)"


def test_of_two_values_the_one_that_is_called_now() -> None:
    *_, last = reasons(scaled, (torch.ones(4), 1), (torch.ones(4), 2), (torch.ones(8), 1))
    assert last.startswith("tensor 'x' size mismatch at index 0. expected 4, actual 8")


def test_of_two_sizes_the_one_that_has_more_in_common() -> None:
    sizes = [(torch.ones(shape), 1) for shape in ((1, 8), (1, 16), (4, 8), (4, 16), (4, 32))]
    *_, last = reasons(scaled, *sizes, (torch.ones(1, 32), 1))
    # That of [4, 32] was compiled last, and fits but for its batch.
    assert "index 0. expected 4, actual 1" in last


def test_modes_count() -> None:
    model = torch.nn.Dropout()

    def run(x: Any, grad: bool, train: bool) -> None:
        model.train(train)
        with torch.set_grad_enabled(grad):
            compiled(x)

    torch._dynamo.reset()
    compiled = torch.compile(model, backend="eager", dynamic=False)
    with observe() as seen:
        for size in (4, 8, 16):
            run(torch.ones(size), False, False)
        run(torch.ones(4), True, False)
        run(torch.ones(8), False, True)
    *_, grad, train = [item.reason for item in seen.record.recompile_list]
    assert "grad_mode" in grad
    assert "training" in train


def test_what_is_as_close_keeps_its_order() -> None:
    now = signature({"n": 3, "x": torch.ones(2)})
    known = {"0/0": signature({"n": 1}), "0/1": signature({"n": 2})}
    guards = ["0/1: n == 2", "0/0: n == 1", "0/7: nobody knows", "what is this"]
    assert closest(guards, known, now) == guards
    assert closest(guards[::-1], known, now)[:2] == guards[:2][::-1]


def test_what_was_reported_once_comes_last() -> None:
    now = signature({"train": True})
    known = {"0/0": now, "0/1": signature({"train": False})}
    guards = ["0/1: not train", "0/0: self.kind is None"]
    assert closest(guards, known, now) == guards[::-1]
    assert closest(guards, known, now, {"self.kind is None"}) == guards


class Hostile:
    """Runs code where it is asked for anything."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(name)

    def __eq__(self, other: object) -> bool:
        raise AssertionError

    __hash__ = None  # type: ignore[assignment]


def test_no_code_of_the_user_runs() -> None:
    class Text(str):
        __eq__ = Hostile.__eq__
        __hash__ = None  # type: ignore[assignment]

    assert set(signature({"a": Hostile(), "b": Text("b"), "c": 1, "d": "x" * 1000})) == {
        "",
        "c",
        "d",
    }
