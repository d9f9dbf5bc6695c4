"""Families of what JAX compiles: why a function again, and what else is a program.

The signs of ``RETRACES`` hold the words of ``layers.jax.keys`` and of its ledger, and those that
JAX itself logs under ``jax_explain_cache_misses`` (0.7 to 0.12): whoever has a log may ask, too.
"""

from __future__ import annotations

from pytest_graphbreak.advice.family import Family, Sign

_ARRAY = r"\w+\[[\d,]{0,200}\]"
_WEAK = r"(?: of weak type)?"

RETRACES: tuple[Family, ...] = (
    Family(
        "jax-function",
        "a function, lambda or partial that is made anew for each call",
        "make it once, outside of the loop, and jit it there: JAX knows functions by identity",
        (
            Sign(reason=r"is a function made anew|is a method of another|was bound anew"),
            Sign(reason=r"another function defined on the same line|defined on the same line"),
            Sign(reason=r"never seen function"),
        ),
    ),
    Family(
        "jax-static",
        "a static argument with another value",
        "pass it as an array (leave it out of static_argnums), or keep to a few values of it",
        (Sign(reason=r"^the static argument |static (arg|value|kwarg)"),),
    ),
    Family(
        "jax-pytree",
        "arguments put together in another way",
        "pass the same keys, lengths and keywords each time; None where there is nothing to pass",
        (
            Sign(reason=r"arguments put together differently|\d+ arrays before, \d+ now"),
            Sign(reason=r"input pytree|pytree (structure|type|metadata)|keyword arg"),
        ),
    ),
    Family(
        "jax-weak-type",
        "a Python number where an array came before, or the other way round",
        "jnp.asarray(1.0, x.dtype), or np.float32(1.0), in place of the bare number",
        (
            # Of both sides: a Python int became a float, or has another shape.
            Sign(
                reason=r"^(?!at [^;\n]{0,200} of weak type before, [^;\n]{0,200} of weak type now)"
                r"[^\n]{0,2000}of weak type"
            ),
            Sign(reason=r"weak_type|weakly typed"),
        ),
    ),
    Family(
        "jax-shape",
        "an array of another shape",
        "pad to a few sizes (buckets) before the call, and mask; drop a last, smaller batch",
        (
            Sign(
                reason=rf"^at [^\n]{{0,200}}: (\w+)\[[\d,]{{0,200}}\]{_WEAK} before, "
                rf"\1\[[\d,]{{0,200}}\]{_WEAK} now"
            ),
            Sign(reason=rf"now {_ARRAY} and before {_ARRAY}|different shape"),
        ),
    ),
    Family(
        "jax-dtype",
        "an array of another type",
        "convert to one type before the call: x.astype(jnp.float32)",
        (
            Sign(reason=rf"{_ARRAY}{_WEAK} before, {_ARRAY}{_WEAK} now"),
            Sign(reason=r"different (input )?types"),
        ),
    ),
    Family(
        "jax-sharding",
        "an array that lies elsewhere, or is sharded in another way",
        "jax.device_put inputs to one sharding before the call, or fix it with in_shardings",
        (
            Sign(reason=r"sharded \(|\bon \w+:\d+|on no device of its own|shardings?\b"),
            Sign(reason=r"^for \w+:\d+[^\n]{0,200} before, for "),
        ),
    ),
    Family(
        "jax-config",
        "a setting of JAX, or an option of jax.jit, that is another one",
        "set it once, before the first call: in conftest.py, or around the warm-up as well",
        (
            Sign(reason=r"^the (setting|option) |(tracing|config\w*) context"),
            Sign(reason=r"jax_\w+ (changed|now)|explicit args signature"),
        ),
    ),
    Family(
        "jax-forgotten",
        "a program that JAX had forgotten",
        "take the jax.clear_caches() away; a test starts from cold caches without it",
        (Sign(reason=r"^nothing differs from before: the program had been forgotten"),),
    ),
    Family(
        "retrace",
        "a function of JAX compiled again",
        "decide how many variants are meant: one, or a few; warm them up, and keep to them",
        (Sign(reason=r"TRACING CACHE MISS|of another kind than before|another than before"),),
    ),
)
"""By the reason of the recompile. The first that fits is taken."""

PROGRAMS: tuple[Family, ...] = (
    Family(
        "jax-eager",
        "a jnp operation outside of jit: each is a program of its own",
        "call it inside of the jitted function, or use numpy for what only prepares and compares",
        (Sign(reason=r"^eager\b"),),
    ),
    Family(
        "jax-transfer",
        "a program that only moves or copies an array",
        "numpy.asarray(x) reads one; jax.device_put once, before the loop",
        (Sign(reason=r"^transfer\b"),),
    ),
    Family(
        "jax-aot",
        "a program that was compiled ahead of time",
        "nothing, where it is meant: a call of the function with these types shares it",
        (Sign(reason=r"^aot\b"),),
    ),
    Family(
        "jax-other",
        "a program of JAX whose cause is not known",
        "JAX_LOG_COMPILES=1 and this test alone: JAX names what it compiles",
        (Sign(reason=r"^other\b"),),
    ),
)
"""By the cause of the graph."""

STOPPED: tuple[Family, ...] = (
    Family(
        "jax-value",
        "a value that was needed while JAX traced: if, int(), .item(), a length",
        "jnp.where or jax.lax.cond for a choice; read the value outside; a static argument",
        (
            Sign(reason=r"Tracer\w*Conversion\w*|ConcretizationType\w*|traced array"),
            Sign(reason=r"NonConcreteBooleanIndex\w*|TracerIntegerConversion\w*"),
        ),
    ),
)
"""By what JAX raised."""
