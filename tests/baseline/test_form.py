"""What follows from other numbers of an entry is not written, and read as if it were."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_graphbreak.baseline.form import complete, shorten
from pytest_graphbreak.baseline.model import BaselineError
from pytest_graphbreak.baseline.read import document
from pytest_graphbreak.model.budget import Values

pytestmark = pytest.mark.pure

TOP = 'version: 1\nprofile: cpu\ntorch: "2.9"\ntests:\n  test_a:\n    '


def values(text: str) -> Values:
    (entry,) = document(TOP + text, Path("test_a.yaml"), "test_a.py").entries()
    return entry.values


@pytest.mark.parametrize(
    ("text", "executions"),
    [
        ("graphs: {dynamo: 1, xla: 2}\n    ops: {dynamo: 7}", {"dynamo": 1}),
        ("graphs: {dynamo: 4}\n    ops: {dynamo: 12}", {"dynamo": 4}),
        ("graphs: {dynamo: 1}\n    ops: {dynamo: 6}\n    executions: {dynamo: 3}", {"dynamo": 3}),
        ("graphs: {dynamo: 1}\n    ops: {dynamo: 6}\n    executions: {dynamo: 0}", {}),
        ("graphs: {dynamo: 1}", {}),
    ],
)
def test_a_graph_runs_once_unless_the_entry_says_otherwise(
    text: str, executions: dict[str, int]
) -> None:
    assert values(text).executions == executions


def test_it_is_left_out_where_it_follows_and_zero_where_it_is_not_known() -> None:
    plain = {"graphs": {"dynamo": 1}, "lines": {}, "ops": {"dynamo": 6}}
    usual, unknown = ({**plain, "executions": runs} for runs in ({"dynamo": 1}, {}))
    assert shorten(usual) == {**plain, "executions": {}}
    assert shorten(unknown) == {**plain, "executions": {"dynamo": 0}}
    for found in (usual, unknown, {**usual, "executions": {"dynamo": 4}}):
        again = complete({key: value for key, value in shorten(found).items() if value})
        assert {key: again.get(key, {}) for key in found} == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("entries: f", "entries must be a list of texts, not text"),
        ("entries: [3]", "an item of entries must be text, not a number"),
        ('entries: ["a::f", "a::f"]', "the same text twice in entries"),
        (f"entries: [{', '.join(f'f{n}' for n in range(9))}]", "entries has 9 items; keep 8"),
    ],
)
def test_a_list_of_entries_is_read_strictly(text: str, words: str) -> None:
    with pytest.raises(BaselineError, match=r"test_a.yaml:6: ") as error:
        values(text)
    assert words in str(error.value)
