"""Programs of JAX that are compiled again, or ahead of time."""

from __future__ import annotations

from typing import Final

from tests.advice.situations import Situation

HEAD: Final = """
import collections, functools
import numpy, jax, pytest

x = jax.device_put(numpy.ones(4, "float32"))
"""
LIMIT: Final = """

@pytest.mark.max_graphs(jax=1, recompiles=0)
def test_it():
"""

SITUATIONS: Final = (
    Situation(
        "a transform that is a static argument, made in each step",
        f"""{HEAD}
Transform = collections.namedtuple("Transform", "init update")

def scale(rate):
    return Transform(lambda p: p, lambda g: g * rate)

@functools.partial(jax.jit, static_argnames=("tx",))
def step(x, tx):
    return tx.update(x)

{LIMIT}    for _ in range(3):
        step(x, scale(0.1))
""",
        ("make it once, outside of the loop",),
        (
            (
                ("    for _ in range(3):\n", "    tx = scale(0.1)\n    for _ in range(3):\n"),
                ("step(x, scale(0.1))", "step(x, tx)"),
            ),
        ),
    ),
    Situation(
        "a transform that is static in a tree, made in each step",
        f"""{HEAD}
class State:
    def __init__(self, p, tx):
        self.p, self.tx = p, tx

jax.tree_util.register_pytree_node(
    State, lambda s: ((s.p,), s.tx), lambda tx, children: State(children[0], tx)
)

def scale(rate):
    return lambda g: g * rate

@jax.jit
def step(state):
    return state.tx(state.p)

{LIMIT}    for _ in range(3):
        step(State(x, scale(0.1)))
""",
        ("make what is static in it once, outside of the loop: a function, an optax transform",),
        (
            (
                ("    for _ in range(3):\n", "    tx = scale(0.1)\n    for _ in range(3):\n"),
                ("State(x, scale(0.1))", "State(x, tx)"),
            ),
        ),
        ("in which something static is another",),
    ),
    Situation(
        "ahead of time with another sharding",
        f"""{HEAD}
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(jax.devices(), ("x",))
double = jax.jit(lambda x: x * 2)

def compiled(spec):
    there = NamedSharding(mesh, spec)
    return double.lower(jax.ShapeDtypeStruct((8,), "float32", sharding=there)).compile()

{LIMIT}    compiled(P("x"))
    compiled(P())
""",
        (),
        (((" compiled(P())\n", ' compiled(P("x"))\n'),),),
    ),
)
