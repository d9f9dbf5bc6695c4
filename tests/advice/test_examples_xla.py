"""Every example of the advice that needs a device: fewer device graphs, and equal outputs."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_xla")

from tests.advice import running  # noqa: E402
from tests.forkserver import Server  # noqa: E402


@pytest.fixture(scope="module")
def on_xla(server_of_xla_forks: Server) -> dict[str, dict[str, Any]]:
    return running.on_xla(server_of_xla_forks.python)


@pytest.mark.parametrize("case", running.ON_XLA, ids=str)
def test_it_makes_fewer_device_graphs(
    case: running.Case, on_xla: dict[str, dict[str, Any]]
) -> None:
    before, after = on_xla[str(case)]["before"], on_xla[str(case)]["after"]
    assert after["graphs"] < before["graphs"]
    torch.testing.assert_close(torch.tensor(after["outputs"]), torch.tensor(before["outputs"]))
    assert before["recorded"] == before["graphs"]
    assert after["recorded"] == after["graphs"]
    assert case.name in before["families"]
