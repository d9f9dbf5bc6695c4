"""Where baselines are: as pytest itself finds its rootdir and its ini keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_graphbreak.config.checkout import find_checkout
from pytest_graphbreak.config.settings import from_config

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pytest.ini", "[pytest]\ngraph_budget_dir = ci/graphs\ngraph_budget_strict = true\n"),
        (".pytest.ini", "[pytest]\ngraph_budget_dir = ci/graphs\ngraph_budget_strict = 1\n"),
        ("tox.ini", "[tox]\n[pytest]\ngraph_budget_dir = ci/graphs\ngraph_budget_strict = yes\n"),
        ("setup.cfg", "[tool:pytest]\ngraph_budget_dir=ci/graphs\ngraph_budget_strict=on\n"),
        (
            "pyproject.toml",
            "[tool.pytest.ini_options]\ngraph_budget_dir = 'ci/graphs'\ngraph_budget_strict = true",
        ),
        (
            "pyproject.toml",
            "[tool.pytest]\ngraph_budget_dir = 'ci/graphs'\ngraph_budget_strict = 'true'",
        ),
    ],
)
def test_ini_keys_are_read_from_every_file_of_pytest(
    name: str, text: str, pytester: pytest.Pytester
) -> None:
    path = pytester.path
    (path / name).write_text(text)
    below = path / "tests" / "torch"
    below.mkdir(parents=True)
    for start in (path, below):
        found = find_checkout(start)
        assert (found.root, found.directory, found.strict) == (path, path / "ci/graphs", True)
    # and pytest agrees
    config = pytester.parseconfig()
    assert config.rootpath == path


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"pyproject.toml": ""}, id="a project without a section of pytest"),
        pytest.param({"pyproject.toml": "", "a/pyproject.toml": ""}, id="the nearest project"),
        pytest.param({"pyproject.toml": "", "a/b/setup.py": ""}, id="a project before a setup.py"),
        pytest.param({"setup.py": "", "a/setup.py": ""}, id="the nearest setup.py"),
        pytest.param({"pytest.ini": "", "a/pyproject.toml": ""}, id="a section before a project"),
        pytest.param(
            {"pytest.ini": "", "a/pyproject.toml": "[tool.pytest]\n"}, id="an empty section"
        ),
        pytest.param({"a/tox.ini": "[tox]\n", "setup.cfg": ""}, id="nothing of pytest"),
        pytest.param({"pytest.toml": "", "a/setup.py": ""}, id="an empty file of pytest"),
    ],
)
def test_the_root_is_the_one_of_pytest(
    files: dict[str, str], pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = pytester.mkdir("a") / "b"
    here.mkdir()
    for name, text in files.items():
        (pytester.path / name).write_text(text)
    monkeypatch.chdir(here)
    assert find_checkout(here).root == pytester.parseconfig().rootpath


def test_without_any_file_it_is_here(tmp_path: Path) -> None:
    found = find_checkout(tmp_path)
    assert (found.root, found.directory, found.strict) == (tmp_path, tmp_path / "baselines", False)


@pytest.mark.parametrize("line", ["", "graph_budget_dir =", "graph_budget_dir = ."])
def test_the_directory_is_the_one_of_pytest(line: str, pytester: pytest.Pytester) -> None:
    pytester.makeini(f"[pytest]\n{line}\n")
    settings = from_config(pytester.parseconfig())
    assert find_checkout(pytester.path).directory == settings.directory


def test_a_file_of_others_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("")
    below = tmp_path / "below"
    below.mkdir()
    (below / "pyproject.toml").write_text("[tool.ruff]\n")
    (below / "tox.ini").write_text("[tox]\n")
    assert find_checkout(below).root == tmp_path


def test_the_option_wins_and_is_relative_to_here(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\ngraph_budget_dir = other\n")
    below = tmp_path / "below"
    below.mkdir()
    assert find_checkout(below, "mine").directory == below / "mine"
    assert find_checkout(below, "mine").root == tmp_path
    assert find_checkout(tmp_path, ".").directory == tmp_path
