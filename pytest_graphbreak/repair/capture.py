"""Records the inputs and outputs of compiled callables, and calls them again with other inputs.

``torch.compile`` is replaced by a function that compiles as before and wraps the result in a thin
function; if the program itself wraps ``torch.compile``, as patches do, ours wraps that wrapper.
Only calls from eager code are recorded: a call from one compiled function to another belongs to the
outer one.
"""

from __future__ import annotations

import contextlib
import functools
import io
import time
import types
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

import torch
from msgspec import Struct
from msgspec.structs import replace
from torch.utils._pytree import tree_flatten

from pytest_graphbreak.repair import objects, sizes
from pytest_graphbreak.repair.compare import ENDLESS, Flat, flatten
from pytest_graphbreak.repair.copies import leaves_of, snapshot, store
from pytest_graphbreak.repair.inputs import DrawnInputs
from pytest_graphbreak.repair.limit import TooLongError, time_limit
from pytest_graphbreak.repair.optimizers import restore
from pytest_graphbreak.repair.printed import Lines
from pytest_graphbreak.repair.steady import log_lines, seed, steady_random
from pytest_graphbreak.text.output import error_words

MOST_CALLS: Final = 64
"""The number of calls of one run whose outputs are kept."""
MOST_ENTRIES: Final = 4
"""The number of compiled callables that are called again with other inputs."""
LIMIT: Final = 10.0
"""The time in seconds that a call with other inputs may take, or three of the program's slowest."""
COMPILING: Final = 90.0
"""The same where inductor generates code for other inputs, which takes most of the time."""
_IMPROVE: Final = " (Could this error message be improved?"
"""How the plea begins that ``torch._check`` adds to its errors."""


class CompiledCall(Struct):
    """A compiled callable, with the inputs and the modes of its first call."""

    original: Any
    compiled: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    called: bool = False
    grad: bool = False
    inference: bool = False
    slowest: float = 0.0
    """The longest time in seconds of a call of the program's own."""

    @property
    def module(self) -> torch.nn.Module | None:
        owner = getattr(self.original, "__self__", self.original)
        return owner if isinstance(owner, torch.nn.Module) else None


