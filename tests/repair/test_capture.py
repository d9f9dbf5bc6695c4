"""What is noted of compiled calls: what the program gave and got, whatever is in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from pytest_graphbreak.repair.capture import Capture
from pytest_graphbreak.repair.others import LENGTHS, VARIANTS


def plus_one(compile: Callable[..., Any]) -> Callable[..., Any]:
    """A wrapper around torch.compile, as a patch puts one there."""

    def wrap(model: Any, **options: Any) -> Any:
        compiled = compile(model, **options)
        return lambda x: compiled(x + 1)

    return wrap


def test_ours_goes_around_the_wrappers_of_the_program() -> None:
    recorder = Capture(allow_breaks=True)
    real, kind = torch.compile, type(torch)
    with recorder.installed():
        first = torch.compile
        torch.compile = plus_one(first)
        assert torch.compile(lambda x: x * 2, backend="eager")(torch.ones(1)).item() == 4
        torch.compile = first  # as a monkeypatch is undone
        assert torch.compile(lambda x: x * 3, backend="eager")(torch.ones(1)).item() == 3
    assert (torch.compile, type(torch)) == (real, kind)
    assert len(recorder.entries) == 2
    values = [
        [x.item() for _, x in call if isinstance(x, torch.Tensor)] for call in recorder.calls()
    ]
    assert values == [[4, 1], [3, 1]]  # the result, then the argument


def test_other_inputs_have_other_sizes_only_where_sizes_vary() -> None:
    for sizes, kinds in (((3, 3), VARIANTS), ((3, 5), VARIANTS + LENGTHS)):
        seen: list[torch.Tensor] = []

        def model(x: torch.Tensor, seen: list[torch.Tensor] = seen) -> torch.Tensor:
            seen.append(x.detach().clone())
            return x

        recorder = Capture(allow_breaks=True)
        with recorder.installed():
            compiled = torch.compile(model, backend="eager")
            with torch.compiler.set_stance("force_eager"):
                for size in sizes:
                    compiled(torch.ones(size))
        assert len(recorder.rerun(eager=True)) == len(kinds)
        del seen[:3]  # the program's own calls, and one with a copy of its inputs
        assert [len(x) for x in seen] == [3, 3, 3, 3, 3, 2, 2, 2, 6][: len(kinds)]
        for x in seen[5:6]:
            assert x.min() > 0
        for x in seen[6:7]:
            assert x.max() < 0


@pytest.mark.parametrize(
    ("given", "others"),
    [
        (torch.ones(2, 4, dtype=torch.long), [[1, 1, 0, 0], [1, 1, 1, 0]]),
        (torch.ones(2, 3, dtype=torch.bool), [[True, False, False], [True, True, False]]),
        (torch.ones(2, 0, dtype=torch.bool), [[], []]),
        (torch.tensor([7, 8, -4]), [7, 4, -2]),
        (torch.tensor(5), 2),
        (torch.ones(2, dtype=torch.bool), [True, False]),
    ],
)
def test_integers_that_are_all_alike_are_others_too(given: torch.Tensor, others: object) -> None:
    seen: list[torch.Tensor] = []

    def model(x: torch.Tensor) -> torch.Tensor:
        seen.append(x.detach().clone())
        return x

    recorder = Capture(allow_breaks=True)
    with recorder.installed(), torch.compiler.set_stance("force_eager"):
        torch.compile(model, backend="eager")(given)
    recorder.rerun(eager=True)
    found = [one.tolist() for one in seen]
    assert len(found) == 2 + len(VARIANTS) + (2 if given.dim() > 1 else 0)
    assert found[0] == found[1]  # a copy of the program's own
    assert others in found[2:]


def test_each_of_the_other_inputs_has_random_numbers_of_its_own() -> None:
    recorder = Capture(allow_breaks=True)
    with recorder.installed(), torch.compiler.set_stance("force_eager"):
        torch.compile(lambda x: torch.rand(1), backend="eager")(torch.ones(1))
    found = [one[1][1].item() for one in recorder.rerun(eager=True) if not isinstance(one, str)]
    assert len(set(found)) == len(VARIANTS)
    assert found == [
        one[1][1].item() for one in recorder.rerun(eager=True) if not isinstance(one, str)
    ]
