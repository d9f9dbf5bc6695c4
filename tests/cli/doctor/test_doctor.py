"""``graphbreak doctor``: what it prints, and how it ends. What it finds is in test_doctor.py."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Workspace

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def _no_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take seconds, and have tests of their own."""
    monkeypatch.setattr("pytest_graphbreak.cli.doctor.probe_results", lambda *_: iter(()))
    monkeypatch.delenv("TORCHDYNAMO_DISABLE", raising=False)


def test_a_gate_that_could_not_run_ends_with_1(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")
    said = workspace.run("doctor", code=1)
    assert "PROBLEM  dynamo" in said.out
    assert "-> unset it" in said.out
    assert said.out.endswith(
        "the gate could not run here, or not see everything: 1 problem\n",
    )


def test_where_all_is_well_it_ends_with_0(workspace: Workspace) -> None:
    said = workspace.run("doctor", code=0)
    assert said.out.endswith("\nthe gate can run here\n")
    assert "ok       torch " in said.out
