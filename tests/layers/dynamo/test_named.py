"""Recompiles, disabled functions and modules that compile nothing name the line to edit."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from pytest_graphbreak import observe  # noqa: E402
from pytest_graphbreak.layers.dynamo.frames import written_forward  # noqa: E402
from pytest_graphbreak.model.items import Frame  # noqa: E402
from pytest_graphbreak.model.record import Record  # noqa: E402

SEEN: list[int] = []


def plain(x: torch.Tensor) -> torch.Tensor:
    return x - 1


lowered = torch.compiler.disable(plain)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.k = 1
        self.first.forward = torch.compiler.disable(self.first.forward)  # of one instance

    def scaled(self, x: Any) -> Any:
        return x * self.k  # the guard of k

    @torch.compiler.disable
    def pooled(self, x: Any) -> Any:
        return x + 1

    def forward(self, x: Any, what: str = "") -> Any:
        if what == "pooled":
            return self.pooled(x) * 2
        if what == "plain":
            return lowered(x) * 2
        if what == "first":
            return self.first(x) * 2
        return self.scaled(x) + len(SEEN)  # the guard of SEEN


def seen(run: Callable[[], object]) -> Record:
    torch._dynamo.reset()
    with observe() as view:
        run()
    return view.record


def line(text: str) -> Callable[[Frame], bool]:
    """Whether a place is that line of this file, by its number and its text."""
    lines = inspect.getsource(inspect.getmodule(line)).splitlines()  # type: ignore[arg-type]
    (number,) = [n for n, one in enumerate(lines, 1) if one.strip() == text]
    return lambda where: (where.line, where.code) == (number, text)


def test_a_guard_in_an_inlined_function_and_the_line_that_sets_it() -> None:
    net = Net()
    compiled = torch.compile(net, backend="eager")

    def run() -> None:
        for _ in range(2):
            net.k += 1
            compiled(torch.ones(4))

    (item,) = seen(run).recompile_list
    assert line("return x * self.k  # the guard of k")(item.guard)
    assert item.guard.function == "Net.scaled"
    assert line("net.k += 1")(item.origin)


def test_the_length_of_a_global_list() -> None:
    compiled = torch.compile(Net(), backend="eager")

    def run() -> None:
        for number in range(2):
            SEEN.extend([number])
            compiled(torch.ones(4))

    (item,) = seen(run).recompile_list
    assert line("return self.scaled(x) + len(SEEN)  # the guard of SEEN")(item.guard)
    assert line("SEEN.extend([number])")(item.origin)


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("pooled", "@torch.compiler.disable"),
        ("plain", "def plain(x: torch.Tensor) -> torch.Tensor:"),
        ("first", ""),  # it is torch's own
    ],
)
def test_where_a_disabled_function_is_defined(what: str, text: str) -> None:
    compiled = torch.compile(Net(), backend="eager")
    (item,) = seen(lambda: compiled(torch.ones(4), what)).breaks
    assert item.disabled.code == text
    assert item.where.function == "Net.forward"


def test_a_forward_that_wraps_itself_is_no_endless_loop() -> None:
    class Wrapped(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x

    Wrapped.forward.__wrapped__ = Wrapped.forward  # type: ignore[attr-defined]
    values = {"self": Wrapped()}
    assert written_forward(Wrapped.forward.__code__, values) is None
