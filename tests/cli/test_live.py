"""From real runs of pytest to the commands: shards, retries, markers, and GitHub's log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.commands import Commands
from tests.conftest import BROKEN, Suite
from tests.examples import sample

pytestmark = pytest.mark.once

MODELS = """
    import pytest
    import torch

    def f(x):
        return torch.sin(x) + 1

    @pytest.mark.parametrize("n", range(4))
    def test_model(n):
        torch.compile(f, backend="eager")(torch.ones(3))

    def test_other():
        torch.compile(f, backend="eager")(torch.ones(3))
"""

REST = """
import pathlib

def pytest_collection_modifyitems(items):
    listed = pathlib.Path(".pytest_tests_to_run")
    if listed.exists():
        items[:] = [item for item in items if item.nodeid in listed.read_text().split()]
"""


@pytest.fixture
def here(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> Suite:
    suite.write(MODELS)
    suite.pytester.makeini("[pytest]\n")
    monkeypatch.chdir(suite.path)
    return suite


def shard(here: Suite, name: str, *args: str) -> str:
    here.run(f"--graph-budget-report={name}", *args)
    return name


def recorded_with_a_stale_entry(here: Suite) -> None:
    here.run("--graph-budget-record")
    path = here.path / "baselines/test_it.yaml"
    text = path.read_text()
    with_stale = text.replace('      "3":', '      "gone": {graphs: {dynamo: 1}}\n      "3":')
    assert with_stale != text
    path.write_text(with_stale + "  test_gone:\n    graphs: {dynamo: 1}\n")


Command = Callable[..., str]


@pytest.fixture
def graphbreak(here: Suite, capsys: pytest.CaptureFixture[str]) -> Command:
    """Types a command, which ends with ``code``: all that it printed."""

    def graphbreak(*args: str, code: int = 0) -> str:
        said = Commands(here.path, capsys).run(*args, code=code)
        return said.out + said.err

    return graphbreak


@pytest.mark.parametrize(
    "parts",
    [
        (("-k", "test_model"), ("-k", "not test_model")),
        (
            ("test_it.py::test_model", "-k", "0 or 1"),
            (),
        ),
        (("--deselect", "test_it.py::test_other"), ("-k", "other")),
        (("--splits=2", "--group=1"), ("--splits=2", "--group=2")),
    ],
)
def test_shards_know_together_what_is_stale(parts: Any, here: Suite, graphbreak: Command) -> None:
    recorded_with_a_stale_entry(here)
    names = [shard(here, f"{number}.json", *args) for number, args in enumerate(parts)]
    out = graphbreak("check", *names)
    assert "stale      baselines/test_it.yaml" in out
    assert out.count("stale      ") == 2
    out = graphbreak("accept", "--yes", "--prune", *names)
    assert "gone" not in here.baseline()
    graphbreak("check", *names)


def test_a_shard_that_is_lost_is_seen(here: Suite, graphbreak: Command) -> None:
    """Also with marks: what all groups together left out was not meant to run."""
    here.run("--graph-budget-update")
    names = [
        shard(here, f"{number}.json", "-k", "not other", "--splits=2", f"--group={number}")
        for number in (1, 2)
    ]
    graphbreak("check", *names)
    out = graphbreak("check", names[1], code=2)
    assert "missing    group 1 of 2 on " in out


def test_a_node_id_knows_its_function(here: Suite, graphbreak: Command) -> None:
    recorded_with_a_stale_entry(here)
    name = shard(here, "one.json", "./test_it.py::test_model")
    out = graphbreak("check", name)
    assert "test_it.py::test_model[gone]" in out
    assert "test_it.py::test_gone" not in out


def test_a_filter_of_tt_xla(here: Suite, graphbreak: Command) -> None:
    """Its retries run the tests listed in a file, and tell pytest nothing of the others."""
    recorded_with_a_stale_entry(here)
    here.pytester.makeconftest(REST)
    (here.path / ".pytest_tests_to_run").write_text("test_it.py::test_model[2]")
    name = shard(here, "one.json")
    out = graphbreak("check", name, code=2)
    assert "No verdict: 4 tests collected, and run in none of these reports." in out
    assert out.count("stale      ") == 2
    graphbreak("check", "--allow-missing", name)


@pytest.mark.parametrize(
    "args", sample([(), ("-s",), ("-p", "no:terminal"), ("-n", "2")], [(), ("-n", "2")]), ids=str
)
@pytest.mark.usefixtures("forks")
def test_under_github_actions(
    args: tuple[str, ...], here: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.write(BROKEN)
    summary = Path(here.path / "summary.md")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(here.path))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    result = here.run_apart("--graph-budget", "-p", "no:cacheprovider", *args)
    commands = [line for line in result.outlines if line.startswith("::")]
    assert len(commands) == 1
    assert commands[0].startswith(
        "::error file=test_it.py,line=5,title=graph budget%3A no baseline"
    )
    assert "### Graph budget: 1 test has no baseline" in summary.read_text()


def test_the_way_out_of_annotations(here: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    here.write(BROKEN)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(here.path / "summary.md"))
    result = here.run("--graph-budget", "-p", "no:graphbreak-github")
    assert result.ret == 1
    result.stdout.no_fnmatch_line("::error*")
    assert not (here.path / "summary.md").exists()
