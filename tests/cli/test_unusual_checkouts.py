"""What a stranger's checkout or report may hold: one line and exit code 2, never a traceback.

A traceback would end in 1, which means "over budget".
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_graphbreak.cli import check
from tests.cli.conftest import Workspace
from tests.reports import a_report, a_test

pytestmark = pytest.mark.pure

T = "tests/test_a.py::test_b"
ENTRY = "version: 1\nprofile: cpu\ntests:\n  test_b:\n    graphs: {dynamo: 1}\n"


def put(workspace: Workspace, name: str, text: str = ENTRY) -> Path:
    path = workspace.path / "baselines" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def report(workspace: Workspace) -> str:
    put(workspace, "tests/test_a.yaml")
    return workspace.report("one.json", a_report(a_test(T)))


# names


SURROGATES = (
    "tests/\ud800.py::t",
    "tests/test_a.py::t[\udfff]",
    "tests/test_a.py::\ud912",
    "\udc80::t",
)


@pytest.mark.parametrize("nodeid", SURROGATES)
def test_a_lone_surrogate_in_a_node_id(nodeid: str, workspace: Workspace, report: str) -> None:
    found = a_report(a_test(nodeid, 2), unmeasured=[nodeid], stale=[nodeid])
    found["session"] |= {"complete_files": [nodeid], "collected_whole": [nodeid]}
    workspace.report("evil.json", found)
    pages = [word for name in ("markdown", "html") for word in (f"--{name}", f"p.{name}")]
    assert workspace.run("check", "evil.json", *pages).code in (1, 2)
    assert workspace.run("check", report, "--against", "evil.json").code in (0, 2)
    assert workspace.run("report", "evil.json", *pages).code == 0
    assert workspace.run("accept", "--yes", "--prune", "evil.json").code in (0, 2)


# directories


@contextlib.contextmanager
def nested(directory: Path, name: str, deep: int) -> Iterator[None]:
    """Directories in directories; what removes temporary directories may not be able to."""
    at = os.open(directory, os.O_RDONLY)
    for _ in range(deep):
        os.mkdir(name, dir_fd=at)
        below = os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    try:
        yield
    finally:
        subprocess.run(["rm", "-rf", str(directory / name)], check=True)


def test_1500_nested_directories(workspace: Workspace, report: str) -> None:
    with nested(workspace.path / "baselines", "d", 1500):
        assert workspace.run("check", report).code == 0
        assert workspace.run("accept", "--yes", report).code == 0


def test_directories_deeper_than_a_path_can_name(workspace: Workspace, report: str) -> None:
    with nested(workspace.path / "baselines", "d" * 200, 50):
        said = workspace.run("check", report)
    assert said.code == 2
    assert "cannot be read (File name too long)" in said.err


def test_a_dangling_link(workspace: Workspace, report: str) -> None:
    (workspace.path / "baselines/tests/test_x.yaml").symlink_to("nothing")
    said = workspace.run("check", report, code=2)
    assert "baselines/tests/test_x.yaml: is a link to nothing; remove it" in said.err


@pytest.mark.parametrize("target", ["/etc", "..", "."])
def test_a_link_to_a_directory(target: str, workspace: Workspace, report: str) -> None:
    (workspace.path / "baselines/sub").symlink_to(target)
    (workspace.path / "baselines/test_x.yaml").symlink_to(target)
    said = workspace.run("check", report, code=2)
    assert "test_x.yaml: " in said.err


@pytest.mark.parametrize(
    "name", ["..yaml", "...yaml", ".yaml", ".~.yaml", "a\\b.yaml", "\udcff.yaml"]
)
def test_odd_file_names(name: str, workspace: Workspace, report: str) -> None:
    put(workspace, name)
    assert workspace.run("check", report).code == 0
    assert workspace.run("accept", "--yes", "--prune", report).code == 0


def test_a_nested_repository_and_a_fifo(workspace: Workspace, report: str) -> None:
    (workspace.path / "baselines/nested/.git").mkdir(parents=True)
    assert workspace.run("check", report).code == 0
    os.mkfifo(workspace.path / "baselines/test_fifo.yaml")
    said = workspace.run("check", report, code=2)
    assert "test_fifo.yaml: is no regular file" in said.err


@pytest.mark.parametrize("command", ["check", "accept"])
@pytest.mark.parametrize("how", ["link", "ini"])
def test_baselines_that_are_a_link_out_of_the_checkout(
    command: str, how: str, workspace: Workspace, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (workspace.path / "baselines").symlink_to(outside)
    if how == "ini":
        (workspace.path / "pytest.ini").write_text("[pytest]\ngraph_budget_dir = baselines/sub\n")
    workspace.report("one.json", a_report(a_test(T)))
    said = workspace.run(command, "one.json", *(["--yes"] if command == "accept" else []), code=2)
    assert f"a symbolic link leads out of the checkout, to {outside}" in said.err
    assert "--graph-budget-dir" in said.err
    assert list(outside.iterdir()) == []
    if command == "accept":  # who names it means it
        workspace.run("accept", "--yes", "--graph-budget-dir", str(outside), "one.json", code=0)
        assert (outside / "tests/test_a.yaml").exists()


# configuration


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pytest.toml", "pytest = 3\n"),
        ("pyproject.toml", "tool = 'x'\n"),
        ("pyproject.toml", "tool.pytest = 1\n"),
        ("pyproject.toml", "tool.pytest.ini_options = []\n"),
        ("pyproject.toml", "a = " + "[" * 3000 + "\n"),
        ("pytest.toml", "\udcff"),
        ("pytest.ini", "[pytest\n"),
    ],
)
def test_a_configuration_that_is_none(
    name: str, text: str, workspace: Workspace, report: str
) -> None:
    (workspace.path / "pytest.ini").unlink()
    (workspace.path / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    said = workspace.run("check", report, code=2)
    assert said.err.startswith(f"graphbreak check: {workspace.path / name}: cannot be read: ")
    assert said.err.count("\n") == 1


# all of it


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(36, "File name too long", "x" * 5000), "x" * 1000),
        (PermissionError(13, "Permission denied", "there"), "there: Permission denied"),
        (ValueError("embedded\nnull byte"), "embedded null byte"),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates"), "surrogates"),
        (RecursionError(), "nested too deeply"),
        (MemoryError(), "more memory than there is"),
        (KeyError("x"), "this is a defect of graphbreak"),
    ],
)
def test_whatever_was_not_foreseen_is_2(
    error: Exception, words: str, workspace: Workspace, report: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> int:
        raise error

    monkeypatch.setattr(check, "run", fail)
    said = workspace.run("check", report, code=2)
    assert words in said.err.splitlines()[-1]
    assert ("Traceback" in said.err) == isinstance(error, KeyError)
    json.dumps(said.err).encode()
