"""What is printed to be typed works when it is typed, where it was printed."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest
from msgspec.structs import asdict

pytest.importorskip("torch")

from pytest_graphbreak.config.typed import GitHubRun, Typed, start, this_run
from tests.conftest import BROKEN, CLEAN, GITHUB, Suite

pytestmark = pytest.mark.once

MODULE = "python -m pytest_graphbreak"
COMMAND = re.compile(
    r"^(?:  (?:accept|record) +|next +(?:\S.*?: )?)(.*-m pytest .*|.*pytest .*)$", re.M
)


@pytest.mark.parametrize(
    ("program", "script", "original", "shown"),
    [
        ("pytest", "/v/pytest/__main__.py", ["python", "-m", "pytest"], "python -m pytest"),
        ("pytest", "/v/pytest/__main__.py", [".venv/bin/python"], ".venv/bin/python -m pytest"),
        ("pytest", "/v/pytest/__main__.py", ["/h/.venv/bin/python"], ".venv/bin/python -m pytest"),
        ("pytest", "/v/pytest/__main__.py", ["/o/bin/python3"], "/o/bin/python3 -m pytest"),
        ("pytest", "/v/coverage/__main__.py", ["python", "-m", "coverage"], "python -m pytest"),
        ("pytest", ".venv/bin/pytest", ["python"], ".venv/bin/pytest"),
        ("pytest", "/h/.venv/bin/pytest", ["python"], ".venv/bin/pytest"),
        ("pytest", "/o/bin/py.test", ["python"], "/o/bin/py.test"),
        # In the same environment, from whichever of the two it is printed.
        ("graphbreak", "/v/pytest/__main__.py", ["python", "-m", "pytest"], MODULE),
        ("graphbreak", "/h/.venv/bin/pytest", ["python"], ".venv/bin/graphbreak"),
        ("graphbreak", "/o/bin/py.test", ["python"], "/o/bin/graphbreak"),
        ("graphbreak", "/o/bin/graphbreak", ["python"], "/o/bin/graphbreak"),
        ("graphbreak", "/v/pytest_graphbreak/__main__.py", ["python"], MODULE),
    ],
)
def test_a_program_is_started_as_it_was(
    program: str, script: str, original: list[str], shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert shlex.join(start(program, script, original, Path("/h"))) == shown


def test_what_the_shell_finds_needs_no_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "pytest"
    script.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert start("pytest", str(script), ["python"], Path("/h")) == ("pytest",)


def test_graphbreak_on_the_path_needs_no_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "graphbreak").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert start("graphbreak", "/v/pytest/__main__.py", ["python"], Path("/h")) == ("graphbreak",)


@pytest.mark.parametrize("program", ["pytest", "graphbreak"])
@pytest.mark.parametrize(
    ("script", "original", "parent", "shown"),
    [
        ("/v/bin/pytest", ["/v/bin/python", "/v/bin/pytest", "-k", "a"], "pytest -k a", "{}"),
        ("/p/pytest/__main__.py", ["/v/bin/python", "-m", "pytest"], "python -m pytest", "python"),
    ],
)
@pytest.mark.parametrize("options", ["", " --extra dev", " --with pytest --python 3.12"])
def test_what_uv_started_is_started_by_uv(
    program: str,
    script: str,
    original: list[str],
    parent: str,
    shown: str,
    options: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = f"/o/uv run{options} {parent}".replace(" ", "\0") + "\0"
    monkeypatch.setenv("UV_RUN_RECURSION_DEPTH", "1")
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: line)
    module = {"pytest": "pytest", "graphbreak": "pytest_graphbreak"}[program]
    words = program if shown == "{}" else f"python -m {module}"
    found = start(program, script, original, Path("/h"))
    assert shlex.join(found) == f"uv run{options} {words}"


@pytest.mark.parametrize("parent", ["", "bash\0-i\0", "/usr/bin/make\0run\0test\0"])
def test_in_a_shell_that_uv_started_uv_run_is_enough(
    parent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_RUN_RECURSION_DEPTH", "1")
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: parent)
    original = ["/v/bin/python", "/v/bin/pytest"]
    assert start("pytest", "/v/bin/pytest", original, Path("/h")) == ("uv", "run", "pytest")


def test_it_crosses_processes_as_builtin_types() -> None:
    reported = Typed(
        *(("python", "-m", "pytest"), ("graphbreak",), ("-p", "x"), ("tests",)), "/h/tests", "/h"
    )
    assert Typed(**asdict(reported)) == reported
    assert reported.test("a b.py::t[1]", "--x") == "python -m pytest -p x --x '../a b.py::t[1]'"
    assert reported.test("tests/a.py::t") == "python -m pytest -p x a.py::t"
    assert reported.rerun("--x") == "python -m pytest -p x --x tests"


def test_on_github_it_names_the_run() -> None:
    run = this_run(GITHUB)
    assert run == GitHubRun("123456", "tenstorrent/tt-xla")
    assert (
        Typed().accept("g.json", run=run)
        == "graphbreak accept --run 123456 --repo tenstorrent/tt-xla"
    )
    nodeid = "tests/test_a.py::test_b[a b's]"
    command = Typed(tool=("python", "-m", "x")).accept("g.json", nodeid=nodeid, run=run)
    assert shlex.split(command)[-2:] == ["--tests", nodeid]
    assert command.startswith("graphbreak ")


def test_a_server_of_ones_own_is_named() -> None:
    run = this_run(GITHUB | {"GITHUB_SERVER_URL": "https://git.example.org"})
    assert run == GitHubRun("123456", "git.example.org/tenstorrent/tt-xla")


@pytest.mark.parametrize(
    "otherwise",
    [
        {"GITHUB_ACTIONS": ""},
        {"GITHUB_RUN_ID": ""},
        {"GITHUB_RUN_ID": "1; rm"},
        {"GITHUB_REPOSITORY": "$(id)/x"},
    ],
)
def test_elsewhere_it_names_the_report(otherwise: dict[str, str]) -> None:
    run = this_run(GITHUB | otherwise)
    assert run is None
    command = Typed(baselines="../kept").accept("g.json", nodeid="t.py::a", run=run)
    assert command == "graphbreak accept g.json --graph-budget-dir ../kept --tests t.py::a"


def test_what_decides_is_kept_and_what_decorates_is_not(suite: Suite) -> None:
    """Typed below the rootdir, with an option of the suite's own and the ini file named."""
    suite.write(CLEAN)
    suite.pytester.makeconftest(
        """
def pytest_addoption(parser):
    parser.addoption("--card", default="none")
    parser.addoption("--slow", action="store_true")
"""
    )
    (suite.path / "own.ini").write_text("[pytest]\n")
    (suite.path / "kept").mkdir()
    result = suite.run(
        *("-c", "own.ini", "--rootdir=.", "--card", "n150", "--slow", "-v", "--tb=short"),
        *("-k", "model", "--graph-budget-dir=kept", "--graph-budget", "test_it.py"),
    )
    keep = "-p no:cacheprovider -c own.ini --rootdir=. --card n150 --slow --graph-budget-dir=kept"
    record, again = COMMAND.findall(result.stdout.str())
    assert record.endswith(f"{keep} --graph-budget-record test_it.py::test_model")
    assert again.endswith(f"{keep} --graph-budget-record -k model test_it.py")
    for command in (record, again):
        typed_in_process(suite, command)
        assert (suite.path / "kept" / "test_it.yaml").exists()
        (suite.path / "kept" / "test_it.yaml").unlink()


