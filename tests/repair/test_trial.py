"""One run of a program in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_graphbreak.repair.target import parse
from pytest_graphbreak.repair.trial import bench

pytestmark = pytest.mark.once

PROGRAM = """
import logging
import torch

torch.compile(lambda x: x + 1, backend="eager")(torch.ones(3))
print(logging.getLogger("a").name)
"""


@pytest.mark.nightly
def test_a_file_that_is_named_like_a_module_of_python_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in the directory where the command is typed, not beside the program."""
    (tmp_path / "logging.py").write_text("raise RuntimeError('not this one')")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "net.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    with bench(120) as trials:
        trial = trials.measure(parse("models/net.py"), outputs=False, new_python=True)
    assert trial.error is None
    assert trial.record.graphs == {"dynamo": 1}
    assert trial.lines["stdout"] == ["a"]
