"""The line that accepts a run's counts, by where the run was."""

from __future__ import annotations

import shlex

import pytest

from pytest_graphbreak.report.footer import GitHubRun, accept_command, this_run

pytestmark = pytest.mark.pure

GITHUB = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_RUN_ID": "123456",
    "GITHUB_REPOSITORY": "tenstorrent/tt-xla",
    "GITHUB_SERVER_URL": "https://github.com",
}


def test_on_github_it_names_the_run() -> None:
    run = this_run(GITHUB)
    assert run == GitHubRun("123456", "tenstorrent/tt-xla")
    assert (
        accept_command("g.json", run=run)
        == "graphbreak accept --run 123456 --repo tenstorrent/tt-xla"
    )
    nodeid = "tests/test_a.py::test_b[a b's]"
    assert shlex.split(accept_command("g.json", nodeid, run))[-2:] == ["--tests", nodeid]


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
    assert accept_command("g.json", "t.py::a", run) == "graphbreak accept g.json --tests t.py::a"
