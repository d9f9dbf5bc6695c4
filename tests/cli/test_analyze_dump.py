"""``graphbreak analyze DIR``: dumps of modules, and baselines from them."""

from __future__ import annotations

import json
import re

import pytest

from tests.cli.conftest import Desk
from tests.logs.dumps import dump


def test_an_entry_for_each_model_and_baselines_from_them(desk: Desk) -> None:
    dump(desk.path / "irs" / "bert", 1)
    dump(desk.path / "irs" / "resnet", 2)
    template = "tests/runner/test_models.py::test_all_models_torch[{name}]"
    said = desk.run("analyze", "irs", "--json", "graphs.json", "--test", template)
    assert said.code == 0
    tests = json.loads((desk.path / "graphs.json").read_text())["tests"]
    assert [(test["nodeid"], test["graphs"]) for test in tests] == [
        ("tests/runner/test_models.py::test_all_models_torch[bert]", {"tt": 1}),
        ("tests/runner/test_models.py::test_all_models_torch[resnet]", {"tt": 2}),
    ]
    assert desk.run("accept", "graphs.json", "--yes").code == 0
    text = (desk.path / "baselines/tests/runner/test_models.yaml").read_text()
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
def test_what_cannot_be_used(desk: Desk, arguments: tuple[str, ...], words: str) -> None:
    (desk.path / "empty").mkdir()
    dump(desk.path / "irs" / "bert", 1)
    said = desk.run("analyze", *arguments, "--json", "graphs.json")
    assert said.code == 2
    assert words in re.sub(r"\s+", " ", said.err)
    assert not (desk.path / "graphs.json").exists()
