"""What a user of JAX sees of the gate: texts, blocks, markers, profiles, child processes."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from tests.conftest import Suite

pytest.importorskip("jax")

pytestmark = pytest.mark.jax

STEP = """
import jax
import numpy as np
import pytest

@jax.jit
def step(x, y):
    return x * 2 + y['hi']

def at(size):
    return step(np.float32(1), {'hi': np.ones(size, np.float32)})
"""


NUMPY = """
import jax
import numpy as np

def test_it():
    jax.jit(lambda x: x * 2 + 1)(np.ones(11))
"""


def test_where_all_is_loaded_from_a_cache_jax_is_spoken_of(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite.write(NUMPY)
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(suite.path / "cache"))
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
    suite.run_apart("--graph-budget-record", passed=1)
    warm = suite.run_apart("--graph-budget")
    warm.stdout.fnmatch_lines(
        [
            "  - nothing was compiled",
            "      jax: compiled 0, loaded 1 from JAX's persistent cache: *",
            "      test_it.py:4 in test_it",
            "      fix: look for a jax.jit that is gone or has less in it, JAX_DISABLE_JIT, *",
        ],
        consecutive=True,
    )
    assert "torch" not in warm.stdout.str()


def test_a_block_knows_what_was_compiled_before_it(suite: Suite) -> None:
    """No option, no window of the gate: the second test finds warm what the first has compiled."""
    suite.write(
        STEP
        + """
@pytest.mark.parametrize("size", [3, 4])
def test_it(graph_budget, size):
    at(3)
    with graph_budget(max_graphs=0):
        at(size)

def test_forbidden(graph_budget):
    with graph_budget(max_graphs=0):
        jax.jit(lambda x: x + 5)(np.float32(1))
"""
    )
    suite.run(passed=1, failed=2).stdout.fnmatch_lines(
        [
            "*BudgetExceeded: graph budget: 1 jax graph, the block allows 0 (+1)",
            "*  + retrace step/0   at y?'hi'?: float32?3? before, float32?4? now (*",
            "*BudgetExceeded: graph budget: 1 jax graph, the block allows 0 (+1)",
            "*  + jit   <lambda> of test_it.py:20",
            "*          jax.jit(lambda x: x + 5)(np.float32(1))",
        ]
    )


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed")
def test_compile_model_says_that_it_is_of_torch(suite: Suite) -> None:
    suite.write("def test_it(compile_model):\n    pass\n")
    result = suite.run()
    result.stdout.fnmatch_lines(["compile_model compiles models of torch, and torch is not*"])
    assert "Traceback" not in result.stdout.str()
    assert "torch" not in sys.modules


def test_with_markers_alone_only_marked_tests_are_isolated(suite: Suite) -> None:
    suite.write(
        """
import jax.numpy as jnp
import pytest
from jax._src import api

calls = []
clear = api.clear_caches
api.clear_caches = lambda: (calls.append(1), clear())

def test_first():
    jnp.ones(3)

def test_unmarked():
    assert not calls

@pytest.mark.max_graphs(jax=5)
def test_marked():
    assert len(calls) == 1

def test_after():
    assert len(calls) == 1
"""
    )
    suite.run().assert_outcomes(passed=4)
