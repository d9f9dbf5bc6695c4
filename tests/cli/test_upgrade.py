"""``graphbreak upgrade``, and ``bisect`` over releases: environments that are gone afterwards."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.cli.conftest import Workspace
from tests.cli.versions.wheels import wheel

pytestmark = [
    pytest.mark.usefixtures("forks"),
    pytest.mark.skipif(
        importlib.util.find_spec("torch_xla") is not None,
        reason="what pip does depends on no device, and is tested without one",
    ),
]

CLEAN = """\
def act(x):
    y = x.sin()
    return y.cos()
"""
BROKEN = CLEAN.replace("    return", "    print(y.mean())\n    return")
TEST = """\
import torch

from tinynet.act import act


def test_act():
    torch.compile(act, backend="eager")(torch.ones(3))


def test_plain():
    pass
"""


def release(index: Path, version: str, source: str, *requires: str) -> None:
    files = {"tinynet/__init__.py": "", "tinynet/act.py": source}
    wheel(index, "tinynet", version, files, requires=requires)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    release(tmp_path / "wheels", "1.0", CLEAN)
    release(tmp_path / "wheels", "1.1", BROKEN, "not-there")
    release(tmp_path / "wheels", "1.2", CLEAN)
    release(tmp_path / "wheels", "1.3", BROKEN, "tinydep")
    wheel(tmp_path / "wheels", "tinydep", "7")
    return tmp_path / "wheels"


def test_the_release_that_moved_a_test(workspace: Workspace, index: Path, temporary: Path) -> None:
    (workspace.path / "tests" / "test_a.py").write_text(TEST)
    files = workspace.files()
    nodeid = "tests/test_a.py::test_act"
    said = workspace.run("bisect", nodeid, "--package", "tinynet", "--good", "1.0", "--bad", "1.3")
    assert said.code == 0, said.err
    assert "skip   tinynet 1.1   skipped: it does not install: ERROR: " in said.out
    assert f"{nodeid} moved with\n\n  tinynet 1.3\n\nbefore  1.2 " in said.out
    assert "      tinynet/act.py:3 in act\n          print(y.mean())\n" in said.out
    assert "what it changes at tinynet/act.py:3\n" in said.out
    assert "\n    +    print(y.mean())\n" in said.out
    assert "it changes  tinydep as it is here -> 7, tinynet 1.2 -> 1.3\n" in said.out
    assert workspace.files() == files
    assert not list(temporary.iterdir())


def test_the_same_tests_with_another_release(
    workspace: Workspace, index: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace.path / "tests" / "test_a.py").write_text(TEST)
    installed = temporary.parent / "present"
    with zipfile.ZipFile(index / "tinynet-1.0-py3-none-any.whl") as archive:
        archive.extractall(installed)
    monkeypatch.setenv("PYTHONPATH", str(installed))
    files = workspace.files()
    args = ("tinynet==1.3", "--json", "out/compared.json", "--reports", "out", "--exit-code")
    said = workspace.run("upgrade", *args, "--", "tests/test_a.py", "-k", "act")
    assert said.code == 1, said.err
    assert said.out == "installed  tinydep 7, tinynet 1.3\nWrote out/compared.json.\n"
    assert "[1] installing tinynet==1.3\n[2] the tests before\n[3] the tests after\n" in said.err
    names = ("out/after.json", "out/before.json", "out/compared.json")
    assert set(workspace.files()) - set(files) == set(names)
    assert not list(temporary.iterdir())
    before, after = (json.loads((workspace.path / name).read_text()) for name in names[1::-1])
    assert before["environment"]["packages"] == {"tinynet": "1.0"}
    assert after["environment"]["packages"] == {"tinynet": "1.3"}
    assert [test["graphs"] for test in before["tests"]] == [{"dynamo": 1}]
    [change] = json.loads((workspace.path / names[2]).read_text())["changes"]
    assert change["package"] == {"name": "tinynet", "before": "1.0", "after": "1.3"}
    compared = workspace.run("compare", *names[1::-1])
    assert "tinynet/act.py:3 in act" in compared.out


def test_an_installation_that_fails_is_said_at_once(
    workspace: Workspace, index: Path, temporary: Path
) -> None:
    for requirement, words in (
        (
            "tinynet==1.1",
            "ERROR: Could not find a version that satisfies the requirement not-",
        ),
        ("tinynet==4", "from versions: 1.0, 1.1, 1.2, 1.3"),
        ("tiny net", "Invalid requirement"),
        ("./none.whl", "none.whl"),
    ):
        said = workspace.run("upgrade", requirement)
        assert said.code == 2
        assert f"graphbreak upgrade: {requirement}: pip cannot install it\n    " in said.err
        assert words in said.err
        assert "the tests" not in said.err
    said = workspace.run("upgrade", "pytest>=1")
    assert said.code == 2
    assert "has all of this already" in said.err
    assert not list(temporary.iterdir())


def test_tests_that_do_not_run_are_said(workspace: Workspace, index: Path, temporary: Path) -> None:
    said = workspace.run("upgrade", "tinydep", "--", "tests/nowhere.py")
    assert said.code == 2
    assert "before: ERROR: file or directory not found: tests/nowhere.py (exit 4)\n" in said.err
    (workspace.path / "tests" / "test_a.py").write_text("import tinydep\ntinydep.gone\n")
    said = workspace.run("upgrade", "tinydep", "--timeout", "0.01")
    assert said.code == 2
    assert not list(temporary.iterdir())


def test_looking_for_pip_leaves_setuptools_as_it_is() -> None:
    """``_distutils_hack`` gives way to pip for good, as soon as its finder is asked for it."""
    code = (
        "import importlib; hack = importlib.import_module('_distutils_hack'); hack.add_shim();"
        "from pytest_graphbreak.cli.versions import environment; environment.has_pip();"
        "print(hack.DISTUTILS_FINDER.spec_for_distutils.__name__)"
    )
    pytest.importorskip("_distutils_hack")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "spec_for_distutils"
