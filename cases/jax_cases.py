"""Adversarial uses of JAX, each with the executables that XLA compiles for it.

A case says what its lines make JAX compile: the cause, the text of the line, how
many executables, and words of the reason. It starts with empty caches of JAX, in a
process with four virtual CPU devices. How many is not known from the observer but
from what XLA writes of each compilation, in a process for each case
(``cases/jax_oracle.py``), on jax 0.7.1, 0.10.2 and 0.12.0.1; the lines and the
causes were written by hand. Small eager programs differ between the minor versions
of jax: such a line has a number for each.

A case takes no arguments and may be run any number of times in a process. Data is
numpy's, which compiles nothing.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

with contextlib.suppress(RuntimeError):  # the devices are there already
    jax.config.update("jax_num_cpu_devices", 4)

MINOR = tuple(int(part) for part in jax.__version__.split(".")[:2])


@dataclass(frozen=True)
class Why:
    """What one line makes JAX compile: so many executables of one cause.

    ``reason`` are words of what the observer says of each; ``host``: they run on another
    device than the first.
    """

    cause: str
    code: str
    count: int
    reason: str
    host: bool


def _cause(name: str) -> Callable[..., Why]:
    """Makes the ``Why`` of a cause; ``until`` has the counts of older jax, up to a version."""

    def why(
        code: str,
        count: int = 1,
        reason: str = "",
        *,
        host: bool = False,
        until: dict[tuple[int, int], int] | None = None,
    ) -> Why:
        here = [older for last, older in sorted((until or {}).items()) if last >= MINOR]
        return Why(name, code, here[0] if here else count, reason, host)

    return why


jit, retrace, backward, eager, aot = map(_cause, ("jit", "retrace", "backward", "eager", "aot"))


@dataclass(frozen=True)
class Case:
    name: str
    run: Callable[[], Any]
    why: tuple[Why, ...]
    refused: int
    """Programs that XLA optimized and could not make an executable of."""

    @property
    def programs(self) -> int:
        """Executables of the first device."""
        return sum(why.count for why in self.why if not why.host)

    @property
    def host(self) -> int:
        """Executables of the other devices only."""
        return sum(why.count for why in self.why if why.host)


CASES: dict[str, Case] = {}


def case(*why: Why, refused: int = 0) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Register a case."""

    def register(run: Callable[[], Any]) -> Callable[[], Any]:
        name = run.__name__
        assert name not in CASES, name
        CASES[name] = Case(name, run, tuple(each for each in why if each.count), refused)
        return run

    return register


def needs(*modules: str) -> bool:
    return all(importlib.util.find_spec(name) for name in modules)


