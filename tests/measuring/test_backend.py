"""``graph_budget_backend``: another backend compiles, and Dynamo counts the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from pytest_graphbreak.measuring.backend import Backend  # noqa: E402
from tests.layers.dynamo.tools import HERE, _quiet, counts, observer, places  # noqa: E402, F401

pytestmark = pytest.mark.once

used: list[str] = []


def _spy(gm: Any, inputs: Any, **options: Any) -> Any:
    used.append("spy")
    assert not options
    return gm.forward


@pytest.fixture
def _registered() -> Iterator[None]:
    from torch._dynamo.backends import registry

    torch._dynamo.register_backend(name="spy")(_spy)
    used.clear()
    yield
    registry._BACKENDS.pop("spy", None)
    registry._COMPILER_FNS.pop("spy", None)


@pytest.mark.usefixtures("_registered")
def test_it_is_taken_for_none_and_for_those_that_are_named() -> None:
    own = torch.compile
    backend = Backend("spy", ("inductor",))
    backend.attach()
    try:
        for number, options in enumerate(
            ({}, {"backend": "inductor", "mode": "max-autotune"}, {"backend": "eager"})
        ):
            torch.compile(lambda x, n=number: x + n, **options)(torch.ones(3))
        torch.nn.Linear(2, 2).compile()
    finally:
        backend.detach()
    assert used == ["spy", "spy"]
    assert torch.compile is own


@pytest.mark.graph_budget(gate=False, reason="the cases of test_cases.py, which hold their counts")
@pytest.mark.parametrize("step", [24, pytest.param(1, marks=pytest.mark.nightly)])
def test_dynamo_counts_the_same(step: int) -> None:
    backend = Backend("aot_eager")
    backend.attach()
    wrong = {}
    try:
        for case in HERE[::step]:
            observer.isolate(case.name)
            window = observer.open(places)
            try:
                case.run(torch.compile)
            finally:
                seen = window.close()
            if counts(seen) != case.expected(torch.__version__):
                wrong[case.name] = counts(seen)
    finally:
        backend.detach()
    assert wrong == {}
