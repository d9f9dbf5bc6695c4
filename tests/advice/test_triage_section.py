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


@pytest.mark.parametrize(
    ("program", "option", "kind", "variable"),
    [
        (FULLGRAPH, "-q", "graph break under fullgraph", "TORCH_LOGS=graph_breaks"),
        (BACKEND, "--show-capture=no", "backend failure", "TORCH_COMPILE_DEBUG=1"),
    ],
    ids=["fullgraph", "backend-without-captured-output"],
)
def test_the_kind_of_a_compile_failure_is_shown(
    program: str, option: str, kind: str, variable: str, suite: Suite
) -> None:
    suite.write(program)
    result = suite.run("--graph-budget", option)
    result.assert_outcomes(failed=1)
    again = f"*{variable} *pytest * test_it.py::test_model"
    result.stdout.fnmatch_lines(["*graph budget*", f"*{kind}:*", again])