def X(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    shape = shape or (4,)
    return np.arange(1, 1 + np.prod(shape), dtype=dtype).reshape(shape)


def wave(x):
    return jnp.sin(x) * 2 + 1


SHARED = jax.jit(lambda x: jnp.cos(x) + 1)
"""Jitted once for the process: what one test compiled is there for the next."""


def mesh(size: int = 4) -> Mesh:
    return Mesh(np.array(jax.devices()[:size]), ("x",))


# --- jit ----------------------------------------------------------------------------------


@case()
def nothing() -> None:
    pass


@case()
def jit_that_is_not_called() -> None:
    jax.jit(wave)


@case(jit("jax.jit(wave)(X())  # once"))
def jit_once() -> None:
    jax.jit(wave)(X())  # once


@case(jit("jax.jit(wave)(X())  # the function is the same"))
def jit_anew_of_one_function() -> None:
    for _ in range(3):
        jax.jit(wave)(X())  # the function is the same


@case(
    jit("jax.jit(lambda x: x + 1)(X())  # first"),
    jit("jax.jit(lambda x: x + 1)(X())  # second"),
)
def two_functions_of_one_text() -> None:
    jax.jit(lambda x: x + 1)(X())  # first
    jax.jit(lambda x: x + 1)(X())  # second


@case(jit("SHARED(X())  # shared"))
def shared_by_the_process() -> None:
    SHARED(X())  # shared


@case(jit("SHARED(X())  # shared, again"), retrace("SHARED(X(5))  # shared, longer"))
def shared_by_the_process_again() -> None:
    SHARED(X())  # shared, again
    SHARED(X(5))  # shared, longer


@case(jit("jax.jit(lambda x: inner(x) + inner(x + 1))(X())  # outer"))
def nested_jit() -> None:
    inner = jax.jit(lambda x: x * 3)
    jax.jit(lambda x: inner(x) + inner(x + 1))(X())  # outer


@case(
    jit("jax.jit(lambda x: inner(x) + 1)(X())  # outer of two"),
    jit("inner(X())  # inner by itself"),
)
def nested_jit_called_outside_too() -> None:
    inner = jax.jit(lambda x: x * 3)
    jax.jit(lambda x: inner(x) + 1)(X())  # outer of two
    inner(X())  # inner by itself


@case(jit("jax.jit(lambda x: inner(x) + 1)(X())  # inlined"))
def inline_jit() -> None:
    inner = jax.jit(lambda x: x * 3, inline=True)
    jax.jit(lambda x: inner(x) + 1)(X())  # inlined


@case(
    jit("jax.jit(model.forward)(X())  # method"), retrace("jax.jit(model.forward)(X())  # method")
)
def bound_method() -> None:
    class Model:
        def forward(self, x):
            return x * 2

    model = Model()
    for _ in range(2):
        jax.jit(model.forward)(X())  # method


@case(jit("f(X(), X())  # unused"), retrace("f(X(), X(5))  # unused, longer"))
def unused_argument() -> None:
    f = jax.jit(lambda x, y: x + 1)
    f(X(), X())  # unused
    f(X(), X(5))  # unused, longer


@case(jit("f(f(x))  # donated"))
def donated() -> None:
    f = jax.jit(lambda x: x + 1, donate_argnums=0)
    x = jax.device_put(X())
    f(f(x))  # donated


@case(
    jit("jax.jit(wave)(X())  # plain"),
    retrace(
        'jax.jit(wave, compiler_options={"xla_cpu_enable_fast_math": True})(X())  # with options'
    ),
)
def compiler_options() -> None:
    jax.jit(wave)(X())  # plain
    jax.jit(wave, compiler_options={"xla_cpu_enable_fast_math": True})(X())  # with options


# --- retraces -----------------------------------------------------------------------------


@case(jit("f(X(3))  # three"), retrace("f(X(4))  # four"))
def another_shape() -> None:
    f = jax.jit(wave)
    f(X(3))  # three
    f(X(4))  # four


@case(jit("f(X())  # float32"), retrace("f(X(dtype=np.int32))  # int32"))
def another_dtype() -> None:
    f = jax.jit(wave)
    f(X())  # float32
    f(X(dtype=np.int32))  # int32


@case(
    jit('f(X(), {"hi": X(3), "lo": X()})  # tree'),
    retrace('f(X(), {"hi": X(4), "lo": X()})  # tree, longer'),
)
def another_shape_in_a_pytree() -> None:
    f = jax.jit(lambda x, y: x + y["hi"].sum() + y["lo"])
    f(X(), {"hi": X(3), "lo": X()})  # tree
    f(X(), {"hi": X(4), "lo": X()})  # tree, longer


@case(jit("f(X(), scale=X(3))  # scale"), retrace("f(X(), scale=X(5))  # scale, longer"))
def another_shape_by_name() -> None:
    f = jax.jit(lambda x, *, scale: x.sum() * scale.sum())
    f(X(), scale=X(3))  # scale
    f(X(), scale=X(5))  # scale, longer


@case(jit("f(X(size))  # grows"), retrace("f(X(size))  # grows", 5))
def growing_shapes() -> None:
    f = jax.jit(lambda x: x.sum())
    for size in range(1, 7):
        f(X(size))  # grows


@case(jit("f(X(size))  # there and back"), retrace("f(X(size))  # there and back"))
def back_to_the_first_shape() -> None:
    f = jax.jit(wave)
    for size in (3, 4, 3, 4):
        f(X(size))  # there and back


@case(jit("f(X(), value)  # any float"))
def python_scalars() -> None:
    f = jax.jit(lambda x, s: x * s)
    for value in (1.5, 2.5, 0.0, 1.0):
        f(X(), value)  # any float


@case(jit("f(X(), 2)  # an int"), retrace("f(X(), 2.0)  # a float"))
def int_then_float() -> None:
    f = jax.jit(lambda x, s: x * s)
    f(X(), 2)  # an int
    f(X(), 2.0)  # a float


@case(jit("f(X(), 2.0)  # weak"), retrace("f(X(), np.float32(2.0))  # strong"))
def weak_then_strong() -> None:
    f = jax.jit(lambda x, s: x * s)
    f(X(), 2.0)  # weak
    f(X(), np.float32(2.0))  # strong


@case(jit("f(X(), X())  # by position"), retrace("f(X(), y=X())  # by name"))
def by_position_then_by_name() -> None:
    f = jax.jit(lambda x, y: x + y)
    f(X(), X())  # by position
    f(X(), y=X())  # by name


@case(jit('f({"a": X()})  # one key'), retrace('f({"a": X(), "b": X()})  # two keys'))
def a_key_more() -> None:
    f = jax.jit(lambda tree: sum(jax.tree.leaves(tree)))
    f({"a": X()})  # one key
    f({"a": X(), "b": X()})  # two keys


@case(jit('f({"a": X(), "b": X()})  # a, b'))
def order_of_a_dict() -> None:
    f = jax.jit(lambda tree: tree["a"] - tree["b"])
    f({"a": X(), "b": X()})  # a, b
    f({"b": X(), "a": X()})  # b, a


@case(jit("f([X(), X()])  # list"), retrace("f((X(), X()))  # tuple"))
def list_then_tuple() -> None:
    f = jax.jit(lambda pair: pair[0] + pair[1])
    f([X(), X()])  # list
    f((X(), X()))  # tuple


@case(jit("f(X(), n)  # static number"), retrace("f(X(), n)  # static number"))
def static_by_number() -> None:
    f = jax.jit(lambda x, n: x * n, static_argnums=1)
    for n in (2, 2, 3):
        f(X(), n)  # static number


@case(jit('f(X(), mode="plus")  # plus'), retrace('f(X(), mode="minus")  # minus'))
def static_by_name() -> None:
    f = jax.jit(lambda x, mode: -x if mode == "minus" else x, static_argnames="mode")
    f(X(), mode="plus")  # plus
    f(X(), mode="minus")  # minus


@case(jit('g(X(), mode="plus")  # by its name'), retrace('g(X(), "plus")  # by its position'))
def static_by_name_and_by_position() -> None:
    def f(x, mode):
        return -x if mode == "minus" else x

    g = jax.jit(f, static_argnames="mode")
    g(X(), mode="plus")  # by its name
    g(X(), "plus")  # by its position


@case(jit("f(X(), 1)  # 1"), retrace("f(X(), True)  # True"), retrace("f(X(), 1.0)  # 1.0"))
def static_one_and_true() -> None:
    f = jax.jit(lambda x, n: x * n, static_argnums=1)
    f(X(), 1)  # 1
    f(X(), True)  # True
    f(X(), 1.0)  # 1.0


@case(jit("f(X(), (2,))  # a tuple instead"))
def static_unhashable() -> None:
    f = jax.jit(lambda x, sizes: x * sizes[0], static_argnums=1)
    with pytest.raises(ValueError, match=r"[Nn]on-hashable"):
        f(X(), [2])  # a list
    f(X(), (2,))  # a tuple instead


@case(
    jit("f(X(), Config())  # equal to itself only"),
    retrace("f(X(), Config())  # equal to itself only", 2),
)
def static_object_made_anew() -> None:
    class Config:
        scale = 2

    f = jax.jit(lambda x, config: x * config.scale, static_argnums=1)
    for _ in range(3):
        f(X(), Config())  # equal to itself only


@case(jit("model.forward(X())  # a model"), retrace("model.forward(X())  # a model"))
def static_self() -> None:
    class Model:
        def __init__(self, scale):
            self.scale = scale

        @functools.partial(jax.jit, static_argnums=0)
        def forward(self, x):
            return x * self.scale

    for scale in (2, 3):
        model = Model(scale)
        model.forward(X())  # a model
        model.forward(X())  # the same


@case(
    jit("jax.jit(lambda x: x + 1)(X())  # lambda anew"),
    retrace("jax.jit(lambda x: x + 1)(X())  # lambda anew", 2),
)
def lambda_made_anew() -> None:
    for _ in range(3):
        jax.jit(lambda x: x + 1)(X())  # lambda anew


@case(jit("step(rate)(X())  # closure anew"), retrace("step(rate)(X())  # closure anew", 2))
def closure_made_anew() -> None:
    def step(rate):
        @jax.jit
        def update(x):
            return x - rate * x

        return update

    for rate in (0.1, 0.1, 0.2):
        step(rate)(X())  # closure anew


@case(
    jit("jax.jit(functools.partial(lax.add, 2.0))(X())  # partial anew"),
    retrace("jax.jit(functools.partial(lax.add, 2.0))(X())  # partial anew", 2),
)
def partial_made_anew() -> None:
    for _ in range(3):
        jax.jit(functools.partial(lax.add, 2.0))(X())  # partial anew


@case(
    jit("f(X(), lambda x: x + 1)  # static lambda"),
    retrace("f(X(), lambda x: x + 1)  # static lambda"),
)
def static_lambda_made_anew() -> None:
    f = jax.jit(lambda x, act: act(x), static_argnums=1)
    for _ in range(2):
        f(X(), lambda x: x + 1)  # static lambda


@case(jit("f(X())  # x32"), retrace("f(X())  # x64"))
def x64_in_a_context() -> None:
    f = jax.jit(lambda x: x + 1)
    f(X())  # x32
    with x64():
        f(X())  # x64
    f(X())  # x32 again


def x64() -> Any:
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    from jax.experimental import enable_x64

    return enable_x64()


@case(jit("f(X(2, 2))  # default precision"), retrace("f(X(2, 2))  # highest precision"))
def matmul_precision() -> None:
    f = jax.jit(lambda x: x @ x)
    f(X(2, 2))  # default precision
    with jax.default_matmul_precision("float32"):
        f(X(2, 2))  # highest precision


@case(jit("f(X())  # promotion allowed"), retrace("f(X())  # promotion warned of"))
def rank_promotion() -> None:
    f = jax.jit(lambda x: x + 1)
    f(X())  # promotion allowed
    with jax.numpy_rank_promotion("warn"):
        f(X())  # promotion warned of


@case(jit("f(X())  # first device"), jit("f(X())  # second device", host=True))
def default_device() -> None:
    f = jax.jit(lambda x: x + 1)
    f(X())  # first device
    with jax.default_device(jax.devices()[1]):
        f(X())  # second device


@case(
    jit("f(jax.device_put(X(), jax.devices()[0]))  # committed to the first"),
    jit("f(jax.device_put(X(), jax.devices()[1]))  # committed to the second", host=True),
)
def committed_to_another_device() -> None:
    f = jax.jit(lambda x: x + 1)
    f(jax.device_put(X(), jax.devices()[0]))  # committed to the first
    f(jax.device_put(X(), jax.devices()[1]))  # committed to the second


@case(jit("f(X())  # from numpy"), retrace("f(jax.device_put(X(), jax.devices()[0]))  # put there"))
def committed_and_not() -> None:
    f = jax.jit(lambda x: x + 1)
    f(X())  # from numpy
    f(jax.device_put(X()))  # put
    f(jax.device_put(X(), jax.devices()[0]))  # put there


@case(jit("f(X())  # before clearing"), retrace("f(X())  # after clearing"))
def cleared_in_between() -> None:
    f = jax.jit(wave)
    f(X())  # before clearing
    jax.clear_caches()
    f(X())  # after clearing


@case(jit("f(X())  # before clear_cache"), retrace("f(X())  # after clear_cache"))
def cache_of_one_function_cleared() -> None:
    f = jax.jit(wave)
    f(X())  # before clear_cache
    f.clear_cache()
    f(X())  # after clear_cache


# --- grad, vmap and the like --------------------------------------------------------------


@case(jit("f(X())  # value and grad"))
def jit_of_value_and_grad() -> None:
    f = jax.jit(jax.value_and_grad(lambda x: jnp.sum(jnp.sin(x))))
    f(X())  # value and grad
    f(X())  # and again


@case(
    jit("jax.grad(jax.jit(lambda x: (x * x).sum()))(X())  # grad of jit"),
    eager("jax.grad(jax.jit(lambda x: (x * x).sum()))(X())  # grad of jit"),
    backward("jax.grad(jax.jit(lambda x: (x * x).sum()))(X())  # grad of jit"),
)
def grad_of_jit() -> None:
    jax.grad(jax.jit(lambda x: (x * x).sum()))(X())  # grad of jit


@case(eager("jax.grad(lambda x: jnp.sum(jnp.sin(x)))(X())  # eager grad", 5))
def grad_outside_of_jit() -> None:
    jax.grad(lambda x: jnp.sum(jnp.sin(x)))(X())  # eager grad


@case(
    jit("_, pull = jax.vjp(jax.jit(lambda x: jnp.sin(x)), X())  # forward half"),
    backward("pull(X())  # backward half"),
)
def vjp_of_jit() -> None:
    _, pull = jax.vjp(jax.jit(lambda x: jnp.sin(x)), X())  # forward half
    pull(X())  # backward half


@case(jit("jax.vmap(jax.jit(lambda x: x @ x))(X(3, 4))  # vmap of jit"))
def vmap_of_jit() -> None:
    jax.vmap(jax.jit(lambda x: x @ x))(X(3, 4))  # vmap of jit


@case(eager("jax.vmap(lambda x: lax.sin(x))(X(3, 4))  # eager vmap"))
def vmap_outside_of_jit() -> None:
    jax.vmap(lambda x: lax.sin(x))(X(3, 4))  # eager vmap


@case(jit("jax.jit(jax.grad(lambda x: f(x).sum()))(X())  # custom vjp"))
def custom_vjp() -> None:
    @jax.custom_vjp
    def f(x):
        return x * x

    f.defvjp(lambda x: (f(x), x), lambda x, g: (2 * x * g,))
    jax.jit(jax.grad(lambda x: f(x).sum()))(X())  # custom vjp


# --- control flow -------------------------------------------------------------------------


@case(jit("f(X(8))  # scan in jit"))
def scan_in_jit() -> None:
    f = jax.jit(lambda x: lax.scan(lambda c, v: (c + v, c * v), 0.0, x))
    f(X(8))  # scan in jit


@case(eager("lax.scan(lambda c, v: (c + v, c * v), np.float32(0), X(8))  # scan"))
def scan_outside_of_jit() -> None:
    lax.scan(lambda c, v: (c + v, c * v), np.float32(0), X(8))  # scan


@case(eager("lax.scan(lambda c, v: (c + v, v), np.float32(0), X(8))  # body anew", 2))
def scan_body_made_anew() -> None:
    for _ in range(2):
        lax.scan(lambda c, v: (c + v, v), np.float32(0), X(8))  # body anew


@case(jit("f(X(), n)  # any number of rounds"))
def fori_loop_in_jit() -> None:
    f = jax.jit(lambda x, n: lax.fori_loop(0, n, lambda i, v: v * 2, x))
    for n in (2, 3, 4):
        f(X(), n)  # any number of rounds


@case(eager("lax.while_loop(lambda x: x < 10, lambda x: x * 2, np.float32(1))  # while"))
def while_loop_outside_of_jit() -> None:
    lax.while_loop(lambda x: x < 10, lambda x: x * 2, np.float32(1))  # while


@case(jit("f(p, X())  # either branch"))
def cond_in_jit() -> None:
    f = jax.jit(lambda p, x: lax.cond(p, lambda v: v + 1, lambda v: v - 1, x))
    for p in (True, False):
        f(p, X())  # either branch


@case(eager("lax.cond(True, lambda v: v + 1, lambda v: v - 1, X())  # cond", 2))
def cond_outside_of_jit() -> None:
    lax.cond(True, lambda v: v + 1, lambda v: v - 1, X())  # cond


# --- eager --------------------------------------------------------------------------------


@case(eager("jnp.ones(3)  # ones", 2))
def eager_ones() -> None:
    jnp.ones(3)  # ones


@case(eager("jnp.sin(X())  # sin"))
def eager_sin() -> None:
    jnp.sin(X())  # sin


@case(eager("lax.sin(X())  # sin, twice"))
def eager_the_same_twice() -> None:
    for _ in range(2):
        lax.sin(X())  # sin, twice


@case(eager("jax.nn.softmax(X())  # softmax", 5))
def eager_softmax() -> None:
    jax.nn.softmax(X())  # softmax


@case(eager("(x * 2 - x) / (x + 3)  # many", 4))
def eager_line_of_many() -> None:
    x = jax.device_put(X())
    (x * 2 - x) / (x + 3)  # many


@case(eager("jax.device_put(X())[1]  # index", 2))
def eager_index() -> None:
    jax.device_put(X())[1]  # index


@case(eager("jax.device_put(X())[-1]  # from the end", 2, until={(0, 7): 3}))
def eager_index_from_the_end() -> None:
    jax.device_put(X())[-1]  # from the end


@case(eager("jax.device_put(X())[X() > 2]  # by a mask", 6, until={(0, 7): 7}))
def eager_mask() -> None:
    jax.device_put(X())[X() > 2]  # by a mask


@case(
    eager("jax.nn.one_hot(np.array([0, 2]), 3)  # one hot", 2, until={(0, 7): 1}),
    eager("jnp.mean(X())  # mean"),
)
def eager_one_hot_and_mean() -> None:
    jax.nn.one_hot(np.array([0, 2]), 3)  # one hot
    jnp.mean(X())  # mean


@case(
    eager("jnp.linalg.norm(X(3, 3))  # norm"),
    eager('jnp.einsum("ij,jk->ik", X(2, 2), X(2, 2))  # einsum', 2),
)
def eager_linear_algebra() -> None:
    jnp.linalg.norm(X(3, 3))  # norm
    jnp.einsum("ij,jk->ik", X(2, 2), X(2, 2))  # einsum


@case(
    eager("key = jax.random.key(0)  # a key", 2),
    eager("jax.random.bernoulli(key, 0.5, (3,))  # bernoulli", 2),
    eager("jax.random.permutation(key, 4)  # permutation", 2),
    eager("jax.random.uniform(key)  # uniform"),
)
def random_dropout_and_choice() -> None:
    key = jax.random.key(0)  # a key
    jax.random.bernoulli(key, 0.5, (3,))  # bernoulli
    jax.random.permutation(key, 4)  # permutation
    jax.random.uniform(key)  # uniform


@case(
    jit("jax.jit(jax.nn.softmax)(X())  # jit of softmax"),
    jit("jax.jit(jnp.where)(X() > 2, X(), X())  # jit of where"),
)
def jit_of_a_function_of_jax() -> None:
    jax.jit(jax.nn.softmax)(X())  # jit of softmax
    jax.jit(jnp.where)(X() > 2, X(), X())  # jit of where


@case(eager("jax.device_put(X()).at[1].set(3.0)  # set", 6))
def eager_set() -> None:
    jax.device_put(X()).at[1].set(3.0)  # set


@case(eager("for v in jax.device_put(X(3)):  # over"))
def eager_loop_over_an_array() -> None:
    for v in jax.device_put(X(3)):  # over
        assert v.shape == ()


@case(eager("x[i]  # by a number", 2))
def eager_loop_of_indices() -> None:
    x = jax.device_put(X(3))
    for i in range(3):
        x[i]  # by a number


@case(eager("assert jnp.allclose(jax.device_put(X()), X())  # close"))
def eager_comparison() -> None:
    assert jnp.allclose(jax.device_put(X()), X())  # close


@case(
    jit("y = f(X())  # before"),
    eager("y = y.reshape(2, 2)  # between"),
    jit("jax.jit(lambda x: x @ x)(y)  # behind"),
)
def eager_between_two_jits() -> None:
    f = jax.jit(wave)
    y = f(X())  # before
    y = y.reshape(2, 2)  # between
    jax.jit(lambda x: x @ x)(y)  # behind


@case(
    eager("jnp.array([1.0, 2.0])  # array"), eager("jnp.asarray(X())  # asarray", until={(0, 7): 0})
)
def eager_array_from_a_list() -> None:
    jnp.array([1.0, 2.0])  # array
    jnp.asarray(X())  # asarray


@case()
def values_read_back() -> None:
    x = jax.device_put(X())
    np.asarray(x)
    x.tolist()
    str(x)
    jax.device_get(x)


@case()
def device_put_only() -> None:
    jax.device_put({"a": X(), "b": 1.0}, jax.devices()[1])
    jax.device_put(jax.device_put(X()), jax.devices()[2])


@case(eager("jax.random.key(0)  # key", 2))
def random_key() -> None:
    jax.random.key(0)  # key


@case(
    eager("key = jax.random.key(0)  # seed", 2),
    eager("first, _ = jax.random.split(key)  # split", 2),
    eager("jax.random.normal(first, (3,))  # normal"),
)
def random_numbers() -> None:
    key = jax.random.key(0)  # seed
    first, _ = jax.random.split(key)  # split
    jax.random.normal(first, (3,))  # normal


@case(jit("f(seed)  # normal in jit"))
def random_in_jit() -> None:
    f = jax.jit(lambda seed: jax.random.normal(jax.random.key(seed), (3,)))
    for seed in (0, 1):
        f(seed)  # normal in jit


@case(
    eager("f = jax.jit(lambda x: lax.sin(x) + lax.cos(x))", 3),
    jit("f(X())  # jit enabled"),
)
def jit_disabled() -> None:
    f = jax.jit(lambda x: lax.sin(x) + lax.cos(x))
    with jax.disable_jit():
        f(X())
    f(X())  # jit enabled


@case(eager("table = lax.sin(np.float32(2))  # while tracing"), jit("f(X())  # with a table"))
def compile_time_values() -> None:
    @jax.jit
    def f(x):
        with jax.ensure_compile_time_eval():
            table = lax.sin(np.float32(2))  # while tracing
        return x * table

    f(X())  # with a table


# --- only traced --------------------------------------------------------------------------


@case()
def shapes_only() -> None:
    jax.eval_shape(wave, X())
    jax.make_jaxpr(wave)(X())
    jax.jit(wave).lower(X()).as_text()


@case(jit("f(X())  # called in the end"))
def traced_then_called() -> None:
    f = jax.jit(wave)
    f.lower(X())
    jax.eval_shape(f, X())
    f(X())  # called in the end


@case()
def error_while_tracing() -> None:
    @jax.jit
    def f(x):
        raise KeyError("no such layer")

    with pytest.raises(KeyError):
        f(X())


@case(jit("f(X(4), X(4))  # fits"))
def error_then_right() -> None:
    @jax.jit
    def f(x, y):
        return x + y

    with pytest.raises(TypeError):
        f(X(3), X(4))
    f(X(4), X(4))  # fits


@case()
def item_under_jit() -> None:
    f = jax.jit(lambda x: x.sum().item())
    with pytest.raises(jax.errors.ConcretizationTypeError):
        f(X())


@case()
def shape_from_a_value() -> None:
    f = jax.jit(lambda n: jnp.ones(n))
    with pytest.raises(TypeError):
        f(3)


@case(jit("jax.jit(lambda x: kept.append(x) or x)(X())  # leaks"))
def leaked_tracer() -> None:
    kept = []
    jax.jit(lambda x: kept.append(x) or x)(X())  # leaks
    with pytest.raises(jax.errors.UnexpectedTracerError):
        kept[0] + 1


@case(refused=1)
def xla_refuses_it() -> None:
    """XLA begins to compile and cannot: there is no such target."""
    call = jax.ffi.ffi_call("no_such_target", jax.ShapeDtypeStruct((4,), np.float32))
    with pytest.raises(Exception, match="no_such_target"):
        jax.jit(lambda x: call(x))(X())


# --- callbacks ----------------------------------------------------------------------------


@case(jit("jax.jit(lambda x: jax.pure_callback(np.sin, shape, x) + 1)(X())  # pure callback"))
def pure_callback() -> None:
    shape = jax.ShapeDtypeStruct((4,), np.float32)
    jax.jit(lambda x: jax.pure_callback(np.sin, shape, x) + 1)(X())  # pure callback


@case(
    jit("f(X())  # io callback"),
    eager("f = jax.jit(lambda x: io_callback(lambda v: seen.append(v.sum()), None, x))"),
)
def io_callback() -> None:
    from jax.experimental import io_callback

    seen = []
    f = jax.jit(lambda x: io_callback(lambda v: seen.append(v.sum()), None, x))
    f(X())  # io callback
    jax.effects_barrier()
    assert len(seen) == 1


@case(jit("f(X())  # prints"))
def debug_print() -> None:
    @jax.jit
    def f(x):
        jax.debug.print("sum {}", x.sum())
        return x + 1

    f(X())  # prints
    jax.effects_barrier()


@case(
    jit("np.asarray(jax.jit(lambda x: jax.pure_callback(call, shape, x))(X()))  # calls back"),
    jit("return np.asarray(inner(np.asarray(v)))  # in a callback"),
)
def callback_that_compiles() -> None:
    """What a callback compiles belongs to the callback's line."""
    shape = jax.ShapeDtypeStruct((4,), np.float32)
    inner = jax.jit(lambda v: v * 2)

    def call(v):
        return np.asarray(inner(np.asarray(v)))  # in a callback

    np.asarray(jax.jit(lambda x: jax.pure_callback(call, shape, x))(X()))  # calls back


@case(jit("np.asarray(f(X()))  # raises"))
def callback_that_raises() -> None:
    def bad(v):
        raise KeyError("bad value")

    shape = jax.ShapeDtypeStruct((4,), np.float32)
    f = jax.jit(lambda x: jax.pure_callback(bad, shape, x))
    with pytest.raises(Exception, match="bad value"):
        np.asarray(f(X()))  # raises


# --- ahead of time ------------------------------------------------------------------------


@case(aot("compiled = jax.jit(wave).lower(X()).compile()  # aot"))
def ahead_of_time() -> None:
    compiled = jax.jit(wave).lower(X()).compile()  # aot
    compiled(X())
    compiled(X())


@case(aot("f.lower(X()).compile()  # aot, not used"))
def ahead_of_time_and_called() -> None:
    f = jax.jit(wave)
    f.lower(X()).compile()  # aot, not used
    f(X())  # called besides


@case(aot("f.lower(jax.ShapeDtypeStruct((size,), np.float32)).compile()  # aot of a shape", 2))
def ahead_of_time_two_shapes() -> None:
    f = jax.jit(wave)
    for size in (3, 4):
        f.lower(jax.ShapeDtypeStruct((size,), np.float32)).compile()  # aot of a shape


@case(aot("compiled = jax.jit(wave).lower(X(3)).compile()  # aot of three"))
def ahead_of_time_another_shape() -> None:
    compiled = jax.jit(wave).lower(X(3)).compile()  # aot of three
    with pytest.raises(TypeError):
        compiled(X(4))


@case(aot("compiled = jax.jit(wave).lower(X()).compile()  # held"))
def ahead_of_time_held_over_a_clearing() -> None:
    compiled = jax.jit(wave).lower(X()).compile()  # held
    jax.clear_caches()
    compiled(X())


@case(jit("exported.call(X())  # exported"))
def exported_program() -> None:
    exported = export.export(jax.jit(wave))(X())
    exported.call(X())  # exported
    exported.call(X())  # exported, again


if needs("flatbuffers"):

    @case(jit("again.call(X())  # read back"))
    def exported_and_read_back() -> None:
        again = export.deserialize(export.export(jax.jit(wave))(X()).serialize())
        again.call(X())  # read back


@case()
def exported_only() -> None:
    export.export(jax.jit(wave))(X())


@case(aot("jax.jit(wave).lower(X()).compile().cost_analysis()  # for its cost"))
def compiled_for_cost() -> None:
    jax.jit(wave).lower(X()).compile().cost_analysis()  # for its cost


# --- the persistent cache -----------------------------------------------------------------


@contextlib.contextmanager
def persistent_cache():
    from jax.experimental.compilation_cache import compilation_cache

    names = (
        "jax_compilation_cache_dir",
        "jax_persistent_cache_min_compile_time_secs",
        "jax_persistent_cache_min_entry_size_bytes",
    )
    before = {name: getattr(jax.config, name) for name in names}
    with tempfile.TemporaryDirectory() as folder:
        for name, value in zip(names, (folder, 0, -1), strict=True):
            jax.config.update(name, value)
        compilation_cache.reset_cache()
        try:
            yield
        finally:
            for name, value in before.items():
                jax.config.update(name, value)
            compilation_cache.reset_cache()


@case(jit("jax.jit(wave)(X())  # not in the cache"))
def persistent_cache_cold() -> None:
    with persistent_cache():
        jax.jit(wave)(X())  # not in the cache


@case(jit("f(X())  # into the cache"))
def persistent_cache_warm() -> None:
    f = jax.jit(wave)
    with persistent_cache():
        f(X())  # into the cache
        jax.clear_caches()
        f(X())  # from the cache


@case(jit("jax.jit(lambda x: x * 7)(X())  # one program"))
def persistent_cache_of_one_text() -> None:
    """Another function of the same program: what is cached is the program."""
    with persistent_cache():
        for _ in range(3):
            jax.jit(lambda x: x * 7)(X())  # one program


# --- several devices ----------------------------------------------------------------------


@case(
    eager("x = lax.sin(X())  # input on the host", host=True),
    eager("golden = lax.exp(x)  # golden on the host", host=True),
    jit("y = f(jax.device_put(x, device))  # the op on the device"),
    eager("assert lax.sub(y, golden).shape == (4,)  # compared on the host", host=True),
)
def op_test_of_two_devices() -> None:
    """Inputs and the golden result on the host, the op on the device: as tt-xla tests ops."""
    host, device = jax.devices()[1], jax.devices()[0]
    with jax.default_device(host):
        x = lax.sin(X())  # input on the host
        golden = lax.exp(x)  # golden on the host
    f = jax.jit(lambda v: lax.exp(v))
    y = f(jax.device_put(x, device))  # the op on the device
    with jax.default_device(host):
        y = jax.device_put(y, host)
        assert lax.sub(y, golden).shape == (4,)  # compared on the host


@case(jit("jax.jit(wave)(X())  # on the host alone", host=True))
def host_only() -> None:
    with jax.default_device(jax.devices()[1]):
        jax.jit(wave)(X())  # on the host alone


@case(jit("jax.pmap(lambda x: x * 2)(X(4, 3))  # pmap"))
def pmap() -> None:
    jax.pmap(lambda x: x * 2)(X(4, 3))  # pmap


@case(jit("f(X(4, 3))  # psum"), retrace("f(X(4, 5))  # psum, longer"))
def pmap_twice() -> None:
    f = jax.pmap(lambda x: lax.psum(x, "i"), axis_name="i")
    f(X(4, 3))  # psum
    f(X(4, 3))  # psum, again
    f(X(4, 5))  # psum, longer


@case(jit("jax.jit(wave)(x)  # sharded"))
def sharded_argument() -> None:
    x = jax.device_put(X(8), NamedSharding(mesh(), P("x")))
    jax.jit(wave)(x)  # sharded


@case(
    jit('f(jax.device_put(X(8), NamedSharding(mesh(), P("x"))))  # over four'),
    retrace('f(jax.device_put(X(8), NamedSharding(mesh(2), P("x"))))  # over two'),
    retrace("f(jax.device_put(X(8), NamedSharding(mesh(), P())))  # on each"),
)
def sharding_changes() -> None:
    f = jax.jit(wave)
    f(jax.device_put(X(8), NamedSharding(mesh(), P("x"))))  # over four
    f(jax.device_put(X(8), NamedSharding(mesh(2), P("x"))))  # over two
    f(jax.device_put(X(8), NamedSharding(mesh(), P())))  # on each


@case(jit("f(X(8))  # spread"))
def shardings_of_jit() -> None:
    spread = NamedSharding(mesh(), P("x"))
    f = jax.jit(wave, in_shardings=spread, out_shardings=spread)
    f(X(8))  # spread
    f(X(8))  # spread, again


@case(jit("jax.jit(lambda x: lax.with_sharding_constraint(x * 2, spread))(X(8))  # constrained"))
def sharding_constraint() -> None:
    spread = NamedSharding(mesh(), P("x"))
    jax.jit(lambda x: lax.with_sharding_constraint(x * 2, spread))(X(8))  # constrained


@case(
    jit("f(jax.device_put(X(), there))  # here and there"),
    jit("f(jax.device_put(X(), there))  # here and there", host=True),
)
def single_device_sharding() -> None:
    f = jax.jit(wave)
    for number in (0, 1, 0):
        there = SingleDeviceSharding(jax.devices()[number])
        f(jax.device_put(X(), there))  # here and there


def shard_map(f: Any, **options: Any) -> Any:
    if hasattr(jax, "shard_map"):
        return jax.shard_map(f, **options)
    from jax.experimental.shard_map import shard_map

    return shard_map(f, **options)


@case(jit("jax.jit(f)(X(8))  # shard_map in jit"))
def shard_map_in_jit() -> None:
    f = shard_map(lambda x: x * 2, mesh=mesh(), in_specs=P("x"), out_specs=P("x"))
    jax.jit(f)(X(8))  # shard_map in jit


@case(
    eager('f = shard_map(lambda x: lax.sin(x), mesh=mesh(), in_specs=P("x"), out_specs=P("x"))'),
    eager("f(X(8))  # shard_map alone", 2),
)
def shard_map_outside_of_jit() -> None:
    f = shard_map(lambda x: lax.sin(x), mesh=mesh(), in_specs=P("x"), out_specs=P("x"))
    f(X(8))  # shard_map alone


@case(jit("f(X(8))  # without a mesh"), retrace("f(X(8))  # within a mesh"))
def mesh_as_a_context() -> None:
    f = jax.jit(lambda x: x * 2)
    f(X(8))  # without a mesh
    with jax.set_mesh(mesh()):
        f(X(8))  # within a mesh


@case(eager("y = x + 1  # eager and sharded"), eager("y.sum()  # eager sum over devices"))
def all_devices_by_default_sharding() -> None:
    x = jax.device_put(X(8), NamedSharding(mesh(), P("x")))
    y = x + 1  # eager and sharded
    y.sum()  # eager sum over devices
    np.asarray(x)


@case(jit("y = f(X())  # on the first"), jit("f(y)  # on the third", host=True))
def array_moved_and_used() -> None:
    f = jax.jit(lambda x: x + 1)
    y = f(X())  # on the first
    y = jax.device_put(y, jax.devices()[2])
    f(y)  # on the third


@case(
    jit("list(pool.map(lambda size: f(X(size)), (3, 4)))  # in a pool"),
    retrace("list(pool.map(lambda size: f(X(size)), (3, 4)))  # in a pool"),
)
def kept_in_a_pool() -> None:
    from concurrent.futures import ThreadPoolExecutor

    f = jax.jit(lambda x: x * 2)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda size: f(X(size)), (3, 4)))  # in a pool


