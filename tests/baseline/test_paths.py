"""Node ids, and the files that their baselines live in."""

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
