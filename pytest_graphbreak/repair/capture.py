"""Records the inputs and outputs of compiled callables, and calls them again with other inputs.

``torch.compile`` is replaced by a function that compiles as before and wraps the result in a thin
function; if the program itself wraps ``torch.compile``, as patches do, ours wraps that wrapper.
Only calls from eager code are recorded: a call from one compiled function to another belongs to the
outer one.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch
from msgspec.structs import replace
from torch.utils._pytree import tree_map

from pytest_graphbreak.repair import sizes
from pytest_graphbreak.repair.calls import CallResult, CompiledCall, raised_by, result_of, silence
from pytest_graphbreak.repair.compare import TensorLeaf, settle
from pytest_graphbreak.repair.copies import copy_of, store
from pytest_graphbreak.repair.objects import Reached
from pytest_graphbreak.repair.steady import steady_random

MOST_BYTES: Final = 2**30
"""The size of the results of calls that are kept."""
MOST_REPEATED: Final = 64
"""The number of calls that are made again to see whether the program is steady."""
MOST_ENTRIES: Final = 4
"""The number of compiled callables that are called again with other inputs."""


class Capture:
    """Everything that one run passed into compiled code and got out of it.

    ``codegen`` is whether inductor generates code for what it compiles, ``results`` whether what
    calls give is kept, and the state that they begin with. With ``perturbed`` the program gets
    other results than those of its calls, to see whether it shows them. ``on_first`` is called
    before the first call.
    """

    def __init__(
        self,
        *,
        allow_breaks: bool = True,
        codegen: bool = True,
        results: bool = False,
        perturbed: bool = False,
        on_first: Callable[[], None] = lambda: None,
    ) -> None:
        self.entries: list[CompiledCall] = []
        self.fullgraph = False
        self.options: dict[str, Any] = {}
        self.inductor = False
        """Whether inductor compiles something."""
        self._allow_breaks = allow_breaks
        self._codegen = codegen
        self._results = results
        self._perturbed = perturbed
        self._on_first = on_first
        self._calls: list[CallResult] = []
        self._bytes = 0
        self._left_out = 0
        self._repeated: list[tuple[CompiledCall, bool, Any]] = []
        self._shapes: dict[str, list[sizes.Shapes]] = {}
        self._numbers: dict[str, dict[str, set[float]]] = {}
        self._depth = 0
        self._kind = type(torch)
        self._layers: dict[Any, Any] = {}
        self._outer = self._layer(torch.compile)

    @contextlib.contextmanager
    def install(self) -> Iterator[None]:
        """Stand in for ``torch.compile`` without touching its own entry in the module."""
        recorder, kind = self, self._kind

        class Watched(kind):  # type: ignore[valid-type, misc]
            @property
            def compile(self) -> Any:
                return recorder._outer

            @compile.setter
            def compile(self, value: Any) -> None:
                recorder._outer = value if value in recorder._layers else recorder._layer(value)

        torch.__class__ = Watched
        try:
            yield
        finally:
            torch.__class__ = kind

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Run a compiled call, in which nothing is recorded: what it compiles is its own.

        The module ``torch`` has the class that it had: Dynamo of torch 2.9 and 2.11 breaks at an
        ``import torch`` of any other (``IMPORT_NAME`` in torch/_dynamo/symbolic_convert.py).
        """
        kind, torch.__class__ = type(torch), self._kind
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            torch.__class__ = kind

    def _layer(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        """Return a ``torch.compile`` that records if it is the outermost, else calls ``inner``."""

        @functools.wraps(inner)
        def layer(model: Any = None, **options: Any) -> Any:
            if self._outer is not layer:
                return inner(model, **options)
            if model is None:
                return lambda function: layer(function, **options)
            return self._compile(inner, model, options)

        self._layers[layer] = inner
        return layer

    def _compile(self, inner: Callable[..., Any], model: Any, options: dict[str, Any]) -> Any:
        if options.get("fullgraph"):
            self.fullgraph = True
            if self._allow_breaks:
                options["fullgraph"] = False
        steady_random()
        self.inductor |= options.get("backend", "inductor") == "inductor"
        if not self.options:
            self.options = {name: _plain_option(value) for name, value in options.items()}
        compiled = inner(model, **options)
        entry = CompiledCall(model, compiled)
        if isinstance(compiled, torch.nn.Module):
            compiled.__dict__["forward"] = self._wrap(entry, compiled.forward)
        else:
            entry.compiled = compiled = self._wrap(entry, compiled)
        self.entries.append(entry)
        return compiled

    def _wrap(self, entry: CompiledCall, inner: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(inner)
        def call(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling() or self._depth:
                return inner(*args, **kwargs)
            return self._note(entry, inner, args, kwargs)

        _skip(call)
        return call

    def _note(
        self, entry: CompiledCall, inner: Callable[..., Any], args: Any, kwargs: dict[str, Any]
    ) -> Any:
        if not entry.called:
            self._first(entry, args, kwargs)
        if self._results and len(self._repeated) < MOST_REPEATED:
            inputs = store((args, kwargs))
            self._repeated.append((entry, torch.is_grad_enabled(), inputs))
        self._note_sizes(entry, args, kwargs)
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

    def _first(self, entry: CompiledCall, args: Any, kwargs: dict[str, Any]) -> None:
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
        """Keep a call as long as there is room."""
        leaves = [leaf.value for _, leaf in call.values if isinstance(leaf, TensorLeaf)]
        self._bytes += sum(leaf.numel() * leaf.element_size() for leaf in leaves)
        if self._bytes < MOST_BYTES:
            self._calls.append(call)
        else:
            self._left_out += 1

    def _note_sizes(self, entry: CompiledCall, args: Any, kwargs: Any) -> None:
        shapes = self._shapes.setdefault(entry.name, [])
        if len(shapes) < sizes.MOST:
            shapes.append(sizes.note(entry.original, args, kwargs))
        seen = self._numbers.setdefault(entry.name, {})
        for key, value in sizes.numbers(entry.original, args, kwargs):
            seen.setdefault(key, set()).add(value)

    def repeat(self) -> None:
        """Make the calls of the program once more, with the state as it is."""
        for entry, grad, inputs in self._repeated:
            args, kwargs = copy_of(inputs)
            with self.inside(), torch.set_grad_enabled(grad), silence():
                entry.compiled(*args, **kwargs)

    def dims(self, entry: CompiledCall) -> dict[str, dict[int, int]]:
        """Return the dimensions of the arguments that vary (``sizes.varying``)."""
        return sizes.varying(self._shapes.get(entry.name, []))

    @property
    def generates_code(self) -> bool:
        """Whether inductor generates code."""
        return self.inductor and self._codegen

    def varies(self) -> list[dict[str, Any]]:
        """Return the sizes that vary from call to call, as plain data."""
        originals = (entry.original for entry in self.entries)
        names = {sizes.name_of(x): sizes.parameters(x) for x in originals}
        return sizes.varying_sizes(self._shapes, names)

    def numbers(self) -> dict[str, list[str]]:
        """Return the Python numbers that vary from call to call, by the name of the callable."""
        vary = {
            name: [key for key, values in seen.items() if len(values) > 1]
            for name, seen in self._numbers.items()
        }
        return {name: keys for name, keys in vary.items() if keys}

    def calls(self) -> list[CallResult]:
        """Return what each call of the program gave."""
        return [
            replace(call, output=settle(call.output), arguments=settle(call.arguments))
            for call in self._calls
        ]

    @property
    def left_out(self) -> int:
        """The number of calls whose results were too large to keep."""
        return self._left_out

    def called(self) -> list[CompiledCall]:
        """Return what was called, the first few of it."""
        return [entry for entry in self.entries if entry.called][:MOST_ENTRIES]


def _plain_option(option: Any) -> Any:
    """Return an option of ``torch.compile`` if it can be written down, or None for an object."""
    return option if isinstance(option, str | bool | int | float) else None


def _skip(function: Callable[..., Any]) -> None:
    """Keep Dynamo from compiling our own frame, if this torch has a setting for it."""
    import torch._C._dynamo.eval_frame as inside

    skip = getattr(inside, "skip_code", None)
    if skip is not None:
        skip(function.__code__)


def _perturb(leaf: Any) -> Any:
    """Return another value than a call gave."""
    if isinstance(leaf, torch.Tensor):
        return leaf * 1.5 + 0.25 if leaf.is_floating_point() else leaf
    return leaf * 1.5 + 0.25 if type(leaf) is float else leaf