def test_each_command_of_a_red_run_makes_it_green(suite: Suite) -> None:
    """Grown, lost, grown and lost at once, new: each is accepted as its own text says."""
    tests = [BROKEN.replace("def f(", f"def f{n}(").replace("(f,", f"(f{n},") for n in range(4)]
    names = [f"def test_{name}(" for name in ("grown", "lost", "loop", "new")]
    grown, lost, loop, new = (
        source.replace("def test_model(", name) for source, name in zip(tests, names, strict=True)
    )
    hello = '        print("hello")\n'
    was = "".join(source.replace(hello, "") for source in (grown, lost, loop))
    lost = lost.replace(hello, "").replace(
        "torch.compile(f1, backend=", "(lambda f, **_: f)(f1, b="
    )
    loop = loop.replace(hello, '        for _ in range(2):\n            print("hello")\n')
    suite.write(was)
    suite.run("--graph-budget-record").assert_outcomes(passed=3)
    suite.write(grown + lost + loop + new)
    result = suite.run("--graph-budget", failed=4)
    commands = [c for c in COMMAND.findall(result.stdout.str()) if "::" in c]
    assert len(commands) == 4
    assert ["--graph-budget-prune" in command for command in commands] == [False, True, True, False]
    for command in commands:
        typed_in_process(suite, command)
    suite.run("--graph-budget").assert_outcomes(passed=4)


def typed_in_process(suite: Suite, command: str) -> None:
    """What follows the words that start pytest, run here."""
    words = shlex.split(command)
    start = next(n for n, word in enumerate(words) if Path(word).name in ("pytest", "py.test"))
    assert suite.pytester.runpytest_inprocess(*words[start + 1 :]).ret == 0
