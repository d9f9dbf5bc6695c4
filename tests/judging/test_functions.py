"""Less compiled code is lost where some of it became eager, and a smaller program elsewhere."""

from __future__ import annotations

import importlib.util
import linecache
from pathlib import Path
from typing import Any

import pytest

from pytest_graphbreak.baseline.model import Entry
from pytest_graphbreak.judging.functions import called_less, moved
from pytest_graphbreak.judging.measured import MOST_FUNCTIONS, values
from pytest_graphbreak.judging.verdict import judge
from pytest_graphbreak.model.differences import FAILING, Difference


def names(before: dict[str, int], after: dict[str, int]) -> dict[str, tuple[str, int]]:
    def file(counts: dict[str, int]) -> dict[str, int]:
        return {f"a.py::{name}": count for name, count in counts.items()}

    fall = max(before.values()) - max(after.values(), default=0)
    return {
        one.where.function: (one.was.removeprefix("a.py::"), one.after)
        for one in moved(file(before), file(after), fall)
    }


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ({"f": 9, "g": 4}, {"f": 9, "g": 4}, {}),
        ({"f": 9, "g": 4}, {"f": 8, "g": 3}, {"f": ("", 8), "g": ("", 3)}),
        ({"f": 9, "g": 4}, {"g": 4}, {"f": ("", 0)}),  # what is left is no new function
        ({"f": 9, "g": 4}, {"h": 9, "g": 4}, {"h": ("f", 9)}),
        ({"f": 9, "g": 4}, {"h": 8, "g": 3}, {"h": ("f", 8), "g": ("", 3)}),
        ({"f": 9, "g": 4}, {"f": 9}, {"g": ("", 0)}),  # inlined
        ({"f": 9, "g": 4}, {"f": 6, "k": 1}, {"f": ("", 6), "g": ("", 0)}),
        ({"f": 9, "g": 4}, {"f": 9, "k": 1}, {"g": ("", 0)}),
        ({"f": 9}, {"f": 12}, {}),
    ],
)
def test_what_became_of_functions(
    before: dict[str, int], after: dict[str, int], found: dict[str, tuple[str, int]]
) -> None:
    assert names(before, after) == found


def test_what_a_full_baseline_has_no_room_for_is_no_new_function() -> None:
    before = {f"f{number}": 100 - number for number in range(MOST_FUNCTIONS)}
    after = {name: count for name, count in before.items() if name != "f20"}
    assert names(before, after | {"small": 76}) == {"f20": ("", 0)}
    assert names(before, after | {"other": 80}) == {"other": ("f20", 80)}


def test_a_function_that_is_called_less_takes_its_callees_along() -> None:
    def functions(*counts: tuple[int, int]) -> list[Difference]:
        return [Difference("function", before=was, after=now) for was, now in counts]

    assert called_less(functions((60, 48), (48, 36), (20, 15)))
    assert not called_less(functions((60, 56), (48, 44), (16, 12)))
    assert not called_less(functions((12, 6), (12, 6)))  # a function and the only one it calls


@pytest.fixture
def edited(tmp_path: Path) -> Any:
    """Measures a version of the program: its record, and how many operations run eagerly."""
    torch = pytest.importorskip("torch")
    from cases import smaller
    from pytest_graphbreak import observe

    def measure(text: str, make: str) -> tuple[Any, int]:
        path = tmp_path / "program.py"
        path.write_text(text)
        linecache.checkcache()
        spec = importlib.util.spec_from_file_location("program", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        torch._dynamo.reset()
        step = getattr(module, make)(smaller.Compile())
        with observe() as seen:
            step()
        return seen.record, smaller.eager_operations(step)

    return measure


@pytest.mark.graph_budget(gate=False, reason="its edits break and lose graphs")
@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.nightly), 6])
def test_planted_edits(edited: Any, every: int) -> None:
    """Red where something became eager, green where not, except those that cannot be reported."""
    torch = pytest.importorskip("torch")
    from cases import smaller

    versions = {"torch": torch.__version__}
    edits = smaller.EDITS[::every]
    for make in dict.fromkeys(edit.make for edit in edits):
        before, ran_eagerly = edited(smaller.PROGRAM, make)
        entry = Entry("test_a.py", "test_a", None, "cpu", versions, values(before))
        expected = entry.expected("cpu")
        assert judge(before, expected, versions=versions).name == "ok"
        for edit in [edit for edit in edits if edit.make == make]:
            after, eagerly = edited(edit.program, make)
            assert (eagerly > ran_eagerly) == edit.eager, edit.name
            verdict = judge(after, expected, versions=versions)
            if edit.name not in smaller.UNREPORTED:
                assert (verdict.name in FAILING) == edit.eager, (edit.name, verdict.name)
            if "renamed" in edit.name or "inlined" in edit.name:
                assert verdict.name == "changed", edit.name
