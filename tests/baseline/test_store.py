"""Which entries are stale, and what never is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_graphbreak.baseline import BaselineError, Baselines, baseline_path, split_nodeid
from pytest_graphbreak.baseline.model import nodeid_of
from pytest_graphbreak.baseline.store import mirrored_file, resolve

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
TWO = [nodeid.replace("one", "two") for nodeid in ALL]
MOVED = [f"{ONE}::{test}" for test in ("test_a[1]", "test_b", "test_c[1]")]


def stale(
    baselines: Baselines,
    collected: list[str],
    complete: tuple[str, ...] = (ONE,),
    gone: tuple[str, ...] = (),
) -> list[str]:
    found = baselines.stale(collected, complete, gone_files=gone, profile="cpu")
    return [item.nodeid for item in found]


@pytest.mark.parametrize(
    ("collected", "scopes", "found"),
    [
        pytest.param(ALL, {}, [], id="every test is there"),
        pytest.param(ALL[:2], {}, ALL[2:], id="what is gone is stale"),
        pytest.param([], {}, ALL, id="all are gone"),
        pytest.param([], {"complete": ()}, [], id="the file is not complete"),
        pytest.param([], {"complete": ("tests/test_other.py",)}, [], id="another one is"),
        pytest.param(ALL, {"gone": ("tests/test_two.py",)}, TWO, id="a file that is gone"),
        # What takes test_c out of the gate holds for its cases, and is not stale.
        pytest.param(MOVED, {}, ALL[:3], id="tests that got parameters or lost them"),
        pytest.param(["../x.py::test", *ALL], {}, [], id="a test outside of the root"),
    ],
)
def test_what_is_stale(
    baselines: Baselines, collected: list[str], scopes: dict[str, tuple[str, ...]], found: list[str]
) -> None:
    assert stale(baselines, collected, **scopes) == found


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


def test_a_stale_entry_has_its_place(baselines: Baselines, tmp_path: Path) -> None:
    (found,) = baselines.stale(ALL[:1] + ALL[2:], [ONE], profile="cpu")
    assert (found.file, found.test, found.case, found.line) == (ONE, "test_b", "x", 7)
    assert found.place == f"{tmp_path / 'tests' / 'test_one.yaml'}:7"


def test_every_entry(baselines: Baselines) -> None:
    assert [entry.nodeid for entry in baselines.entries()][:4] == ALL
    assert baselines.files() == [ONE, "tests/test_two.py"]


@pytest.mark.parametrize(
    ("nodeid", "parts"),
    [
        ("tests/test_a.py::test_b", ("tests/test_a.py", "test_b", None)),
        ("test_a.py::TestX::test_b", ("test_a.py", "TestX::test_b", None)),
        ("test_a.py::test_b[c]", ("test_a.py", "test_b", "c")),
        ("test_a.py::test_b[]", ("test_a.py", "test_b", "")),
        ("test_a.py::T::t[a/b::c[d]-'e\"]", ("test_a.py", "T::t", "a/b::c[d]-'e\"")),
        ("test_a.py::test_b[x\ny]", ("test_a.py", "test_b", "x\ny")),
        ("test_a.py::test_b[é日😀]", ("test_a.py", "test_b", "é日😀")),
        ("test_a.py::test_b[" + "x" * 300 + "]", ("test_a.py", "test_b", "x" * 300)),
        ("test_a.py::T[1]::test_b[2]", ("test_a.py", "T", "1]::test_b[2")),
        ("test_a.py::test_b[x", ("test_a.py", "test_b[x", None)),
        ("test_a.py::[x]", ("test_a.py", "[x]", None)),
        ("a::b::c", ("a", "b::c", None)),
        ("docs/x.txt::x.txt", ("docs/x.txt", "x.txt", None)),
        ("test_a.py::test_b[\udc80]", ("test_a.py", "test_b", "\\udc80")),
    ],
)
def test_split(nodeid: str, parts: tuple[str, str, str | None]) -> None:
    assert split_nodeid(nodeid) == parts


TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(TEXT.filter(lambda text: text and "[" not in text), st.none() | TEXT)
def test_split_is_the_inverse_of_joining(test: str, case: str | None) -> None:
    assert split_nodeid(nodeid_of("a/test_b.py", test, case)) == ("a/test_b.py", test, case)


@pytest.mark.parametrize(
    ("nodeid", "problem"),
    [
        ("", "not the node id of a test"),
        ("test_a.py", "not the node id of a test"),
        ("test_a.py::", "not the node id of a test"),
        ("::test", "names no file"),
        ("/etc/test_a.py::test", "not relative"),
        ("C:/test_a.py::test", "not relative"),
        ("../test_a.py::test", "outside of the root"),
        ("a/../../test_a.py::test", "outside of the root"),
        ("a/..::test", "outside of the root"),
        ("..::test", "outside of the root"),
        ("a\\..\\b.py::test", "backslash"),
        ("a\0b.py::test", "names no file"),
        ("a//b.py::test", "empty part"),
        ("./b.py::test", "empty part or a '.'"),
        ("a/::test", "empty part"),
    ],
)
def test_what_can_have_no_baseline(tmp_path: Path, nodeid: str, problem: str) -> None:
    with pytest.raises(BaselineError, match=problem):
        split_nodeid(nodeid)
    with pytest.raises(BaselineError, match=problem):
        Baselines(tmp_path).entry(nodeid)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("tests/torch/test_yolo.py", "tests/torch/test_yolo.yaml"),
        ("test_a.py", "test_a.yaml"),
        ("test_a.txt", "test_a.txt.yaml"),
        ("test_a.yaml", "test_a.yaml.yaml"),
        ("test_a.b.py", "test_a.b.py.yaml"),
        ("test_a", "test_a.~.yaml"),
        ("test_a.~", "test_a.~.~.yaml"),
        (".py", ".py.yaml"),
    ],
)
def test_where_a_baseline_lives(file: str, name: str) -> None:
    assert baseline_path(Path("base"), file) == Path("base", name)


PARTS = st.text("ab.~py", min_size=1, max_size=8).filter(lambda part: part.strip("."))


@given(
    st.lists(
        st.builds(
            str.__add__, PARTS, st.sampled_from(["", ".py", ".txt", ".yaml", ".txt.py", ".~"])
        ),
        min_size=1,
        max_size=3,
    ).map("/".join)
)
def test_a_baseline_names_its_test_file(file: str) -> None:
    """There is an inverse: no two test files share a baseline."""
    directory = Path("base")
    assert mirrored_file(directory, baseline_path(directory, file)) == file


def test_links_do_not_lead_out(tmp_path: Path) -> None:
    directory, outside = tmp_path / "baselines", tmp_path / "outside"
    directory.mkdir()
    outside.mkdir()
    (outside / "test_a.yaml").write_text("version: 1\nprofile: cpu\ntests: {}\n")
    (directory / "tests").symlink_to(outside)
    (directory / "test_b.yaml").symlink_to(outside / "test_a.yaml")
    baselines = Baselines(directory)
    for nodeid in ("tests/test_a.py::test", "test_b.py::test"):
        with pytest.raises(BaselineError, match="symbolic link leads out"):
            baselines.entry(nodeid)
    with pytest.raises(BaselineError, match=r"test_b\.yaml: a symbolic link leads out"):
        baselines.check()


def test_links_inside_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert resolve(tmp_path / "link", tmp_path / "link" / "a.yaml") == Path(
        os.path.realpath(tmp_path / "real" / "a.yaml")
    )
