"""A budget of graphs whose compiler is not installed here is an error, and never within it."""

from __future__ import annotations

import importlib.util

import pytest

from pytest_graphbreak.measuring import absent
from pytest_graphbreak.model.budget import Cap
from tests.conftest import Suite

pytestmark = [pytest.mark.pure, pytest.mark.jax]

HERE = {name: importlib.util.find_spec(name) is not None for name in ("torch", "jax")}
LAYER = {"torch": "dynamo", "jax": "jax"}


@pytest.fixture
def nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(absent, "is_installed", lambda name: False)


@pytest.fixture
def jax_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(absent, "is_installed", lambda name: name == "jax")


@pytest.mark.usefixtures("jax_only")
def test_graphs_of_a_baseline_whose_compiler_is_not_here() -> None:
    words = "the baseline has 2 dynamo graphs, and torch is not installed in this Python"
    assert absent.baseline_impossible({"dynamo": 2, "jax": 1}, ("jax",)) == words
    assert absent.baseline_impossible({"xla": 1}, ()).startswith(
        "the baseline has 1 xla graph, and torch"
    )
    assert absent.baseline_impossible({"jax": 1}, ()) == ""
    assert absent.baseline_impossible({"dynamo": 0, "jax": 1}, ("jax",)) == ""
    # A child process of another environment made them.
    assert absent.baseline_impossible({"dynamo": 2}, ("dynamo",)) == ""


@pytest.mark.usefixtures("jax_only")
def test_layers_of_a_cap_whose_compiler_is_not_here() -> None:
    cap = Cap(layers={"dynamo": 1, "xla": 2})
    assert absent.cap_impossible(cap, ("jax",)) == (
        "the marker names dynamo=1, xla=2, and torch is not installed in this Python"
    )
    assert absent.cap_impossible(cap, ("dynamo",)) == ""
    assert absent.cap_impossible(Cap(layers={"dynamo": 1, "jax": 2}), ("jax",)) == ""
    assert absent.cap_impossible(Cap(every=1, layers={"dynamo": 1}), ("jax",)) == ""
    assert absent.cap_impossible(Cap(breaks=0), ("jax",)) == ""


@pytest.mark.usefixtures("nothing")
def test_with_no_compiler_at_all_every_layer_is_absent() -> None:
    assert absent.cap_impossible(Cap(layers={"dynamo": 1, "jax": 1}), ()).endswith(
        "and torch and jax are not installed in this Python"
    )


@pytest.mark.parametrize("missing", [name for name in HERE if not HERE[name]])
def test_the_gate_fails_what_it_cannot_see(suite: Suite, missing: str) -> None:
    layer = LAYER[missing]
    suite.write(
        f"""
        import pytest

        def test_recorded():
            pass

        @pytest.mark.max_graphs({layer}=1)
        def test_marked():
            pass

        @pytest.mark.max_graphs({layer}=1)
        def test_block(graph_budget):
            with pytest.raises(AssertionError, match="installed in this Python"):
                with graph_budget({layer}=1):
                    pass
            raise KeyError
        """
    )
    suite.write_baseline(
        f"version: 1\nprofile: cpu\ntests:\n  test_recorded:\n    graphs: {{{layer}: 1}}\n"
    )
    tests = suite.tests("--graph-budget")
    assert [test["verdict"] for test in tests.values()] == ["error", "error", "none"]
    assert "installed in this Python" in tests["test_recorded"]["message"]
    assert "installed in this Python" in tests["test_marked"]["message"]
    assert tests["test_block"]["failed_by"] == "test"
