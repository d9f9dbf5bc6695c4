"""A block over its budget: its text, and nothing of ours around it."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tests.conftest import BROKEN, Suite

pytestmark = pytest.mark.once

BLOCK = (
    BROKEN
    + """
    def test_block(graph_budget):
        with graph_budget(max_graphs=1):
            torch.compile(f, backend="eager")(torch.ones(3))
"""
)


@pytest.mark.parametrize("options", [(), ("--graph-budget-report=graphs.json",)])
def test_a_block_shows_the_users_line_and_none_of_ours(
    suite: Suite, options: tuple[str, ...]
) -> None:
    suite.write(BLOCK)
    result = suite.run("-k", "test_block", "--color=yes", *options)
    result.assert_outcomes(failed=1)
    shown = result.stdout.str()
    for noise in ("torch.__trace", "watch.py", "_enforce", "Record(", "contextlib", "log call"):
        assert noise not in shown
    assert shown.count("Failed to trace builtin operator") == 1
    plain = suite.run("-k", "test_block", *options).stdout
    plain.fnmatch_lines(
        [
            ">       with graph_budget(max_graphs=1):",
            "E       pytest_graphbreak.BudgetExceeded: graph budget: 2 dynamo graphs, the *",
            "E         + GB0059  Failed to trace builtin operator",
            "E         explain   *graph*break explain print",
            "test_it.py:*: BudgetExceeded",
        ]
    )


def test_a_red_count_of_a_block_shows_all_counts(suite: Suite) -> None:
    suite.write(
        BROKEN
        + """
    def test_counts(graph_budget):
        with graph_budget() as seen:
            torch.compile(f, backend="eager")(torch.ones(3))
        assert seen.graphs == 1
"""
    )
    result = suite.run("-k", "test_counts")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E       assert 2 == 1",
            "E        +  where 2 = Seen(graphs=2, recompiles=0, breaks=1).graphs",
        ]
    )
