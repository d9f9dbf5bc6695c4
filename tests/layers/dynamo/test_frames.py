"""What is read from frames that are compiled again: no code of the user runs for it."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from pytest_graphbreak.layers.dynamo.frames import current_value, modules  # noqa: E402


class Hostile:
    """Runs code where it is asked for anything."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(name)

    def __eq__(self, other: object) -> bool:
        raise AssertionError

    __hash__ = None  # type: ignore[assignment]


def test_no_code_of_the_user_runs() -> None:
    model = torch.nn.Linear(2, 3)
    values = {"a": Hostile(), "model": model, "c": 1}
    assert modules(values) == {"model": (id(model), ((3, 2), (3,)))}
    assert current_value("a == 1", values) == ""
    assert current_value("a.b == 1", values) == ""
    assert current_value("c == 2", values) == "c is 1 now"