class Capture:
    """Everything that one run passed into compiled code and got out of it.

    ``codegen`` is whether inductor generates code for what it compiles.
    """

    def __init__(self, *, allow_breaks: bool = True, codegen: bool = True) -> None:
        self.entries: list[CompiledCall] = []
        self.fullgraph = False
        self.options: dict[str, Any] = {}
        self.inductor = False
        """Whether inductor compiles something."""
        self._allow_breaks = allow_breaks
        self._codegen = codegen
        self._calls: list[tuple[Any, ...]] = []
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
    def _inside(self) -> Iterator[None]:
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
            entry.called = True
            entry.grad = torch.is_grad_enabled()
            entry.inference = torch.is_inference_mode_enabled()
            entry.args, entry.kwargs = store(args), store(kwargs)
        began = time.perf_counter()
        with self._inside():
            result = inner(*args, **kwargs)
        entry.slowest = max(entry.slowest, time.perf_counter() - began)
        if len(self._calls) < MOST_CALLS:
            self._calls.append(tuple(snapshot(item) for item in (result, args, kwargs)))
        name = sizes.name_of(entry.original)
        shapes = self._shapes.setdefault(name, [])
        if len(shapes) < sizes.MOST:
            shapes.append(sizes.note(entry.original, args, kwargs))
        seen = self._numbers.setdefault(name, {})
        for key, value in sizes.numbers(entry.original, args, kwargs):
            seen.setdefault(key, set()).add(value)
        return result

    def varies(self) -> list[dict[str, Any]]:
        """Return the sizes that vary from call to call, as plain data."""
        return sizes.varying_sizes(self._shapes)

    def numbers(self) -> dict[str, list[str]]:
        """Return the Python numbers that vary from call to call, by the name of the callable."""
        vary = {
            name: [key for key, values in seen.items() if len(values) > 1]
            for name, seen in self._numbers.items()
        }
        return {name: keys for name, keys in vary.items() if keys}

    def roots(self) -> list[str]:
        """Return the qualified names of the functions that are compiled, of modules ``forward``."""
        functions = (getattr(entry.original, "forward", entry.original) for entry in self.entries)
        return sorted({str(getattr(function, "__qualname__", "")) for function in functions})

    def results(
        self, space: dict[str, Any], original: dict[str, Any] | None, **options: Any
    ) -> dict[str, Any]:
        """Return what the run gave (``compare.Results``).

        ``space`` are the global variables of the program, ``original`` are the names that
        hold what the original calls (``_names``), ``options`` those of ``_draw``.
        """
        calls = [_named_leaves(*call) for call in self._calls]
        ended = {"calls": calls, "state": self._state(), "objects": self._objects(space)}
        names = self._names(space)
        outer = self._outer_calls(space, original) if original is not None else None
        drawn: dict[str, Flat | str] = {}
        for number, entry in enumerate(outer or self._called()):
            self._draw(number, entry, drawn, **options)
        return {**ended, "drawn": drawn, "moved": outer is not None, "names": names}

    def _called(self) -> list[CompiledCall]:
        return [entry for entry in self.entries if entry.called][:MOST_ENTRIES]

    def _names(self, space: dict[str, Any]) -> dict[str, Any]:
        """Return the variables that hold what is called, each with its inputs, for ``original``."""
        names: dict[str, Any] = {}
        for number, entry in enumerate(self._called()):
            holders = (entry.compiled, getattr(entry.original, "__self__", entry.compiled))
            for name, value in space.items():
                if any(value is holder for holder in holders):
                    names[name] = (number, entry.args, entry.kwargs)
        return names

    def _outer_calls(
        self, space: dict[str, Any], original: dict[str, Any]
    ) -> list[CompiledCall] | None:
        """Return the calls of functions that a patch put around what it compiles, if it did.

        They have the names of what the original compiles: the inputs are those of the original.
        """
        compiled = [entry.compiled for entry in self.entries]
        calls: dict[int, CompiledCall] = {}
        for name, (number, args, kwargs) in original.items():
            value, entries = space.get(name), self._called()
            if not callable(value) or number >= len(entries):
                continue
            is_wrapper = isinstance(value, types.FunctionType) and value not in compiled
            entry = replace(entries[number], compiled=value, args=args, kwargs=kwargs)
            calls.setdefault(number, entry if is_wrapper else entries[number])
        moved = any(call.compiled not in compiled for call in calls.values())
        return [calls[number] for number in sorted(calls)] if moved else None

    def _objects(self, space: dict[str, Any]) -> dict[str, Flat]:
        """Return what the program holds, in its variables and the objects that it compiles."""
        names = dict(space)
        for entry in self._called():
            names |= objects.attributes_of(entry.original, sizes.name_of(entry.original))
        return objects.values(names)

    def _state(self) -> Flat:
        """Return the gradients, buffers and trained parameters at the end of the run."""
        state: Flat = []
        for number, entry in enumerate(self.entries):
            module = entry.module
            if module is None:
                leaves = tree_flatten((entry.args, entry.kwargs))[0]
                grads = [leaf.grad for leaf in leaves if _has_grad(leaf)]
                state += flatten(grads, f"gradient of input {number}") if grads else []
                continue
            for name, parameter in module.named_parameters():
                if parameter.grad is not None:
                    state += flatten(parameter.grad, f"gradient of {name}")
                    state += flatten(parameter, name)
            for name, buffer in module.named_buffers():
                state += flatten(buffer, name)
        return state

    def _draw(
        self,
        number: int,
        entry: CompiledCall,
        drawn: dict[str, Flat | str],
        *,
        eager: bool,
        values_only: bool,
        left_out: Collection[str],
    ) -> None:
        """Call with drawn inputs, and add what each gives: a text is what was raised.

        With ``eager`` nothing is compiled; with ``values_only`` all have the sizes of the program's
        own; those in ``left_out`` are not called.
        """
        name = sizes.name_of(entry.original)
        dims = sizes.varying(self._shapes.get(name, []))
        inputs = DrawnInputs(entry.original, entry.args, entry.kwargs, dims)
        grad = entry.grad and not entry.inference
        numbers = objects.numbers(entry.module)
        for kind in inputs.kinds(values_only=values_only, grad=grad):
            key = f"{number}: {kind}" if number else kind
            if key not in left_out:
                # With a seed for each, a number that was baked into a graph shows.
                seed(len(drawn) + 1)
                objects.put_back(numbers)
                drawn[key] = self._result(entry, functools.partial(inputs.draw, kind), eager)

    def _result(
        self, entry: CompiledCall, draw: Callable[[], tuple[Any, Any]], eager: bool
    ) -> Flat | str:
        """Return what a call gives, prints, changes in place, and its gradients."""
        stance = torch.compiler.set_stance("force_eager") if eager else contextlib.nullcontext()
        most = COMPILING if self.inductor and self._codegen and not eager else LIMIT
        if eager:
            restore()
        out = io.StringIO()
        try:
            limit = time_limit(max(most, 3 * entry.slowest))
            with self._inside(), stance, mode(entry), limit:
                args, kwargs = draw()
                with contextlib.redirect_stdout(out), log_lines() as lines:
                    result = entry.compiled(*args, **kwargs)
                gradients = _gradients(entry, result, args, kwargs)
            values = [*_named_leaves(result, args, kwargs), *flatten(gradients, "gradients")]
            return [*values, ("lines", Lines((*out.getvalue().splitlines(), *lines)))]
        except TooLongError:
            return ENDLESS
        except Exception as error:
            return f"raises {error_words(error).partition(_IMPROVE)[0]}"


