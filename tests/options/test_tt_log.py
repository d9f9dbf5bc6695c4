"""``graph_budget_tt_log``: how much of the TT plugin's log is turned on."""

from __future__ import annotations

import importlib.util

import pytest

from tests.conftest import Suite

NAMES = ("TTXLA_LOGGER_LEVEL", "TTXLA_LOGGER_FILE", "TTMLIR_RUNTIME_LOGGER_LEVEL", "XLA_HLO_DEBUG")
SHOW = f"""
    import os, json, pathlib

    def test_it({{fixture}}):
        found = {{{{name: os.environ.get(name) for name in {NAMES}}}}}
        pathlib.Path("found.json").write_text(json.dumps(found))
"""


@pytest.fixture(autouse=True)
def _on_tt(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PJRT_DEVICE", "TT")


def found(suite: Suite, *options: str, fixture: str = "") -> dict[str, str | None]:
    import json

    suite.write(SHOW.format(fixture=fixture))
    suite.run(*options).assert_outcomes(passed=1)
    reported: dict[str, str | None] = json.loads((suite.path / "found.json").read_text())
    file = reported.pop("TTXLA_LOGGER_FILE")
    assert (file is None) == (reported["TTXLA_LOGGER_LEVEL"] in (None, "INFO"))
    return reported


@pytest.mark.once
@pytest.mark.parametrize(
    ("options", "fixture"),
    [
        (["--graph-budget"], ""),
        (["--graph-budget-report=r.json"], ""),
        ([], "graph_budget"),
        (["--graph-budget-device=cpu"], "compile_model"),
    ],
)
def test_by_itself_it_is_the_least_that_counting_needs(
    suite: Suite, options: list[str], fixture: str
) -> None:
    reported = found(suite, *options, fixture=fixture)
    assert reported == dict.fromkeys(reported, None) | {"TTXLA_LOGGER_LEVEL": "DEBUG"}


@pytest.mark.once
def test_full_is_what_analysis_needs(suite: Suite) -> None:
    reported = found(suite, "--graph-budget", "-o", "graph_budget_tt_log=full")
    assert reported == {
        "TTXLA_LOGGER_LEVEL": "DEBUG",
        "TTMLIR_RUNTIME_LOGGER_LEVEL": "DEBUG",
        "XLA_HLO_DEBUG": "1",
    }


@pytest.mark.once
@pytest.mark.parametrize("fixture", ["", "compile_model"])
def test_off_is_nothing(suite: Suite, fixture: str) -> None:
    options = ["--graph-budget", "-o", "graph_budget_tt_log=off", "--graph-budget-device=cpu"]
    reported = found(suite, *options, fixture=fixture)
    assert reported == dict.fromkeys(reported, None)


@pytest.mark.skipif(importlib.util.find_spec("torch_xla") is None, reason="needs torch_xla")
@pytest.mark.parametrize("log", ["off", "headers"])
def test_off_counts_through_xla(suite: Suite, monkeypatch: pytest.MonkeyPatch, log: str) -> None:
    """On PJRT's CPU client, with the variable of TT set once the client is open."""
    import torch_xla

    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    torch_xla.device()
    monkeypatch.setenv("PJRT_DEVICE", "TT")
    suite.write(
        """
        import torch, torch_xla

        def test_it():
            x = torch.ones(3, device=torch_xla.device()) + 1
            torch_xla.sync()
        """
    )
    (test,) = suite.report("-o", f"graph_budget_tt_log={log}")["tests"]
    if log == "off":
        assert test["graphs"] == {"xla": 1, "tt": 1}
        assert {graph["cause"] for graph in test["graph_list"]} == {"sync"}
        assert "counted through xla" in test["note"]
    else:  # nobody writes the log that was turned on: that is not hidden
        (error,) = test["errors"]
        assert "the log has none of them" in error
