"""Beside pytest plugins that fake files, time, sockets and processes, or change what is run.

Those that are installed: ``tox -e plugins`` has all.
"""

from __future__ import annotations

import importlib.util
import json
from typing import Any, Final

import pytest
from msgspec import Struct

from tests.conftest import Suite

pytestmark = [pytest.mark.once, pytest.mark.nightly, pytest.mark.usefixtures("forks")]

HEAD: Final = """
import asyncio, datetime, os, random, socket, subprocess, sys, time
import pytest, torch

def compiled():
    torch.compile(lambda x: torch.sin(x) + 1, backend="eager")(torch.ones(3))

def test_before(): compiled()
"""


class Plugin(Struct, frozen=True):
    """A plugin, and a suite that uses it: each test makes one graph."""

    module: str
    source: str
    options: tuple[str, ...] = ()
    tests: int = 2


ASYNC: Final = """
@pytest.mark.asyncio
async def test_async():
    await asyncio.sleep(0)
    compiled()
    await asyncio.sleep(0)
"""
LONG: Final = """
@pytest.mark.timeout(5)
def test_long():
    compiled()
    time.sleep(60)
"""
PLUGINS: Final = {
    "asyncio": Plugin("pytest_asyncio", ASYNC),
    "freezegun": Plugin(
        "freezegun",
        """
import freezegun

@freezegun.freeze_time("2020-01-01")
def test_frozen():
    compiled()
    assert datetime.date.today().year == 2020
""",
    ),
    "mock": Plugin(
        "pytest_mock",
        """
def test_mocked(mocker):
    mocker.patch("builtins.open", mocker.mock_open())
    mocker.patch("time.time", return_value=1.0)
    mocker.patch.dict("os.environ", clear=True)
    for name in ("subprocess.run", "pathlib.Path.exists"):
        mocker.patch(name)
    compiled()
""",
    ),
    "pyfakefs": Plugin(
        "pyfakefs",
        """
def test_files(fs):
    fs.create_file("/made.txt")
    compiled()
    assert "made.txt" in os.listdir("/")

def test_after():
    import colorsys
    compiled()
""",
        tests=3,
    ),
    "randomly": Plugin(
        "pytest_randomly",
        """
def test_seeded():
    compiled()
    assert random.randrange(1000) == random.Random(7).randrange(1000)
""",
        ("-p", "randomly", "--randomly-seed=7"),
    ),
    "repeat": Plugin("pytest_repeat", "", ("--count=2",)),
    "socket": Plugin(
        "pytest_socket",
        """
import pytest_socket

def test_no_socket():
    compiled()
    with pytest.raises(pytest_socket.SocketBlockedError):
        socket.socket()
""",
        ("--disable-socket",),
    ),
    "subprocess": Plugin(
        "pytest_subprocess",
        """
def test_process(fp):
    fp.register(["git", "status"], stdout="clean")
    compiled()
    assert subprocess.run(["git", "status"], capture_output=True).stdout == b"clean"
    with pytest.raises(fp.exceptions.ProcessNotRegisteredError):
        subprocess.run(["git", "diff"])
""",
    ),
    "time-machine": Plugin(
        "time_machine",
        """
import time_machine

@time_machine.travel("2020-01-01", tick=False)
def test_travelled():
    compiled()
    assert datetime.date.today().year == 2020
""",
    ),
    "timeout-signal": Plugin("pytest_timeout", LONG, ("--timeout-method=signal",)),
    "timeout-thread": Plugin("pytest_timeout", "", ("--timeout-method=thread",), 1),
}


@pytest.mark.parametrize("name", PLUGINS)
def test_outcomes_are_as_without_and_counts_are_right(suite: Suite, name: str) -> None:
    plugin = PLUGINS[name]
    if importlib.util.find_spec(plugin.module) is None:
        pytest.skip(f"{plugin.module} is not installed: tox -e plugins")
    suite.path.joinpath("test_it.py").write_text(HEAD + plugin.source)

    def run(*options: str) -> tuple[Any, dict[str, int]]:
        here = ("-p", "no:randomly", "-p", "no:cacheprovider")
        result = suite.pytester.runpytest_subprocess(*here, *plugin.options, *options)
        return result.ret, result.parseoutcomes()

    report = "--graph-budget-report=graphs.json"
    without = run("-p", "no:graphbreak")
    for options in ((report,), (report, "--graph-budget-record"), (report, "--graph-budget")):
        assert run(*options) == without, options
        tests = json.loads((suite.path / "graphs.json").read_text())["tests"]
        assert [test["graphs"] for test in tests] == [{"dynamo": 1}] * plugin.tests
        assert not any(test["errors"] for test in tests)
        suite.path.joinpath("graphs.json").unlink()


def test_a_failure_where_files_are_fake(suite: Suite) -> None:
    """All that its text needs was read before."""
    pytest.importorskip("pyfakefs", reason="tox -e plugins")
    source = """
@pytest.mark.max_graphs(0)
def test_files(fs):
    def f(x):
        y = x + 1
        print("hello")
        return y
    torch.compile(f, backend="eager")(torch.ones(3))
"""
    suite.path.joinpath("test_it.py").write_text(HEAD + source)
    result = suite.pytester.runpytest_subprocess("-p", "no:randomly")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["graph budget: 1 dynamo graph, *", '*print("hello")', "*fix: *"])