def _plain_option(option: Any) -> Any:
    """Return an option of ``torch.compile`` if it can be written down, or None for an object."""
    return option if isinstance(option, str | bool | int | float) else None


def _skip(function: Callable[..., Any]) -> None:
    """Keep Dynamo from compiling our own frame, if this torch has a setting for it."""
    import torch._C._dynamo.eval_frame as inside

    skip = getattr(inside, "skip_code", None)
    if skip is not None:
        skip(function.__code__)


def _named_leaves(result: Any, args: Any, kwargs: Any) -> Flat:
    """Return the result and the arguments of a call, as they are when it has returned."""
    parts = {"output": result, "arguments": args, "keywords": kwargs}
    return [leaf for name, part in parts.items() for leaf in flatten(leaves_of(part), name)]


def _has_grad(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_leaf and value.grad is not None


@contextlib.contextmanager
def mode(entry: CompiledCall) -> Iterator[None]:
    with torch.inference_mode(entry.inference), torch.set_grad_enabled(entry.grad):
        yield


def _gradients(entry: CompiledCall, result: Any, args: Any, kwargs: Any) -> Any:
    """Return gradients of a weighted sum of the outputs, for the inputs and the parameters."""
    outputs = [
        leaf
        for leaf in tree_flatten(result)[0]
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad and leaf.is_floating_point()
    ]
    if not outputs:
        return None
    leaves = [
        leaf
        for leaf in tree_flatten((args, kwargs))[0]
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad
    ]
    if entry.module is not None:
        leaves += [leaf for leaf in entry.module.parameters() if leaf.requires_grad]
    if not leaves:
        return None
    total = sum(
        (out * torch.arange(out.numel(), device=out.device).cos().reshape(out.shape).to(out)).sum()
        for out in outputs
    )
    assert isinstance(total, torch.Tensor)
    return list(torch.autograd.grad(total, leaves, allow_unused=True))
