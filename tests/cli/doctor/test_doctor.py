"""``graphbreak doctor``: what it prints, and how it ends. What it finds is in test_doctor.py."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Workspace


@pytest.fixture(autouse=True)
def _no_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take seconds, and have tests of their own."""
    monkeypatch.setattr("pytest_graphbreak.cli.doctor.probed", lambda *_: iter(()))
    monkeypatch.delenv("TORCHDYNAMO_DISABLE", raising=False)


def test_a_gate_that_could_not_run_ends_with_1(workspace: Workspace) -> None:
    path = workspace.path / "lines" / "tests" / "test_a.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("tests: [")
    said = workspace.run("doctor", "--graph-budget-dir", "lines")
    assert said.code == 1
    assert "PROBLEM  baselines" in said.out
    assert "-> fix the file" in said.out
    assert said.out.endswith(
        "the gate could not run here, or not see everything: 1 problem\n",
    )


def test_where_all_is_well_it_ends_with_0(workspace: Workspace) -> None:
    said = workspace.run("doctor")
    assert said.code == 0
    assert said.out.endswith("\nthe gate can run here\n")
    assert "ok       torch " in said.out
