"""Dynamo forgets what was compiled, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo
import torch.compiler.config
from torch._dynamo import pgo
from torch._dynamo.testing import CompileCounter

from pytest_graphbreak.layers.dynamo import isolation


def sizes(*given: int) -> int:
    """How many graphs a function of its own makes of these sizes."""
    counter = CompileCounter()
    run = torch.compile(_twice, backend=counter)
    for size in given:
        run(torch.ones(size))
    return int(counter.frame_count)


def _twice(x: Any) -> Any:
    return x * 2


@pytest.fixture(autouse=True)
def _reset() -> Iterator[None]:
    torch._dynamo.reset()
    # torch_xla turns both off.
    with torch._dynamo.config.patch(assume_static_by_default=True, automatic_dynamic_shapes=True):
        yield
    torch._dynamo.reset()


def test_a_profile_of_an_earlier_run_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    with torch.compiler.config.patch(job_id="of-this-test"):
        if pgo.get_cache_key() is None:
            pytest.skip("this torch keeps no local profile")
        assert sizes(3, 5) == 2
        torch._dynamo.reset()
        assert sizes(3, 5) == 1, "torch itself reads what the first one has left"
        for _ in range(2):
            isolation.reset()
            assert sizes(3, 5) == 2


def test_eager_then_compile_sees_its_first_call_again() -> None:
    for _ in range(2):
        isolation.reset()
        with torch.compiler.set_stance("eager_then_compile"):
            # Eager, then with what the two calls have in common, then warm.
            assert sizes(3, 5, 7) == 1
            assert sizes() == 0


def test_what_is_forgotten_since_a_mark() -> None:
    counter = CompileCounter()
    before = torch.compile(_before, backend=counter)
    before(torch.ones(3))
    mark = isolation.mark()
    since = torch.compile(_since, backend=counter)
    since(torch.ones(3))
    since(torch.ones(5))
    assert counter.frame_count == 3
    isolation.forget(mark)
    before(torch.ones(3))
    assert counter.frame_count == 3
    since(torch.ones(5))
    assert counter.frame_count == 4
    since(torch.ones(7))
    assert counter.frame_count == 5, "5 was the first size that it saw: 7 is another one"


def _before(x: Any) -> Any:
    return x + 1


def _since(x: Any) -> Any:
    return x + 2