@case(jit("yield f(X(size))  # in a generator"), retrace("yield f(X(size))  # in a generator"))
def generator_of_steps() -> None:
    f = jax.jit(lambda x: x * 2)

    def steps():
        for size in (3, 4):
            yield f(X(size))  # in a generator

    list(steps())


@case(jit("f(X(size))  # in a coroutine"))
def asynchronous() -> None:
    import asyncio

    f = jax.jit(lambda x: x * 2)

    async def step(size):
        await asyncio.sleep(0)
        f(X(size))  # in a coroutine

    async def main():
        await asyncio.gather(step(3), step(3))

    asyncio.run(main())


@case(jit("jax.jit(g)(X())  # collected"), retrace("jax.jit(g)(X())  # collected", 2))
def deleted_and_collected() -> None:
    """What is not referred to any more is compiled again, since JAX forgets it too."""
    import gc

    def once():
        def g(x):
            return x * 2

        jax.jit(g)(X())  # collected

    for _ in range(3):
        once()
        gc.collect()


@case(jit("f(a, b)  # over a mesh"))
def matmul_over_a_mesh() -> None:
    a = jax.device_put(X(8, 4), NamedSharding(mesh(), P("x", None)))
    b = jax.device_put(X(4, 8), NamedSharding(mesh(), P()))
    f = jax.jit(lambda a, b: a @ b)
    f(a, b)  # over a mesh
    f(a, b)  # over a mesh, again


