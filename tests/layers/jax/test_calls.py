"""What is read from JAX's frames: the line that called it, and names that it may lack."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

jax = pytest.importorskip("jax")

from pytest_graphbreak.layers.jax import calls  # noqa: E402
from pytest_graphbreak.layers.jax.calls import JaxCall  # noqa: E402
from pytest_graphbreak.layers.jax.functions import enclosed_value  # noqa: E402
from pytest_graphbreak.layers.jax.keys import named  # noqa: E402
from pytest_graphbreak.model.stacks import Line  # noqa: E402
from tests.layers.jax.tools import watched  # noqa: E402

pytestmark = pytest.mark.jax


def test_who_called_is_no_library() -> None:
    mine = Line("/home/me/model.py", 3, "step")
    library = Line("/venv/lib/python3.11/site-packages/equinox/_jit.py", 9, "__call__")
    assert JaxCall((mine, library)).caller == mine
    assert JaxCall((library,)).caller == library
    assert JaxCall(()).caller is None


def test_names_that_are_missing_are_empty() -> None:
    assert named(["x"], (1, 2)) == (("x", 1), ("", 2))
    assert enclosed_value(len, "fun") is None
    assert calls._source(SimpleNamespace()) == ""
    old = SimpleNamespace(debug_info=SimpleNamespace(func_src_info="f at model.py:12"))
    assert calls._source(SimpleNamespace(jaxpr=old)) == "f at model.py:12"  # of jax 0.7


@pytest.mark.parametrize("number", [-1, 0])
def test_a_static_argument_is_known_from_both_ends(number: int) -> None:
    f = jax.jit(lambda n: n * 2, static_argnums=number)
    graphs = watched(lambda: (f(3), f(4))).graph_list
    assert [graph.reason.partition(" (")[0] for graph in graphs][1:] == [
        "the static argument n: 3 before, 4 now"
    ]
