"""A test that dies inside the compiler is reported with the kind of failure it is."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tests.conftest import Suite

pytestmark = pytest.mark.once

FULLGRAPH = """
    import torch

    def f(x):
        y = torch.sin(x)
        print("hello")
        return y + 1

    def test_model():
        torch.compile(f, backend="eager", fullgraph=True)(torch.ones(3))
"""

BACKEND = """
    import torch

    def backend(graph, inputs):
        raise ValueError("no such kernel")

    def test_model():
        torch.compile(lambda x: x + 1, backend=backend)(torch.ones(3))
"""


def test_fullgraph_is_reported_as_the_break_that_it_is(suite: Suite) -> None:
    suite.write(FULLGRAPH)
    result = suite.run("--graph-budget")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*graph budget*",
            "*graph break under fullgraph:*",
            "*TORCH_LOGS=graph_breaks *pytest * test_it.py::test_model",
        ]
    )


def test_a_backend_failure_is_shown_without_captured_output(suite: Suite) -> None:
    suite.write(BACKEND)
    result = suite.run("--graph-budget", "--show-capture=no")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*graph budget*",
            "*backend failure:*",
            "*TORCH_COMPILE_DEBUG=1 *pytest * test_it.py::test_model",
        ]
    )
