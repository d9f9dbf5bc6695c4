"""``graphbreak analyze DIR``: dumps of modules, and baselines from them."""

from __future__ import annotations

import json
import re

import pytest

from tests.cli.conftest import Workspace
from tests.logs.dumps import dump

pytestmark = pytest.mark.pure


def test_an_entry_for_each_model_and_baselines_from_them(workspace: Workspace) -> None:
    dump(workspace.path / "irs" / "bert", 1)
    dump(workspace.path / "irs" / "resnet", 2)
    template = "tests/runner/test_models.py::test_all_models_torch[{name}]"
    said = workspace.run("analyze", "irs", "--json", "graphs.json", "--test", template)
    assert said.code == 0
    tests = json.loads((workspace.path / "graphs.json").read_text())["tests"]
    assert [(test["nodeid"], test["graphs"]) for test in tests] == [
        ("tests/runner/test_models.py::test_all_models_torch[bert]", {"tt": 1}),
        ("tests/runner/test_models.py::test_all_models_torch[resnet]", {"tt": 2}),
    ]
    assert workspace.run("accept", "graphs.json", "--yes").code == 0
    text = (workspace.path / "baselines/tests/runner/test_models.yaml").read_text()
    assert text == (
        "version: 1\nprofile: dump\ntests:\n  test_all_models_torch:\n    cases:\n"
        "      bert: {graphs: {tt: 1}}\n      resnet: {graphs: {tt: 2}}\n"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("empty",), "empty: cannot be read: has no modules named STAGE_MILLISECONDS.mlir"),
        (("irs", "--test", "tests/a.py::test_a"), "has no {name}"),
        (("irs", "--test", "tests/a.py::test_a[{name}]", "--profile", "tt-n150"), "tt-n150"),
    ],
)
def test_what_cannot_be_used(workspace: Workspace, arguments: tuple[str, ...], words: str) -> None:
    (workspace.path / "empty").mkdir()
    dump(workspace.path / "irs" / "bert", 1)
    said = workspace.run("analyze", *arguments, "--json", "graphs.json")
    assert said.code == 2
    assert words in re.sub(r"\s+", " ", said.err)
    assert not (workspace.path / "graphs.json").exists()
