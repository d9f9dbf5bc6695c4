"""What a change takes out of the gate, from real repositories and from texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_graphbreak.config.checkout import Checkout
from pytest_graphbreak.runs.loosened import CheckoutMarks, compare, read, since
from tests.runs.test_history import Repository


def reported(before: str, now: str) -> list[str]:
    return [f"{item.what} {item}" for item in compare("t.py", read(before), read(now))]


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        ("", "@m.graph_budget(gate=False)", ["ungated t.py::t   graph_budget(gate=False)"]),
        ("", "@m.graph_budget(gate=FLAKY)", ["ungated t.py::t   graph_budget(gate=FLAKY)"]),
        ("", "@m.graph_budget(**way)", ["ungated t.py::t   graph_budget(**way)"]),
        ("", "@m.graph_budget(gate=True)", []),
        ("@m.graph_budget(gate=False)", "@m.graph_budget(gate=False)", []),
        ("@m.graph_budget(gate=False, reason='a')", "@m.graph_budget(gate=False, reason='b')", []),
        ("@m.graph_budget(gate=False)", "", []),
        (
            "",
            "@m.graph_budget(isolate=False)",
            ["isolation t.py::t   graph_budget(isolate=False)"],
        ),
        (
            "@m.graph_budget(isolate=False)",
            "",
            ["isolation t.py::t   isolated again   was graph_budget(isolate=False)"],
        ),
        ("", "@m.max_graphs(5)", []),
        ("@m.max_graphs(5)", "@m.max_graphs(1)", []),
        (
            "@m.max_graphs(1)",
            "@m.max_graphs(5)",
            ["cap t.py::t   max_graphs(5)   was max_graphs(1)"],
        ),
        (
            "@m.max_graphs(1, breaks=0)",
            "@m.max_graphs(1)",
            ["cap t.py::t   max_graphs(1)   was max_graphs(1, breaks=0)"],
        ),
        ("@m.max_graphs(1)", "@m.max_graphs(1, breaks=0)", []),
        (
            "@m.max_graphs(1)",
            "@m.max_graphs(N)",
            ["cap t.py::t   max_graphs(N)   was max_graphs(1)"],
        ),
        ("@m.max_graphs(1)", "", ["cap t.py::t   no max_graphs any more   was max_graphs(1)"]),
    ],
)
def test_marks_of_a_function(before: str, now: str, words: list[str]) -> None:
    assert reported(f"{before}\ndef t(): graph_budget", f"{now}\ndef t(): graph_budget") == words


def test_marks_elsewhere() -> None:
    now = """
pytestmark = [pytest.mark.graph_budget(gate=False)]
class TestA:
    pytestmark = pytest.mark.graph_budget(gate=False)
    @pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.graph_budget(gate=False))])
    def test_b(self): ...
def test_c(graph_budget):
    with graph_budget(max_graphs=5): ...
"""
    before = "def test_c(graph_budget):\n    with graph_budget(max_graphs=1): ..."
    assert reported(before, now) == [
        "ungated t.py   graph_budget(gate=False)",
        "ungated t.py::TestA   graph_budget(gate=False)",
        "ungated t.py::TestA::test_b   graph_budget(gate=False)",
        "cap t.py::test_c   graph_budget(max_graphs=5)   was graph_budget(max_graphs=1)",
    ]


def test_a_test_that_went_is_not_reported() -> None:
    assert reported("@m.max_graphs(1)\ndef t(): ...", "graph_budget = 1") == []


@pytest.mark.parametrize(
    "text",
    ["graph_budget(", "graph_budget\0", "graph_budget" + "(" * 5000, "x" * 3_000_000, "-" * 90_000],
)
def test_what_is_no_python_has_no_marks(text: str) -> None:
    assert read(text).found == ()


def test_entries_and_keys(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    checkout = Checkout(tmp_path, repository.directory)
    repository.put("  test_b:\n    graphs: {dynamo: 1}\n  test_o:\n    ungated: old\n")
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\ngraph_budget_ops = 10\n")
    repository.commit("first")
    commit = repository.git("rev-parse", "HEAD").strip()
    assert since(checkout, commit) == []
    repository.put(
        "  test_b:\n    ungated: flaky\n    graphs: {dynamo: 1}\n  test_o:\n    ungated: older\n"
    )
    (tmp_path / "pyproject.toml").write_text(
        "[tool.pytest.ini_options]\ngraph_budget_ops = 'off'\ngraph_budget_strict = true\n"
    )
    (tmp_path / "test_new.py").write_text("@m.graph_budget(gate=False)\ndef t(): ...")
    (tmp_path / "test_link.py").symlink_to("test_new.py")
    assert [f"{item.what} {item}" for item in since(checkout, commit)] == [
        "ungated test_new.py::t   graph_budget(gate=False)",
        "setting pyproject.toml   graph_budget_ops = off   was 10",
        "setting pyproject.toml   graph_budget_strict = True   was not set",
        "ungated test_a.py::test_b   ungated: flaky",
    ]
    repository.commit("all of it")
    assert len(since(checkout, commit)) == 4


def test_a_file_that_was_renamed_is_the_same(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    (tmp_path / "test_x.py").write_text("@m.graph_budget(gate=False)\ndef t(): ...\n" * 3)
    repository.commit("first")
    repository.git("mv", "test_x.py", "test_y.py")
    assert since(Checkout(tmp_path, repository.directory), "HEAD") == []


def test_what_the_source_can_tell(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def t(): ...")
    (tmp_path / "test_b.py").write_text("pytestmark = [m.graph_budget(gate=False)]")
    assert not CheckoutMarks(tmp_path).may_ungate("test_a.py::t")
    assert CheckoutMarks(tmp_path).may_ungate("test_b.py::t")
    assert CheckoutMarks(tmp_path).may_ungate("test_gone.py::t")
    assert CheckoutMarks(tmp_path).may_ungate("../../etc/passwd::t")
    (tmp_path / "helpers.py").write_text("flaky = pytest.mark.graph_budget(gate=False)")
    assert CheckoutMarks(tmp_path).may_ungate("test_a.py::t")
