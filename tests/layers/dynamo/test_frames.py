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


class Number(int):
    __repr__ = Hostile.__getattribute__  # type: ignore[assignment]


MODEL = torch.nn.Linear(2, 3)


@pytest.mark.parametrize(
    "make", [Hostile, lambda: Number(3), lambda: torch.nn.Buffer(torch.ones(3))]
)
def test_no_code_of_the_user_runs(make: Any) -> None:
    values = {"n": make(), "model": MODEL}
    for guard in ("L['n'] == 2", "L['n'].a[0]['k'] == 2"):
        assert current_value(f"0/0: {guard}", values) == ""
    assert modules(values) == {"model": (id(MODEL), ((3, 2), (3,)))}


@pytest.mark.parametrize(
    ("guard", "n"),
    [
        ("0/0: L['n'] == 2", "x" * 100),
        ("0/0: L['m'] == 2", 3),
        ("len(L['n']) == 2", [1]),
        ("GLOBAL_STATE changed: grad_mode ", 3),
    ],
)
def test_what_is_long_or_not_there_is_not_shown(guard: str, n: Any) -> None:
    assert current_value(guard, {"n": n}) == ""
