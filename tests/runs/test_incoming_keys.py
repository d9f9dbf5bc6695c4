"""JSON with a key twice is refused: a decoder would keep the last value and say nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_graphbreak.runs.incoming import ReportError, load
from tests.reports import a_report, a_test

pytestmark = pytest.mark.pure

TEXT = json.dumps(a_report(a_test("tests/test_a.py::test_b", 3)))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"version": 1', '"version": 1, "version": 1', "the key 'version' is twice in one mapping"),
        ('"tests": [', '"tests": [], "tests": [', "the key 'tests' is twice"),
        (
            '"graphs": {"dynamo": 3',
            '"graphs": {"dynamo": 9, "dynamo": 3',
            "the key 'dynamo' is twice",
        ),
        (
            '"nodeid": "tests/test_a.py::test_b"',
            '"verdict": "ok", "v\\u0065rdict": "over", "nodeid": "tests/test_a.py::test_b"',
            "the key 'verdict' is twice in one mapping, of tests/test_a.py::test_b",
        ),
    ],
)
def test_a_key_that_is_twice_is_refused(old: str, new: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "graphs.json"
    assert old in TEXT
    path.write_text(TEXT.replace(old, new, 1))
    with pytest.raises(ReportError) as refused:
        load(path)
    assert str(refused.value).startswith(f"{path}: cannot be read as a JSON report: {said}")


def test_a_key_may_be_in_many_mappings(tmp_path: Path) -> None:
    path = tmp_path / "graphs.json"
    path.write_text(TEXT)
    assert len(load(path).tests) == 1
