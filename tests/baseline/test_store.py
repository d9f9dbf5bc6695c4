"""Which entries are stale, and what never is."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_graphbreak.baseline import Baselines

pytestmark = pytest.mark.pure

FILE = """\
version: 1
profile: cpu
tests:
  test_a: {graphs: {dynamo: 1}}
  test_b:
    cases:
      x: {graphs: {dynamo: 1}}
      y: {graphs: {dynamo: 1}}
  test_c: {ungated: slow}
"""


@pytest.fixture
def baselines(tmp_path: Path) -> Baselines:
    for name in ("tests/test_one.yaml", "tests/test_two.yaml"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(FILE)
    return Baselines(tmp_path)


ONE = "tests/test_one.py"
ALL = [f"{ONE}::{test}" for test in ("test_a", "test_b[x]", "test_b[y]", "test_c")]


def stale(
    baselines: Baselines,
    collected: list[str],
    complete: tuple[str, ...] = (ONE,),
    gone: tuple[str, ...] = (),
) -> list[str]:
    found = baselines.stale(collected, complete, gone_files=gone, profile="cpu")
    return [item.nodeid for item in found]


def test_nothing_is_stale_where_every_test_is_there(baselines: Baselines) -> None:
    assert stale(baselines, ALL) == []


def test_what_is_gone_is_stale(baselines: Baselines) -> None:
    assert stale(baselines, [ALL[0], ALL[1]]) == [ALL[2], ALL[3]]
    assert stale(baselines, []) == ALL


def test_only_complete_files_are_looked_at(baselines: Baselines) -> None:
    assert stale(baselines, [], complete=()) == []
    assert stale(baselines, [], complete=("tests/test_other.py",)) == []


def test_a_file_that_is_gone_is_stale_if_the_caller_says_so(baselines: Baselines) -> None:
    two = [nodeid.replace("one", "two") for nodeid in ALL]
    assert stale(baselines, ALL, gone=("tests/test_two.py",)) == two


def test_a_test_that_got_parameters_or_lost_them(baselines: Baselines) -> None:
    moved = [f"{ONE}::{test}" for test in ("test_a[1]", "test_b", "test_c[1]")]
    # What takes test_c out of the gate holds for its cases, and is not stale.
    assert stale(baselines, moved) == ALL[:3]


def test_an_entry_of_another_profile_is_not_judged(tmp_path: Path) -> None:
    path = tmp_path / "tests/test_one.yaml"
    path.parent.mkdir()
    path.write_text(
        "version: 1\nprofile: cpu\ntests:\n"
        "  test_a: {graphs: {dynamo: 1}}\n"
        "  test_b: {overrides: {tt: {graphs: {xla: 1}, torch: '2.9'}}}\n"
        "  test_c: {graphs: {dynamo: 1}, overrides: {tt: {graphs: {xla: 1}, torch: '2.9'}}}\n"
        "  test_d: {ungated: slow}\n"
    )
    baselines = Baselines(tmp_path)

    def gone(profile: str) -> list[str]:
        return [item.test for item in baselines.stale([], [ONE], profile=profile)]

    assert gone("cpu") == ["test_a", "test_c", "test_d"]
    assert gone("tt") == ["test_b", "test_c", "test_d"]
    assert gone("other") == ["test_d"]
    assert len(baselines.stale([], [], [ONE], profile="other")) == 4


def test_tests_outside_of_the_root_are_passed_over(baselines: Baselines) -> None:
    assert stale(baselines, ["../x.py::test", *ALL]) == []


def test_a_stale_entry_has_its_place(baselines: Baselines, tmp_path: Path) -> None:
    (found,) = baselines.stale(ALL[:1] + ALL[2:], [ONE], profile="cpu")
    assert (found.file, found.test, found.case, found.line) == (ONE, "test_b", "x", 7)
    assert found.place == f"{tmp_path / 'tests' / 'test_one.yaml'}:7"


def test_every_entry(baselines: Baselines) -> None:
    assert [entry.nodeid for entry in baselines.entries()][:4] == ALL
    assert baselines.files() == [ONE, "tests/test_two.py"]
