"""``graphbreak analyze DIR``: dumps of modules."""

from __future__ import annotations

import json
import re

import pytest

from tests.cli.conftest import Workspace
from tests.logs.dumps import dump

pytestmark = pytest.mark.pure


def test_an_entry_for_each_model(workspace: Workspace) -> None:
    dump(workspace.path / "irs" / "bert", 1)
    dump(workspace.path / "irs" / "resnet", 2)
    assert workspace.run("analyze", "irs", "--json", "graphs.json").code == 0
    tests = json.loads((workspace.path / "graphs.json").read_text())["tests"]
    assert [(test["nodeid"], test["graphs"]) for test in tests] == [
        ("irs/bert", {"tt": 1}),
        ("irs/resnet", {"tt": 2}),
    ]


def test_a_directory_without_modules_cannot_be_used(workspace: Workspace) -> None:
    (workspace.path / "empty").mkdir()
    said = workspace.run("analyze", "empty", "--json", "graphs.json")
    assert said.code == 2
    words = "empty: cannot be read: has no modules named STAGE_MILLISECONDS.mlir"
    assert words in re.sub(r"\s+", " ", said.err)
    assert not (workspace.path / "graphs.json").exists()
