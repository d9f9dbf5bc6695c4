"""Adversarial functions for the dynamo layer, each with its true counts.

A case gets ``compile``, which is ``torch.compile`` with a backend, and compiles
and calls something. What is expected was found without the observer: graphs
by a backend that counts its calls and by Dynamo's own counter, breaks,
recompiles and skipped functions by Dynamo's own debug log, in a process for
each case (``cases/dynamo_oracle.py``), on torch 2.9, 2.11, 2.13, 2.15.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import math
import random
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn

Compile = Callable[..., Any]
log = logging.getLogger("cases")


class Expect(NamedTuple):
    """What a case makes: ``events`` are breaks, ``places`` where they are, ``eager`` places."""

    graphs: int
    events: int = 0
    places: int = 0
    recompiles: int = 0
    eager: int = 0


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    run: Callable[[Compile], Any]
    expect: Expect
    until: dict[tuple[int, int], Expect]
    pythons: dict[tuple[int, int], Expect]
    since: tuple[int, int]
    forks: bool

    def expected(self, version: str) -> Expect:
        """The row for this Python, if it has one of its own, else for this torch.

        For a torch that is the row of the first ``until`` that is not older,
        else the newest.
        """
        if sys.version_info[:2] in self.pythons:
            return self.pythons[sys.version_info[:2]]
        major, minor = (int(part) for part in version.split(".")[:2])
        for last in sorted(self.until):
            if (major, minor) <= last:
                return self.until[last]
        return self.expect


CASES: dict[str, Case] = {}


def case(
    graphs: int,
    events: int = 0,
    places: int = 0,
    recompiles: int = 0,
    eager: int = 0,
    *,
    until: dict[tuple[int, int], tuple[int, ...]] | None = None,
    pythons: dict[tuple[int, int], tuple[int, ...]] | None = None,
    since: tuple[int, int] = (2, 9),
    forks: bool = True,
) -> Callable[[Callable[[Compile], Any]], Callable[[Compile], Any]]:
    """Register a case; ``until`` has the rows of older torch, up to a version.

    ``pythons`` has those of a Python whose bytecode makes a difference; ``since``
    is the first torch that has what the case uses; with ``forks=False`` the case
    cannot run in a forked process.
    """

    def register(run: Callable[[Compile], Any]) -> Callable[[Compile], Any]:
        name = run.__name__
        assert name not in CASES, name
        rows = {version: Expect(*row) for version, row in (until or {}).items()}
        own = {version: Expect(*row) for version, row in (pythons or {}).items()}
        expect = Expect(graphs, events, places, recompiles, eager)
        CASES[name] = Case(name, run, expect, rows, own, since, forks)
        return run

    return register


def X(*shape: int) -> torch.Tensor:
    return torch.arange(1.0, 1 + math.prod(shape or (4,))).reshape(shape or (4,))


# Nothing breaks.


@case(1)
def clean(compile: Compile) -> None:
    def f(x):
        return torch.sin(x) + 1

    compile(f)(X())


@case(1)
def clean_module(compile: Compile) -> None:
    compile(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))(X())


@case(1)
def assert_on_tensor(compile: Compile) -> None:
    def f(x):
        assert x.sum() > 0
        return x + 1

    compile(f)(X())


@case(0)
def no_tensor_op(compile: Compile) -> None:
    def f(x):
        return x

    compile(f)(X())


@case(1)
def generator_clean(compile: Compile) -> None:
    def rows(x):
        for i in range(3):
            yield x[i] * 2

    def f(x):
        total = x.sum()
        for row in rows(x):
            total = total + row
        return total

    compile(f)(X())


@case(1)
def autograd_function(compile: Compile) -> None:
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2 * x * grad

    def f(x):
        return Square.apply(x).sum()

    compile(f)(X().requires_grad_()).backward()


@case(1)
def checkpointing(compile: Compile) -> None:
    from torch.utils.checkpoint import checkpoint

    layer = nn.Linear(4, 4)

    def f(x):
        return checkpoint(layer, x, use_reentrant=False).sum()

    compile(f)(X().requires_grad_()).backward()


@case(1)
def forward_hook_clean(compile: Compile) -> None:
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 4)
            self.a.register_forward_hook(lambda module, args, out: out * 2)

        def forward(self, x):
            return self.a(x) + 1

    compile(Model())(X())


@case(1)
def nested_compile_clean(compile: Compile) -> None:
    def g(x):
        return torch.cos(x)

    inner = compile(g)

    def f(x):
        return inner(x) + 1

    compile(f)(X())


@case(1)
def dynamic_true(compile: Compile) -> None:
    def f(x):
        return x * x.shape[0]

    f = compile(f, dynamic=True)
    for size in (3, 5, 7):
        f(X(size))


@case(1)
def mark_dynamic(compile: Compile) -> None:
    def f(x):
        return (x * 2).sum(0)

    f = compile(f)
    for size in (3, 5, 7):
        x = X(size, 2)
        torch._dynamo.mark_dynamic(x, 0)
        f(x)


@case(1)
def vmap_inside(compile: Compile) -> None:
    def f(x):
        return torch.vmap(lambda row: row.sin().sum())(x)

    compile(f)(X(2, 4))


@case(1)
def cond_inside(compile: Compile) -> None:
    def f(x):
        return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,))

    compile(f)(X())


@case(1)
def module_attribute_counter(compile: Compile) -> None:
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x):
            self.seen += 1
            return x * self.seen

    model = compile(Model())
    model(X())
    model(X())


# One break.


@case(2, 1, 1)
def print_call(compile: Compile) -> None:
    def f(x):
        y = torch.sin(x)
        print("", end="")
        return y + 1

    compile(f)(X())


@case(2, 1, 1)
def data_dependent_if(compile: Compile) -> None:
    def f(x):
        y = torch.sin(x)
        if y.sum() > 0:
            y = y + 1
        return y * 2

    compile(f)(X())


@case(2, 1, 1)
def item_call(compile: Compile) -> None:
    def f(x):
        y = torch.sin(x)
        n = y.sum().item()
        return y * n

    compile(f)(X())


@case(2, 1, 1)
def explicit_break(compile: Compile) -> None:
    def f(x):
        y = torch.sin(x)
        torch._dynamo.graph_break()
        return y + 1

    compile(f)(X())


@torch._dynamo.disable
def disabled(x):
    return x + 1


@case(2, 1, 1)
def disabled_function(compile: Compile) -> None:
    def f(x):
        return disabled(torch.sin(x)) * 2

    compile(f)(X())


@case(2, 1, 1)
def c_function(compile: Compile) -> None:
    def f(x):
        y = torch.sin(x)
        n = zlib.crc32(b"abc") % 7
        return y * n

    compile(f)(X())


@case(2, 1, 1)
def mask_index(compile: Compile) -> None:
    def f(x):
        y = x * 2
        return y[y > 2].sum() + 1

    compile(f)(X())


@case(2, 1, 1)
def tolist_call(compile: Compile) -> None:
    def f(x):
        y = torch.sin(x)
        values = y.tolist()
        return y * len(values)

    compile(f)(X())


@case(2, 1, 1)
def logging_call(compile: Compile) -> None:
    def f(x):
        y = torch.sin(x)
        log.debug("seen %s", y.shape)
        return y + 1

    compile(f)(X())


@case(2, 1, 1)
def warnings_call(compile: Compile) -> None:
    def f(x):
        y = torch.sin(x)
        warnings.warn("careful", stacklevel=2)
        return y + 1

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compile(f)(X())


@case(1, 1, 1)
def break_first(compile: Compile) -> None:
    def f(x):
        print("", end="")
        return torch.sin(x) + 1

    compile(f)(X())


@case(1, 1, 1)
def break_last(compile: Compile) -> None:
    def f(x):
        y = torch.sin(x) + 1
        print("", end="")
        return y

    compile(f)(X())


@case(2, 1, 1)
def break_called_three_times(compile: Compile) -> None:
    def f(x):
        y = torch.sin(x)
        print("", end="")
        return y + 1

    f = compile(f)
    for _ in range(3):
        f(X())


@case(3, 2, 2)
def two_breaks(compile: Compile) -> None:
    def f(x):
        x = torch.sin(x)
        print("", end="")
        x = torch.cos(x)
        torch._dynamo.graph_break()
        return x + 1

    compile(f)(X())


@case(3, 2, 1)  # two lines, one place: the text is the same
def two_equal_lines(compile: Compile) -> None:
    def f(x):
        x = torch.sin(x)
        torch._dynamo.graph_break()
        x = torch.cos(x)
        torch._dynamo.graph_break()
        return x + 1

    compile(f)(X())


@case(2, 1, 1)
def break_in_method(compile: Compile) -> None:
    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            x = self.layer(x)
            if x.max().item() > 100:
                x = x * 2
            return x + 1

    compile(Head())(X())


def _leaf(x):
    x = torch.sin(x)
    print("", end="")
    return x + 1


def _mid(x):
    return _leaf(x * 2) * 2


def _top(x):
    return _mid(x + 1) + 1


@case(8, 4, 1)
def nested_three_deep(compile: Compile) -> None:
    def f(x):
        return _top(x + 3) * 3

    compile(f)(X())


@case(4, 2, 1)
def break_in_submodule(compile: Compile) -> None:
    class Leaf(nn.Module):
        def forward(self, x):
            x = torch.sin(x)
            print("", end="")
            return x + 1

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.leaf = Leaf()

        def forward(self, x):
            return self.leaf(x * 2) + 1

    compile(Model())(X())


@case(2, 2, 2, recompiles=1)
def break_in_two_branches(compile: Compile) -> None:
    def f(x, flag):
        x = torch.sin(x)
        if flag:
            print("", end="")
        else:
            torch._dynamo.graph_break()
        return x

    f = compile(f)
    f(X(), True)
    f(X(), False)


@case(2, 2, 1)
def break_in_lambda(compile: Compile) -> None:
    shout = lambda y: (y, print("", end=""))[0]  # noqa: E731

    def f(x):
        return shout(torch.sin(x)) + 1

    compile(f)(X())


@case(3, 2, 1)
def break_in_closure(compile: Compile) -> None:
    def outer(x):
        total = torch.sin(x)

        def inner(y):
            print("", end="")
            return y + total

        return inner(x) * 2

    compile(outer)(X())


@case(4, 2, 1, until={(2, 12): (3, 2, 1)})
def break_in_hook(compile: Compile) -> None:
    def hook(module, args, out):
        print("", end="")
        return out * 2

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 4)
            self.a.register_forward_hook(hook)

        def forward(self, x):
            return self.a(x * 2) + 1

    compile(Model())(X())


@case(2, 1, 1)
def break_in_backward_hook(compile: Compile) -> None:
    def f(x):
        y = torch.sin(x)
        y.register_hook(lambda grad: (grad, print("", end=""))[0])
        return y.sum()

    compile(f)(X().requires_grad_()).backward()


@case(0, 2, 1, eager=1)
def break_in_property(compile: Compile) -> None:
    class Model(nn.Module):
        @property
        def scale(self):
            print("", end="")
            return 2

        def forward(self, x):
            x = torch.sin(x)
            return x * self.scale

    compile(Model())(X())


@case(2, 1, 1)
def break_under_no_grad(compile: Compile) -> None:
    def f(x):
        with torch.no_grad():
            x = torch.sin(x)
            print("", end="")
            x = x + 1
        return x * 2

    compile(f)(X())


@case(2, 2, 1)  # one of the two is inside torch, called from the same line
def system_random(compile: Compile) -> None:
    def f(x):
        y = torch.sin(x)
        n = random.SystemRandom().randint(1, 1)
        return y * n

    compile(f)(X())


# A break from which the function cannot go on: it runs eagerly.


@case(0, 1, 1, eager=1)
def print_in_try(compile: Compile) -> None:
    def f(x):
        try:
            print("", end="")
            y = torch.sin(x)
        except ValueError:
            y = x
        return y

    compile(f)(X())


@case(1, 1, 1)
def print_in_try_after_prefix(compile: Compile) -> None:
    def f(x):
        x = torch.sin(x)
        x = torch.cos(x)
        x = x + 1
        try:
            print("", end="")
            y = torch.sin(x)
        except ValueError:
            y = x
        return y

    compile(f)(X())


@case(0, 1, 1, eager=1)
def print_in_loop(compile: Compile) -> None:
    def f(x):
        for _ in range(5):
            x = torch.sin(x)
            print("", end="")
        return x

    compile(f)(X())


@case(
    2,
    2,
    1,
    pythons={(3, 12): (1, 2, 1, 0, 1), (3, 13): (1, 2, 1, 0, 1), (3, 14): (0, 1, 1, 0, 1)},
)
def data_dependent_loop(compile: Compile) -> None:
    def f(x):
        while x.sum() < 100:
            x = x * 2
        return x

    compile(f)(X())


@case(0, 1, 1, eager=1)
def break_in_generator(compile: Compile) -> None:
    def rows(x):
        for i in range(3):
            print("", end="")
            yield x[i] * 2

    def f(x):
        total = x.sum()
        for row in rows(x):
            total = total + row
        return total

    compile(f)(X())


@case(0, 0, 0, eager=1, pythons={(3, 10): (0, 0, 0, 0, 0)})
def compiled_generator(compile: Compile) -> None:
    def rows(x):
        for i in range(3):
            yield x[i] * 2

    list(compile(rows)(X()))


@case(0, 1, 1, eager=1)
def break_in_user_context(compile: Compile) -> None:
    @contextlib.contextmanager
    def noisy() -> Iterator[None]:
        log.debug("in")
        yield
        log.debug("out")

    def f(x):
        with noisy():
            x = torch.sin(x)
        return x + 1

    compile(f)(X())


@case(0, 1, 1, eager=1)
def user_raise(compile: Compile) -> None:
    def f(x):
        x = torch.sin(x)
        raise ValueError("from the model")

    with contextlib.suppress(ValueError):
        compile(f)(X())


@case(2, 1, 1, until={(2, 9): (0, 1, 1, 0, 1)})
def class_in_function(compile: Compile) -> None:
    def f(x):
        x = torch.sin(x)

        class Local:
            scale = 2

        return x * Local.scale

    compile(f)(X())


@case(2, 2, 1, eager=1)
def callee_with_loop(compile: Compile) -> None:
    def noisy(x):
        for _ in range(3):
            x = torch.sin(x)
            print("", end="")
        return x

    def f(x):
        return noisy(x * 2) + 1

    compile(f)(X())


@case(0, 1, 1, eager=1, until={(2, 10): (0, 0, 0, 0, 1)})
def skip_frame(compile: Compile) -> None:
    def f(x):
        torch._dynamo.skip_frame()
        return torch.sin(x)

    compile(f)(X())


# Recompiles.


@case(3, recompiles=2)
def three_dtypes(compile: Compile) -> None:
    def f(x):
        return x * 2

    f = compile(f)
    for dtype in (torch.float32, torch.float64, torch.int32):
        f(X().to(dtype))


@case(2, recompiles=1)
def four_sizes(compile: Compile) -> None:
    def f(x):
        return x * 2

    f = compile(f)
    for size in (4, 5, 6, 7):
        f(X(size))


@case(4, recompiles=3)
def four_sizes_static(compile: Compile) -> None:
    def f(x):
        return x * 2

    f = compile(f, dynamic=False)
    for size in (4, 5, 6, 7):
        f(X(size))


@case(2, recompiles=1)
def grad_mode(compile: Compile) -> None:
    def f(x):
        return x * 2

    f = compile(f)
    f(X())
    with torch.no_grad():
        f(X())


@case(2, recompiles=1)
def training_flag(compile: Compile) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    compiled = compile(model)
    compiled(X())
    model.eval()
    compiled(X())


@case(3, recompiles=2)
def python_value(compile: Compile) -> None:
    def f(x, mode):
        return x * 2 if mode == "a" else x * 3

    f = compile(f)
    for mode in ("a", "b", "c"):
        f(X(), mode)


@case(2, recompiles=1)
def list_length(compile: Compile) -> None:
    def f(xs):
        return sum(xs)

    f = compile(f)
    f([X(), X()])
    f([X(), X(), X()])


@case(3, recompiles=2)
def module_counter(compile: Compile) -> None:
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = "x"

        def forward(self, x):
            self.calls += "x"
            return x * len(self.calls)

    model = compile(Model())
    for _ in range(3):
        model(X())


@case(2, recompiles=1)
def stride_change(compile: Compile) -> None:
    def f(x):
        return x * 2

    f = compile(f, dynamic=False)
    f(X(4, 3))
    f(X(3, 4).t())


@case(4, 2, 1, recompiles=2)
def break_and_recompile(compile: Compile) -> None:
    def f(x):
        y = torch.sin(x)
        print("", end="")
        return y + 1

    f = compile(f)
    f(X())
    f(X().double())


GLOBAL_SCALE = 2


@case(2, recompiles=1)
def global_change(compile: Compile) -> None:
    global GLOBAL_SCALE

    def f(x):
        return x * GLOBAL_SCALE

    f = compile(f)
    try:
        GLOBAL_SCALE = 2
        f(X())
        GLOBAL_SCALE = "yes" and 7.25
        f(X())
    finally:
        GLOBAL_SCALE = 2


@case(8, recompiles=7, eager=1)
def recompile_limit(compile: Compile) -> None:
    def f(x, name):
        return x * len(name)

    f = compile(f)
    for n in range(12):
        f(X(), "n" * n)


@case(1, until={(2, 13): (2, 1, 1, 1)})
def random_number(compile: Compile) -> None:
    def f(x):
        return x * random.random()

    f = compile(f)
    f(X())
    f(X())


@case(2, recompiles=1)
def two_instances(compile: Compile) -> None:
    class Model(nn.Module):
        def __init__(self, scale):
            super().__init__()
            self.scale = scale

        def forward(self, x):
            return x * len(self.scale)

    compile(Model("a"))(X())
    compile(Model("ab"))(X())


@case(2)
def two_functions(compile: Compile) -> None:
    def f(x):
        return x + 1

    def g(x):
        return x + 2

    compile(f)(X())
    compile(g)(X())


# Errors and what the test itself does.


@case(0)
def fullgraph_error(compile: Compile) -> None:
    def f(x):
        y = torch.sin(x)
        print("", end="")
        return y + 1

    with contextlib.suppress(Exception):
        compile(f, fullgraph=True)(X())


@case(0, eager=1)  # it is stopped: what Dynamo's log calls no skip, and the observer a loss
def strict_export_breaks(compile: Compile) -> None:
    class Model(nn.Module):
        def forward(self, x):
            y = torch.sin(x)
            if y.sum() > 0:
                y = y + 1
            return y

    with contextlib.suppress(Exception):
        torch.export.export(Model(), (X(),), strict=True)


@case(1)
def strict_export_clean(compile: Compile) -> None:
    class Model(nn.Module):
        def forward(self, x):
            return torch.sin(x) + 1

    torch.export.export(Model(), (X(),), strict=True)


@case(2, 1, 1)
def explain_call(compile: Compile) -> None:
    def f(x):
        y = torch.sin(x)
        print("", end="")
        return y + 1

    torch._dynamo.explain(f)(X())


def _fails(gm, inputs):
    raise RuntimeError("the backend cannot do this")


@case(0)
def backend_error(compile: Compile) -> None:
    def f(x):
        return torch.sin(x)

    with contextlib.suppress(Exception):
        torch.compile(f, backend=_fails)(X())


@case(0, eager=1)
def backend_error_suppressed(compile: Compile) -> None:
    def f(x):
        return torch.sin(x)

    with torch._dynamo.config.patch(suppress_errors=True):
        torch.compile(f, backend=_fails)(X())


@case(0)
def force_eager(compile: Compile) -> None:
    def f(x):
        return torch.sin(x)

    with torch.compiler.set_stance("force_eager"):
        compile(f)(X())


@case(2)
def reset_in_the_middle(compile: Compile) -> None:
    def f(x):
        return torch.sin(x)

    compile(f)(X())
    torch._dynamo.reset()
    compile(f)(X())


@case(2)
def counters_cleared(compile: Compile) -> None:
    def f(x):
        return torch.sin(x)

    def g(x):
        return torch.cos(x)

    compile(f)(X())
    torch._dynamo.utils.counters.clear()
    compile(g)(X())


@case(1)
def error_in_model(compile: Compile) -> None:
    def f(x):
        return x @ torch.ones(7, 7)

    def g(x):
        return x + 1

    with contextlib.suppress(Exception):
        compile(f)(X())
    compile(g)(X())


@case(0)
def disabled_by_config_inside(compile: Compile) -> None:
    def f(x):
        y = torch.sin(x)
        print("", end="")
        return y + 1

    compiled = compile(f)
    with torch._dynamo.config.patch(disable=True):
        compiled(X())
    compiled(X())


@case(1, 1, 1)
def optimizer_step(compile: Compile) -> None:
    model = nn.Linear(4, 1)
    model(X()).sum().backward()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    compile(optimizer.step)()


@case(2)
def compiled_autograd(compile: Compile) -> None:
    def f(x):
        return torch.sin(x).sum()

    x = X().requires_grad_()
    enable = getattr(torch._dynamo.compiled_autograd, "_enable", None)
    enable = enable or torch._dynamo.compiled_autograd.enable
    with enable(compile):
        compile(f)(x).backward()


@case(3, 3, 1)
def compiled_autograd_with_hook(compile: Compile) -> None:
    def f(x):
        y = torch.sin(x)
        y.register_hook(lambda grad: (grad * 2, print("", end=""))[0])
        return y.sum()

    x = X().requires_grad_()
    enable = getattr(torch._dynamo.compiled_autograd, "_enable", None)
    enable = enable or torch._dynamo.compiled_autograd.enable
    with enable(lambda gm: compile(gm)):
        f(x).backward()


@case(2, forks=False)  # torch 2.11 crashes when a forked process compiles in threads
def two_threads(compile: Compile) -> None:
    import threading

    def f(x):
        return torch.sin(x)

    def g(x):
        return torch.cos(x)

    threads = [threading.Thread(target=lambda h=h: compile(h)(X())) for h in (f, g)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@case(4, 2, 1)
def nested_compile_breaks(compile: Compile) -> None:
    def g(x):
        y = torch.cos(x)
        print("", end="")
        return y * 2

    inner = compile(g)

    def f(x):
        return inner(x + 1) + 1

    compile(f)(X())


@case(2, recompiles=1)
def recursion_levels(compile: Compile) -> None:
    def f(x, depth):
        return x if depth == 0 else f(torch.sin(x), depth - 1)

    f2 = compile(f)
    f2(X(), 2)
    f2(X(), 3)


@case(2, 1, 1)
def break_after_inplace(compile: Compile) -> None:
    def f(x):
        x.add_(1)
        print("", end="")
        x.mul_(2)
        return x + 1

    compile(f)(X())


@case(1, 1, 1)
def break_in_comprehension(compile: Compile) -> None:
    def f(xs):
        return sum([zlib.crc32(b"a") * x for x in xs])

    compile(f)([X(), X()])


@case(3, 2, 1)
def break_in_autograd_function(compile: Compile) -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            print("", end="")
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    def f(x):
        return Double.apply(torch.sin(x)) + 1

    compile(f)(X().requires_grad_())


@case(2, 1, 1)
def break_in_checkpoint(compile: Compile) -> None:
    from torch.utils.checkpoint import checkpoint

    def block(x):
        print("", end="")
        return torch.sin(x)

    def f(x):
        return checkpoint(block, x * 2, use_reentrant=False) + 1

    compile(f)(X().requires_grad_())


@case(0)
def break_in_cond(compile: Compile) -> None:
    def f(x):
        def positive(y):
            print("", end="")
            return y + 1

        return torch.cond(x.sum() > 0, positive, lambda y: y - 1, (x,))

    with contextlib.suppress(Exception):
        compile(f)(X())


@case(2, 1, 1)
def break_under_autocast(compile: Compile) -> None:
    def f(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x
            print("", end="")
            y = y @ y
        return y + 1

    compile(f)(X(2, 2))


@case(1, 2, 1, eager=1)
def loop_over_a_callee_that_breaks(compile: Compile) -> None:
    def g(x):
        torch._dynamo.graph_break()
        return torch.cos(x)

    def f(x):
        for _ in range(3):
            x = g(x)
        return x

    compile(f)(X())


@case(3, 1, 1)
def disabled_function_calls_compiled(compile: Compile) -> None:
    inner = compile(lambda x: x * 3)

    @torch._dynamo.disable
    def g(x):
        return inner(x) + 1

    def f(x):
        return g(torch.sin(x)) * 2

    compile(f)(X())


@case(3, 1, 1)
def disabled_but_not_what_it_calls(compile: Compile) -> None:
    def h(x):
        return torch.cos(x)

    @functools.partial(torch._dynamo.disable, recursive=False)
    def g(x):
        return h(x) + 1

    def f(x):
        return g(torch.sin(x)) * 2

    compile(f)(X())


@case(1)
def error_on_recompile(compile: Compile) -> None:
    def f(x):
        return x * 2

    f = compile(f)
    f(X())
    with contextlib.suppress(Exception), torch._dynamo.config.patch(error_on_recompile=True):
        f(X().double())


@case(1)
def eager_on_recompile(compile: Compile) -> None:
    def f(x):
        return x * 2

    f = compile(f)
    f(X())
    with torch.compiler.set_stance("eager_on_recompile"):
        f(X().double())


@case(8, recompiles=7)
def recompile_limit_under_fullgraph(compile: Compile) -> None:
    def f(x, name):
        return x * len(name)

    f = compile(f, fullgraph=True)
    with contextlib.suppress(Exception):
        for n in range(12):
            f(X(), "n" * n)


@case(1)
def captured_scalar(compile: Compile) -> None:
    def f(x):
        return x * x.sum().item()

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compile(f)(X())


@case(4, recompiles=3)
def sizes_zero_and_one(compile: Compile) -> None:
    def f(x):
        return x * 2

    f = compile(f)
    for size in (4, 1, 0, 5, 6):
        f(torch.ones(size))


@case(2, recompiles=1)
def same_tensor_twice(compile: Compile) -> None:
    def f(x, y):
        return (x + y) * 2

    f = compile(f)
    x = X()
    f(x, X())
    f(x, x)


@case(2, 2, 1)
def break_in_super_forward(compile: Compile) -> None:
    class Base(nn.Module):
        def forward(self, x):
            x = torch.sin(x)
            torch._dynamo.graph_break()
            return x

    class Child(Base):
        def forward(self, x):
            return super().forward(x) + 1

    compile(Child())(X())


# --- calls of the backend that do not come from the tracing of a frame ---------------------


class Wide(nn.Module):
    """Four parameters of more than a megabyte, the smallest bucket that DDP makes."""

    def __init__(self, broken: bool = False) -> None:
        super().__init__()
        self.broken = broken
        self.layers = nn.ModuleList(nn.Linear(520, 520) for _ in range(4))

    def forward(self, x):
        for number, layer in enumerate(self.layers):
            x = layer(x).relu()
            if self.broken and number == 1:
                break
        if self.broken:
            torch._dynamo.graph_break()
            x = self.layers[3](self.layers[2](x))
        return x


@contextlib.contextmanager
def distributed(module: nn.Module, megabytes: int = 1) -> Iterator[Any]:
    """The module under DDP, in a group of this process alone.

    The group sets a ``sys.excepthook`` that begins each line with ``[rank0]``, and leaves it there
    (torch/distributed/distributed_c10d.py): it is put back.
    """
    from torch import distributed
    from torch.nn.parallel import DistributedDataParallel

    hook = sys.excepthook
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        yield DistributedDataParallel(module, bucket_cap_mb=megabytes)
    finally:
        distributed.destroy_process_group()
        sys.excepthook = hook


def compiled_inside(module: nn.Module, compile: Compile) -> nn.Module:
    """The module, its forward compiled: what DDP itself does is left alone."""
    module.forward = compile(module.forward)
    return module


@case(4)
def ddp_buckets(compile: Compile) -> None:
    with distributed(compiled_inside(Wide(), compile)) as model:
        for _ in range(2):
            model(torch.ones(2, 520)).sum().backward()


# Three breaks in two places of torch: for the user one, the call.
@case(4, 3, 1)
def ddp_compiled_around(compile: Compile) -> None:
    with distributed(Wide()) as model:
        compile(model)(torch.ones(2, 520)).sum().backward()


@case(2)
def ddp_two_buckets_the_first_is_small(compile: Compile) -> None:
    with distributed(compiled_inside(Wide(), compile), megabytes=25) as model:
        model(torch.ones(2, 520))


@case(1)
def ddp_one_bucket(compile: Compile) -> None:
    with distributed(compiled_inside(nn.Linear(4, 4), compile)) as model:
        model(X())


@case(4, 1, 1)
def ddp_buckets_and_a_break(compile: Compile) -> None:
    with distributed(compiled_inside(Wide(broken=True), compile)) as model:
        model(torch.ones(2, 520))


@case(8, recompiles=1)
def ddp_buckets_recompiled(compile: Compile) -> None:
    with distributed(compiled_inside(Wide(), compile)) as model:
        model(torch.ones(2, 520))
        model(torch.ones(3, 520))


@case(1)
def ddp_optimizer_off(compile: Compile) -> None:
    with (
        torch._dynamo.config.patch(optimize_ddp=False),
        distributed(compiled_inside(Wide(), compile)) as model,
    ):
        model(torch.ones(2, 520))


@case(0)
def ddp_backend_error_in_the_third_bucket(compile: Compile) -> None:
    calls = []

    def backend(gm, inputs):
        calls.append(gm)
        if len(calls) == 3:
            raise ValueError("the third")
        return gm.forward

    module = Wide()
    module.forward = torch.compile(module.forward, backend=backend)
    with distributed(module) as model, contextlib.suppress(Exception):
        model(torch.ones(2, 520))
    assert len(calls) == 3


@case(2)
def backend_that_compiles(compile: Compile) -> None:
    def backend(gm, inputs):
        again = compile(lambda x: torch.cos(x))
        return lambda *args: (again(*gm(*args)),)

    torch.compile(lambda x: torch.sin(x) * 2, backend=backend)(X())


@case(1)
def backend_called_to_verify(compile: Compile) -> None:
    with torch._dynamo.config.patch(verify_correctness=True):
        compile(lambda x: torch.sin(x) * 2)(X())


@case(1)
def compiled_autograd_without_a_compiler(compile: Compile) -> None:
    from torch._dynamo import compiled_autograd

    x = X().requires_grad_()
    y = compile(lambda x: torch.sin(x) * 2)(x)
    with compiled_autograd._enable(lambda gm: gm):
        y.sum().backward()


@case(1)
def nested_compile_region(compile: Compile) -> None:
    @torch.compiler.nested_compile_region
    def block(x):
        return torch.sin(x) * 2

    def f(x):
        for _ in range(3):
            x = block(x)
        return x

    compile(f)(X())
