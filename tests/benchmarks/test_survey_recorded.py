"""A recorded repair of the survey is made again by the titles of its patches alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.survey.recorded import Recorded
from benchmarks.survey.repairs import unheld
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import bench

SCALARS = "capture_scalar_outputs: .item() becomes a node of the graph"
CONSTANTS = "the numbers are constants of the graph, which checks them"
PROGRAM = """
import torch


def f(x, y):
    x = x * y.max().item()
    return x + 1


torch.compile(f, backend="eager")(torch.ones(3), torch.ones(2))
"""


def _made(path: Path, titles: list[str]) -> tuple[Recorded, list[int], list[int]]:
    path.write_text(PROGRAM)
    with bench(120) as desk:
        repair = Recorded(Target(path), desk, titles)
        runs = repair.run()
    graphs = [one.record.graphs["dynamo"] for one in runs]
    return repair, graphs, [len(one.record.breaks) for one in runs]


@pytest.mark.usefixtures("forks")
def test_the_patch_with_the_recorded_title_is_made_and_run(tmp_path: Path) -> None:
    repair, graphs, breaks = _made(tmp_path / "a.py", [SCALARS])
    assert ([one.title for one in repair.kept], repair.left) == ([SCALARS], [])
    assert (graphs, breaks) == ([2, 1], [1, 0])
    assert b"capture_scalar_outputs = True" in (repair.source or b"")


@pytest.mark.usefixtures("forks")
def test_a_title_that_is_not_proposed_is_said_and_nothing_is_written(tmp_path: Path) -> None:
    repair, graphs, breaks = _made(tmp_path / "a.py", ["a patch of another version"])
    assert (repair.kept, repair.source) == ([], None)
    assert repair.left == ["a patch of another version"]
    assert (graphs, breaks) == ([2, 2], [1, 1])


def _repair(name: str, title: str, seconds: int, **values: Any) -> dict[str, Any]:
    known = {"model": name, "status": "ran", "graphs": [2, 1], "breaks": [1, 0]}
    return {**known, "kept": [title], "seconds": seconds, **values}


def test_the_quickest_is_held_first_and_those_with_constants_last() -> None:
    repairs = [
        _repair("Constant", CONSTANTS, 1),
        _repair("Slow", SCALARS, 9),
        _repair("Quick", SCALARS, 3),
        _repair("Held", SCALARS, 2),
        _repair("Broken", SCALARS, 2, breaks=[2, 1]),
    ]
    assert unheld(repairs, {"Held"}) == ["Quick", "Slow", "Constant"]
