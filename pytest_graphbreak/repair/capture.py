"""Records the inputs and outputs of compiled callables, and makes the program's calls again.

While a target runs (``install``), ``torch.compile`` is a function of ours that compiles as before
and returns what torch returns, with a thin function around its call. So each ``torch.compile`` of
the program makes a ``CompiledCall``, an entry, and each call of what it gives makes a
``CallResult``. Only calls from eager code are recorded: a call from one compiled function to
another belongs to the outer one, and is in its graph.

``measure`` uses all of this. ``cut`` and ``exporting`` only need the entries, of a target that runs
without its compiler (``run_uncompiled``).
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final

import torch
from msgspec.structs import replace
from torch.utils._pytree import tree_map

from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.repair.calls import (
    CallResult,
    CompiledCall,
    Dims,
    Shapes,
    copy_of,
    parameters,
    raised_by,
    result_of,
    shapes_of,
    store,
    tensors_of,
    varying,
)
from pytest_graphbreak.repair.child import Go
from pytest_graphbreak.repair.objects import Reached
from pytest_graphbreak.repair.surroundings import seed, silence, steady_random
from pytest_graphbreak.repair.trial import VaryingSizes
from pytest_graphbreak.repair.values import TensorLeaf, settle

MOST_BYTES: Final = 2**30
"""The most bytes of results of calls that are kept."""
MOST_REPEATED: Final = 64
"""The most calls that are made again, to see whether the program is steady."""
MOST_SHAPES: Final = 256
"""The most calls of one callable whose shapes are kept."""
MOST_ENTRIES: Final = 4
"""The most compiled callables that are called again with other inputs."""


class Capture:
    """Everything that one run passed into compiled code and got out of it.

    ``codegen`` is whether inductor generates code for what it compiles. ``results`` is whether what
    calls give is kept, and the state in which they begin. ``on_first`` is called before the first
    call. ``perturbed`` and ``sizes_as`` are those of ``trial.MeasureOrder``.

    ``install`` is open while the program runs. Then ``calls``, ``varies`` and the other methods say
    what was recorded, and ``repeat`` makes the calls again.
    """

    def __init__(
        self,
        *,
        codegen: bool = True,
        results: bool = False,
        perturbed: bool = False,
        sizes_as: tuple[bool | None, Dims] | None = None,
        on_first: Callable[[], None] = lambda: None,
    ) -> None:
        self.entries: list[CompiledCall] = []
        self.options: dict[str, Any] = {}
        """The options of the first ``torch.compile``: ``{"dynamic": True}``. An option that is an
        object, such as a backend of the program's own, is None."""
        self.inductor = False
        """Whether inductor compiles something."""
        self._codegen = codegen
        self._results = results
        self._perturbed = perturbed
        self._sizes_as = sizes_as
        self._on_first = on_first
        self._calls: list[CallResult] = []
        self._bytes = 0
        """The size of all results so far."""
        self.left_out = 0
        """The number of calls whose results were too large to keep."""
        self._repeated: list[tuple[CompiledCall, bool, Any]] = []
        """What ``repeat`` calls: whether gradients are computed, and the inputs."""
        self._shapes: dict[str, list[Shapes]] = {}
        """The shapes of the arguments of each call, by the name of the callable."""
        self._depth = 0
        """The number of compiled calls that are running (``inside``)."""
        self._of_torch = self._of_program = torch.compile
        """torch's own ``torch.compile``, and what the program has in its place outside of compiled
        calls: ours, or a wrapper that the program has put around ours."""

    @contextlib.contextmanager
    def install(self) -> Iterator[None]:
        """Let ``torch.compile`` be ours in a block."""

        @functools.wraps(self._of_torch)
        def compile(model: Any = None, **options: Any) -> Any:
            if model is None:  # ``@torch.compile(dynamic=True)``
                return lambda function: compile(function, **options)
            return self._compile(model, options)

        if not self._codegen:
            _skip_codegen()
        torch.compile = compile
        try:
            yield
        finally:
            torch.compile = self._of_torch

    def run_uncompiled(self, go: Go, context: AbstractContextManager[None]) -> Plain:
        """Run a target without its compiler, in a context; return what ``go`` of ``child`` does."""

        @contextlib.contextmanager
        def window() -> Iterator[None]:
            seed()
            with torch.compiler.set_stance("force_eager"), context:
                yield

        with self.install():
            return go(window)

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Make a compiled call in a block, in which nothing is recorded.

        Where Dynamo traces a ``torch.compile`` in the program, it has to meet torch's own, which it
        knows, so that is in its place for this time.
        """
        if not self._depth:  # with threads, the first call to begin and the last to end
            self._of_program, torch.compile = torch.compile, self._of_torch
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                torch.compile = self._of_program

    def _compile(self, model: Any, options: dict[str, Any]) -> Any:
        """Compile as ``torch.compile`` does, and record the calls of what it gives."""
        if options.get("fullgraph"):  # with it, torch raises at a break: all breaks are to be seen
            options["fullgraph"] = False
        steady_random()
        self.inductor |= options.get("backend", "inductor") == "inductor"
        if not self.entries:
            self.options = {name: _plain_option(value) for name, value in options.items()}
        if self._sizes_as is not None:
            options["dynamic"] = self._sizes_as[0]
        compiled = self._of_torch(model, **options)
        entry = CompiledCall(model, compiled)
        if isinstance(compiled, torch.nn.Module):
            # Not by an assignment: torch's ``OptimizedModule`` hands those on to the user's module.
            compiled.__dict__["forward"] = self._wrap(entry, compiled.forward)
        else:
            entry.compiled = compiled = self._wrap(entry, compiled)
        self.entries.append(entry)
        return compiled

    def _wrap(self, entry: CompiledCall, inner: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that calls ``inner`` and records that, if eager code calls it."""

        @functools.wraps(inner)
        def call(*args: Any, **kwargs: Any) -> Any:
            # From another compiled function, to which this call belongs.
            if torch.compiler.is_compiling() or self._depth:
                return inner(*args, **kwargs)
            return self._recorded_call(entry, inner, args, kwargs)

        return call

    def _recorded_call(
        self, entry: CompiledCall, inner: Callable[..., Any], args: Any, kwargs: dict[str, Any]
    ) -> Any:
        """Make a call of the program, note its inputs before it, and keep what it gives."""
        if not entry.called:
            self._begin_first_call(entry, args, kwargs)
        self._mark(entry, args, kwargs)
        if self._results and len(self._repeated) < MOST_REPEATED:
            inputs = store((args, kwargs))
            self._repeated.append((entry, torch.is_grad_enabled(), inputs))
        shapes = self._shapes.setdefault(entry.name, [])
        if len(shapes) < MOST_SHAPES:
            shapes.append(shapes_of(entry.original, args, kwargs))
        began = time.perf_counter()
        try:
            with self.inside():
                result = inner(*args, **kwargs)
        except Exception as error:
            self._keep(CallResult(entry.name, raised=raised_by(error)))
            raise
        entry.slowest = max(entry.slowest, time.perf_counter() - began)
        if self._results:
            self._keep(result_of(entry, result, args, kwargs))
        return tree_map(_perturb, result) if self._perturbed else result

    def _begin_first_call(self, entry: CompiledCall, args: Any, kwargs: dict[str, Any]) -> None:
        if not self.called():
            self._on_first()
        entry.called = True
        entry.grad = torch.is_grad_enabled()
        entry.inference = torch.is_inference_mode_enabled()
        entry.args, entry.kwargs = store(args), store(kwargs)
        if self._results:
            entry.objects = Reached({}, [entry.original, args, kwargs])
            entry.put_back = entry.objects.keep()

    def _keep(self, call: CallResult) -> None:
        """Keep a result as long as all of them have less than ``MOST_BYTES``."""
        leaves = [leaf.value for _, leaf in call.values if isinstance(leaf, TensorLeaf)]
        self._bytes += sum(leaf.numel() * leaf.element_size() for leaf in leaves)
        if self._bytes < MOST_BYTES:
            self._calls.append(call)
        else:
            self.left_out += 1

    def _mark(self, entry: CompiledCall, args: Any, kwargs: Any) -> None:
        """Mark the dimensions that are to be dynamic by ``sizes_as``."""
        marks = self._sizes_as[1] if self._sizes_as is not None else {}
        for name, leaf in tensors_of(entry.original, args, kwargs) if marks else ():
            for dim in marks.get(name, ()):
                torch._dynamo.mark_dynamic(leaf, dim)

    def repeat(self) -> None:
        """Make the calls of the program once more, with the state as it is."""
        for entry, grad, inputs in self._repeated:
            args, kwargs = copy_of(inputs)
            with self.inside(), torch.set_grad_enabled(grad), silence():
                entry.compiled(*args, **kwargs)

    def dims(self, entry: CompiledCall) -> Dims:
        """Return which dimensions of the arguments vary from call to call (``calls.varying``)."""
        return varying(self._shapes.get(entry.name, []))

    @property
    def has_own_backend(self) -> bool:
        """Whether the backend is an object of the program's, of which ``options`` have None."""
        return self.options.get("backend", "") is None

    @property
    def generates_code(self) -> bool:
        """Whether inductor generates code."""
        return self.inductor and self._codegen

    def varies(self) -> list[VaryingSizes]:
        """Return the sizes of each callable that vary from call to call."""
        originals = {entry.name: entry.original for entry in self.entries}
        return [
            VaryingSizes(parameters(originals[name]), dims)
            for name, shapes in self._shapes.items()
            if (dims := varying(shapes))
        ]

    def calls(self) -> list[CallResult]:
        """Return what each call of the program gave."""
        return [
            replace(call, output=settle(call.output), arguments=settle(call.arguments))
            for call in self._calls
        ]

    def called(self) -> list[CompiledCall]:
        """Return the first few entries that were called."""
        return [entry for entry in self.entries if entry.called][:MOST_ENTRIES]


def _skip_codegen() -> None:
    """Run the graphs that inductor would generate code for as the backend ``aot_eager`` does.

    No C++ and no Triton is compiled. ``eager`` would take less time still, but Dynamo compiles
    again for other floats then than it does where AOTAutograd makes them tensors (torch 2.13).
    """
    from torch._dynamo.backends.debugging import aot_eager

    def compiled(self: Any, model: Any, inputs: Any, **options: Any) -> Any:
        return aot_eager(model, inputs)

    torch._TorchCompileInductorWrapper.__call__ = compiled


def _plain_option(option: Any) -> Any:
    """Return an option of ``torch.compile`` if it can be written down, or None for an object."""
    return option if isinstance(option, str | bool | int | float) else None


def _perturb(leaf: Any) -> Any:
    """Return another value than a call gave; only floats, as integers may be indices."""
    if isinstance(leaf, torch.Tensor):
        return leaf * 1.5 + 0.25 if leaf.is_floating_point() else leaf
    return leaf * 1.5 + 0.25 if type(leaf) is float else leaf
