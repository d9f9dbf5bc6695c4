"""What is read from frames that are compiled again: no code of the user runs for it."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from pytest_graphbreak.layers.dynamo.guards import current_value, modules  # noqa: E402
from tests.conftest import Suite  # noqa: E402
from tests.layers.dynamo.tools import window  # noqa: E402


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


@pytest.mark.once
def test_a_generator_falls_with_the_break_of_who_calls_it(suite: Suite) -> None:
    """Dynamo comes to a generator only where its caller left the compiler: no cause of its own."""
    suite.write(
        """
        import pytest
        import torch

        class Block(torch.nn.Module):
            def forward(self, x):
                print(x.mean().item())
                return x.relu()

        class Chain(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.blocks = torch.nn.ModuleList([Block()])

            def each(self):
                for block in self.blocks:
                    yield block

            def forward(self, x):
                for block in self.each():
                    x = block(x)
                return x

        @pytest.mark.max_graphs(0)
        def test_it():
            torch.compile(Chain(), backend="eager")(torch.ones(3))
        """
    )
    run = suite.run()
    run.assert_outcomes(failed=1)
    causes = [line for line in run.outlines if line.startswith("  + ")]
    assert len(causes) == 1, causes
    run.stdout.fnmatch_lines(["*and because of it:", "*in Chain.each runs without the compiler"])


def test_the_value_and_the_line_are_of_the_guard_that_is_named() -> None:
    """The newest guard says only that the size is not 1: reported is one of an earlier compile."""

    def scaled(x: Any, mode: str) -> Any:
        y = x * 2
        return y.sin() if mode == "a" else y.cos()

    first = scaled.__code__.co_firstlineno
    compiled = torch.compile(scaled, backend="eager", dynamic=True)
    compiled(torch.ones(4), "a")
    compiled(torch.ones(1), "a")
    with window() as seen:
        compiled(torch.ones(5), "b")
    (recompile,) = seen[0].recompile_list
    assert recompile.reason == "mode == 'a' (mode is 'b' now)"
    assert recompile.guard.line == first + 2
