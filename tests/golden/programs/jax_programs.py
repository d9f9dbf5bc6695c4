"""Programs of JAX: what is compiled again, and what runs outside of any jit."""

from __future__ import annotations

from typing import Final

from tests.golden.situation import Situation

STEP: Final = """
    import jax
    import numpy as np
    from jax import numpy as jnp

    def scale(x):
        return jnp.cos(x) * 3

    def step(x):
        y = jnp.sin(x)
        y = scale(y)
        return y + 1

    def run():
        compiled = jax.jit(step)
        x = np.ones(4, np.float32)
        compiled(x)
    """
"""One jitted function."""


def _instead(text: str) -> tuple[str, str]:
    """A change: what is called in place of one call of the jitted function."""
    return ("    compiled(x)\n", f"    {text}\n")


_SHAPES: Final = _instead("compiled(x), compiled(np.ones(5, np.float32))")
_DTYPES: Final = _instead("compiled(x), compiled(np.ones(4, np.int32))")

ALL: Final = (
    Situation("jax_over_shape", STEP, (_SHAPES,)),
    Situation("jax_over_dtype", STEP, (_DTYPES,)),
    Situation("jax_over_weak_type", STEP, (_instead("compiled(1.5), compiled(x)"),)),
    Situation(
        "jax_over_lambda_made_anew",
        STEP,
        (_instead("[jax.jit(lambda x: step(x))(x) for _ in range(3)]"),),
    ),
    Situation(
        "jax_over_static_value",
        STEP,
        (
            _instead(
                "[jax.jit(lambda x, n: x * n, static_argnums=1)(x, n) for n in (2, 3)]; compiled(x)"
            ),
        ),
    ),
    Situation("jax_over_eager", STEP, (_instead("jnp.exp(compiled(x)) + 1"),)),
    Situation(
        "jax_over_grad", STEP, (_instead("compiled(x), jax.grad(lambda x: compiled(x).sum())(x)"),)
    ),
    Situation("jax_over_second_function", STEP, (_instead("compiled(x), jax.jit(scale)(x)"),)),
    Situation(
        "jax_over_ahead_of_time",
        STEP,
        (_instead("compiled(x), jax.jit(scale).lower(x).compile()"),),
    ),
    Situation(
        "jax_over_scan",
        STEP,
        (_instead("compiled(x), jax.lax.fori_loop(0, 3, lambda i, x: x + i, x)"),),
    ),
    Situation("jax_over_marker", STEP, (_SHAPES,), mark="max_graphs(1)", new=True),
    Situation("jax_lost", STEP, (("jax.jit(step)", "lambda x: x"),)),
    Situation("jax_over_jit_disabled", STEP, (_instead("with jax.disable_jit(): compiled(x)"),)),
    Situation("jax_lost_operations", STEP, (("y = scale(y)", "y = y"),)),
    Situation("jax_new", STEP, new=True),
    Situation("jax_improved", STEP.replace(*_SHAPES), (_SHAPES[::-1],)),
    Situation("jax_changed", STEP.replace(*_SHAPES), ((_SHAPES[1], _DTYPES[1]),)),
)
