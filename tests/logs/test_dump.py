"""Dumps of MLIR modules are read as the log that the compiler prints beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_graphbreak.logs.dump import models
from pytest_graphbreak.logs.reading import Reading, read
from pytest_graphbreak.model.places import Places
from tests.logs.dumps import dump
from tests.logs.writer import NINE as STAGES

pytestmark = pytest.mark.pure


def reading(directory: Path) -> Reading:
    return read(str(directory), Places(directory))


@pytest.mark.parametrize("name", ["", "resnet", "yolo v4"])
def test_one_graph_for_each_first_stage(tmp_path: Path, name: str) -> None:
    dump(tmp_path, 3, name=name)
    found = reading(tmp_path)
    assert (found.graphs, found.completed, found.is_certain) == (3, 3, True)
    names = [graph.name for graph in found.record.graph_list]
    assert names == ["SyncTensorsGraph.0", "SyncTensorsGraph.1", "SyncTensorsGraph.2"]
    assert found.record.graphs == {"tt": 3}


def test_a_graph_without_a_later_stage_has_failed(tmp_path: Path) -> None:
    dump(tmp_path, 1, STAGES[:6], name="a")
    dump(tmp_path, 1, name="b", at=1000)
    found = reading(tmp_path)
    assert (found.graphs, found.completed) == (2, 1)
    assert dict(found.programs.failed) == {"shlo_compiler_cleaned": 1}


@pytest.mark.parametrize("stage", ["vhlo", "shlo", "ttnn"])
def test_where_one_stage_was_kept_no_graph_has_failed(tmp_path: Path, stage: str) -> None:
    dump(tmp_path, 2, (stage,))
    found = reading(tmp_path)
    assert (found.graphs, found.completed) == (2, 2)


def test_models_are_the_directories_above_irs(tmp_path: Path) -> None:
    dump(tmp_path / "collected_irs" / "resnet", 1)
    dump(tmp_path / "collected_irs" / "bert", 2)
    (tmp_path / "collected_irs" / "notes.mlir").write_text("module {}")
    assert [path.name for path in models(tmp_path)] == ["bert", "resnet"]
