"""All that users see of the recorded situations is as it was: ``python -m tests.golden``."""

from __future__ import annotations

import difflib
import json
from importlib.resources import files

import jsonschema
import pytest

from tests.golden.__main__ import RECORDED, everything
from tests.golden.situation import DATA

pytestmark = pytest.mark.pure

ALL = {folder.name: outputs for folder, outputs in everything()}


@pytest.mark.parametrize("name", ALL)
def test_outputs_are_as_before(name: str) -> None:
    found = ALL[name]()
    files = [path for path in (DATA / name).iterdir() if path.name not in RECORDED]
    known = {path.name: path.read_text() for path in files}
    differences = [
        line
        for file in sorted({*known, *found})
        for line in difflib.unified_diff(
            known.get(file, "").splitlines(),
            found.get(file, "").splitlines(),
            f"{name}/{file}",
            f"{name}/{file} now",
            lineterm="",
        )
    ]
    assert not differences, (
        "\n".join(differences[:100])
        + "\nIf this is intended: python -m tests.golden, and read git diff tests/golden/data"
    )


def test_each_folder_is_of_a_situation() -> None:
    assert sorted(path.name for path in DATA.iterdir()) == sorted(ALL)


def test_recorded_reports_are_of_the_schema() -> None:
    schema = json.loads((files("pytest_graphbreak") / "schemas" / "report.json").read_text())
    valid = jsonschema.Draft202012Validator(schema)
    for path in DATA.glob("*/after.json"):
        valid.validate(json.loads(path.read_text()))
