"""What ``doctor`` tries the jax layer on."""

from __future__ import annotations

from collections.abc import Callable

from pytest_graphbreak.layers.jax import private


class JaxProbe:
    """A function that is called with two lengths of its input, and one operation outside of it."""

    expected = "3 graphs = 1 jit + 1 retrace + 1 eager, 1 recompile, 0 breaks"

    def prepare(self) -> Callable[[], object]:
        import jax
        import numpy

        def small(x: jax.Array) -> jax.Array:
            return jax.numpy.sin(x)

        three, four = (numpy.ones(size, numpy.float32) for size in (3, 4))

        def run() -> None:
            compiled = jax.jit(small)
            compiled(three)
            compiled(four)
            jax.numpy.negative(three)

        return run

    def about(self) -> str:
        import jax

        return f"jax {jax.__version__} on {jax.default_backend()}"

    def internals(self) -> list[str]:
        return [name.path for name in (*private.NAMES, private.MISS, private.IMPL)]