# --- threads ------------------------------------------------------------------------------


def in_threads(*work: Callable[[], Any]) -> None:
    threads = [threading.Thread(target=one) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@case(
    jit("jax.jit(lambda x: x * 2)(X())  # in each thread"),
    retrace("jax.jit(lambda x: x * 2)(X())  # in each thread", 5),
)
def six_threads() -> None:
    def work():
        jax.jit(lambda x: x * 2)(X())  # in each thread

    in_threads(*[work] * 6)


@case(jit("f(X(size))  # a shape for each"), retrace("f(X(size))  # a shape for each", 5))
def six_threads_of_six_shapes() -> None:
    f = jax.jit(lambda x: x.sum())

    def work(size):
        f(X(size))  # a shape for each

    in_threads(*(functools.partial(work, size) for size in range(1, 7)))


@case(jit("f(X())  # x32 in main"), retrace("f(X())  # x64 in a thread"))
def context_of_a_thread() -> None:
    f = jax.jit(lambda x: x + 1)

    def work():
        with x64():
            f(X())  # x64 in a thread

    f(X())  # x32 in main
    in_threads(work)


# --- settings of the user -----------------------------------------------------------------


@case(jit("jax.jit(wave)(X())  # logged"))
def user_logs_compiles() -> None:
    with jax.log_compiles(True):
        jax.jit(wave)(X())  # logged


@case(jit("f(X(3))  # explained"), retrace("f(X(4))  # explained, longer"))
def user_explains_misses() -> None:
    f = jax.jit(wave)
    with jax.explain_cache_misses(True):
        f(X(3))  # explained
        f(X(4))  # explained, longer


@case(jit("f(-X())  # nan"), eager("f = jax.jit(lambda x: lax.log(x))"))
def nan_found() -> None:
    """On a NaN JAX runs the function again without jit to find the operation."""
    f = jax.jit(lambda x: lax.log(x))
    with jax.debug_nans(True), pytest.raises(FloatingPointError):
        f(-X())  # nan


@case(jit("error, _ = jax.jit(checkify.checkify(f))(X())  # checkify"))
def checked() -> None:
    from jax.experimental import checkify

    def f(x):
        checkify.check(jnp.all(x > 0), "not positive")
        return jnp.log(x)

    error, _ = jax.jit(checkify.checkify(f))(X())  # checkify
    error.throw()


@case(jit("f(X(), 3)  # three deep"))
def recursion_of_jits() -> None:
    @functools.partial(jax.jit, static_argnums=1)
    def f(x, depth):
        return x if depth == 0 else f(x * 2, depth - 1)

    f(X(), 3)  # three deep


# --- libraries ----------------------------------------------------------------------------

if needs("equinox"):
    import equinox as eqx

    @case(
        jit('f(X(), "double")  # filter_jit'),
        retrace('f(X(), "single")  # filter_jit, another string'),
    )
    def equinox_filter_jit() -> None:
        @eqx.filter_jit
        def f(x, mode):
            return x * 2 if mode == "double" else x

        f(X(), "double")  # filter_jit
        f(X(), "double")  # filter_jit, again
        f(X(), "single")  # filter_jit, another string

    @case(jit("f(Scale(X(), 2), X())  # model"), retrace("f(Scale(X(), 3), X())  # another power"))
    def equinox_module() -> None:
        class Scale(eqx.Module):
            weight: Any
            power: int = eqx.field(static=True)

            def __call__(self, x):
                return (x * self.weight) ** self.power

        f = eqx.filter_jit(lambda model, x: model(x))
        f(Scale(X(), 2), X())  # model
        f(Scale(X() + 1, 2), X())  # other weights
        f(Scale(X(), 3), X())  # another power


if needs("flax"):
    from flax import linen, nnx

    @case(jit("f(params, X(2, 4))  # apply"), retrace("f(params, X(5, 4))  # apply, another batch"))
    def linen_apply() -> None:
        model = linen.Dense(3)
        params = {"params": {"kernel": X(4, 3), "bias": X(3)}}
        f = jax.jit(model.apply)
        f(params, X(2, 4))  # apply
        f(params, X(2, 4))  # apply, again
        f(params, X(5, 4))  # apply, another batch

    @case(jit("f(model, X())  # nnx"), retrace("f(model, X(2, 4))  # nnx, another batch"))
    def nnx_jit() -> None:
        class Scale(nnx.Module):
            def __init__(self):
                self.weight = nnx.Param(jax.device_put(X()))

            def __call__(self, x):
                return x * self.weight[...]

        model = Scale()
        f = nnx.jit(lambda model, x: model(x))
        f(model, X())  # nnx
        f(model, X())  # nnx, again
        f(model, X(2, 4))  # nnx, another batch


if needs("optax"):
    import optax

    @case(
        jit("state = jax.jit(optimizer.init)(params)  # state"),
        jit("params, state, _ = step(params, state, X())  # step"),
    )
    def optax_step() -> None:
        """A training step: the second call has what the first made, and compiles nothing."""
        optimizer = optax.adam(0.1)

        @jax.jit
        def step(params, state, x):
            loss, grads = jax.value_and_grad(lambda p: ((p["w"] * x) ** 2).sum())(params)
            updates, state = optimizer.update(grads, state, params)
            return optax.apply_updates(params, updates), state, loss

        params = {"w": X()}
        state = jax.jit(optimizer.init)(params)  # state
        for _ in range(3):
            params, state, _ = step(params, state, X())  # step

    @case(
        eager("updates, _ = optimizer.update(params, optimizer.init(params))  # eager update"),
        eager("optax.apply_updates(params, updates)  # eager apply"),
    )
    def optax_outside_of_jit() -> None:
        optimizer = optax.sgd(0.5)
        params = {"w": jax.device_put(X())}
        updates, _ = optimizer.update(params, optimizer.init(params))  # eager update
        optax.apply_updates(params, updates)  # eager apply
