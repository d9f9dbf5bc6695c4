"""Records the inputs and outputs of compiled callables, and calls them again.

``torch.compile`` is replaced by a function that compiles as before and wraps the result in a thin
function; if the program itself wraps ``torch.compile``, as patches do, ours wraps that wrapper.
Only calls from eager code are recorded: a call from one compiled function to another belongs to the
outer one.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch.utils._pytree import tree_flatten

from pytest_graphbreak.repair import optimizers, sizes
from pytest_graphbreak.repair.again import Compilations
from pytest_graphbreak.repair.compare import Flat, flatten
from pytest_graphbreak.repair.copies import copied, kept, leaves_of, snapshot
from pytest_graphbreak.repair.limit import TooLongError, limited
from pytest_graphbreak.repair.others import FIRST, RESIZED, OtherInputs
from pytest_graphbreak.repair.steady import seed, steady_random, wait
from pytest_graphbreak.text.output import raised

MOST_CALLS: Final = 64
"""The number of calls of one run whose outputs are kept."""
MOST_ENTRIES: Final = 4
"""The number of compiled callables that are called again with other inputs."""
LIMIT: Final = 10.0
"""The time in seconds that a call with other inputs may take, or three of the program's slowest."""
COMPILING: Final = 90.0
"""The same where inductor generates code for other inputs, which takes most of the time."""
ENDLESS: Final = "does not end"
LEFT_OUT: Final = "left out"


@dataclass(slots=True)
class CompiledCall:
    """A compiled callable, with the inputs and the modes of its first call."""

    original: Any
    compiled: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    called: bool = False
    grad: bool = False
    inference: bool = False
    slowest: float = 0.0
    """The longest time in seconds of a call of the program's own."""


class Capture:
    """Everything that one run passed into compiled code and got out of it.

    ``codegen`` is whether inductor generates code for what it compiles.
    """

    def __init__(self, *, allow_breaks: bool, codegen: bool = True) -> None:
        self.entries: list[CompiledCall] = []
        self.fullgraph = False
        self.options: dict[str, Any] = {}
        self.inductor = False
        """Whether inductor compiles something."""
        self.errors: dict[int, Flat | str] = {}
        """What the compiled program gives for other inputs that the uncompiled one raises for."""
        self.compiled_again: list[dict[str, Any]] = []
        """The kinds of other inputs for which something was compiled again, and why (``again``).

        The first of another batch size or length is left out: its size becomes dynamic then.
        """
        self.other_sizes: dict[str, list[sizes.Call]] = {}
        """The shapes of those inputs, and of the program's own, by the name of the callable."""
        self._allow_breaks = allow_breaks
        self._codegen = codegen
        self._calls: list[tuple[Any, ...]] = []
        self._shapes: dict[str, list[sizes.Call]] = {}
        self._numbers: dict[str, dict[str, set[float]]] = {}
        self._depth = 0
        self._layers: dict[Any, Any] = {}
        self._outer = self._layer(torch.compile)

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Stand in for ``torch.compile`` without touching its own entry in the module."""
        recorder, kind = self, type(torch)

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
            self.options = {name: _named(value) for name, value in options.items()}
        compiled = inner(model, **options)
        entry = CompiledCall(model, compiled)
        if isinstance(compiled, torch.nn.Module):
            compiled.__dict__["forward"] = self._around(entry, compiled.forward)
        else:
            entry.compiled = compiled = self._around(entry, compiled)
        self.entries.append(entry)
        return compiled

    def _around(self, entry: CompiledCall, inner: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(inner)
        def call(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling() or self._depth:
                return inner(*args, **kwargs)
            return self._noted(entry, inner, args, kwargs)

        _skip(call)
        return call

    def _noted(
        self, entry: CompiledCall, inner: Callable[..., Any], args: Any, kwargs: dict[str, Any]
    ) -> Any:
        if not entry.called:
            entry.called = True
            entry.grad = torch.is_grad_enabled()
            entry.inference = torch.is_inference_mode_enabled()
            entry.args, entry.kwargs = kept(args), kept(kwargs)
        self._depth += 1
        began = time.perf_counter()
        try:
            result = inner(*args, **kwargs)
        finally:
            self._depth -= 1
        entry.slowest = max(entry.slowest, time.perf_counter() - began)
        if len(self._calls) < MOST_CALLS:
            self._calls.append(tuple(snapshot(item) for item in (result, args, kwargs)))
        name = sizes.name_of(entry.original)
        shapes = self._shapes.setdefault(name, [])
        if len(shapes) < sizes.MOST:
            shapes.append(sizes.note(entry.original, args, kwargs, result))
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
        found = (getattr(entry.original, "forward", entry.original) for entry in self.entries)
        return sorted({str(getattr(one, "__qualname__", "")) for one in found})

    def calls(self) -> list[Flat]:
        """Return the result and arguments of each call, as they were when it returned."""
        return [flatten([leaves_of(item) for item in call]) for call in self._calls]

    def state(self) -> Flat:
        """Return the gradients, buffers and trained parameters at the end of the run."""
        found: Flat = []
        for number, entry in enumerate(self.entries):
            module = _module(entry.original)
            if module is None:
                tensors = [t for t in tree_flatten((entry.args, entry.kwargs))[0] if _has_grad(t)]
                if tensors:
                    found += flatten([t.grad for t in tensors], f"gradient of input {number}")
                continue
            for name, parameter in module.named_parameters():
                if parameter.grad is not None:
                    found += flatten(parameter.grad, f"gradient of {name}")
                    found += flatten(parameter, name)
            for name, buffer in module.named_buffers():
                found += flatten(buffer, name)
        return found

    def rerun(
        self,
        *,
        eager: bool,
        endless: Collection[int] = (),
        refused: Collection[int] = (),
        resized: bool = True,
    ) -> list[Flat | str]:
        """Return the results for other inputs; for a call that raises, a text ``raises ...``.

        For a call that does not end in time, and for those of the numbers ``endless``, which are
        not made, it is ``ENDLESS``. For those that the program refuses, ``refused``, it does not
        matter whether something is compiled again. Unless ``resized``, inputs of sizes that the
        program does not use are ``LEFT_OUT``.
        """
        found: list[Flat | str] = []
        compilations = Compilations()
        with compilations.watched():
            for entry in [entry for entry in self.entries if entry.called][:MOST_ENTRIES]:
                dims = sizes.varying(self._shapes.get(sizes.name_of(entry.original), []))
                inputs = OtherInputs(entry.original, entry.args, entry.kwargs, dims)
                # A copy may be compiled again: it is no view, as a gradient often is.
                self._called(entry, functools.partial(copied, (entry.args, entry.kwargs)), eager)
                for number, kind in enumerate(inputs.kinds()):
                    if len(found) in endless:
                        found.append(ENDLESS)
                        continue
                    if kind in RESIZED and not resized:
                        found.append(LEFT_OUT)
                        continue
                    # With a seed for each, a number that was baked into a graph shows.
                    seed(number + 1)
                    before = _compiled()
                    draw = functools.partial(inputs.drawn, kind)
                    found.append(self._called(entry, draw, eager))
                    if eager and isinstance(found[-1], str) and found[-1] != ENDLESS:
                        seed(number + 1)
                        self.errors[len(found) - 1] = self._called(entry, draw, False)
                    if _compiled() > before and len(found) - 1 not in refused:
                        self._note_again(entry, inputs, kind, compilations.reason())
        return found

    def _note_again(
        self, entry: CompiledCall, inputs: OtherInputs, kind: str, why: dict[str, Any]
    ) -> None:
        if kind in FIRST:
            return
        self.compiled_again.append({"kind": kind, **why})
        own = (entry.args, entry.kwargs)
        shapes = self.other_sizes.setdefault(sizes.name_of(entry.original), [])
        for args, kwargs in (own, inputs.drawn(kind)):
            shapes.append(sizes.note(entry.original, args, kwargs, None))

    def _called(
        self, entry: CompiledCall, drawn: Callable[[], tuple[Any, Any]], eager: bool
    ) -> Flat | str:
        """Return the result of a call, as ``rerun`` does."""
        stance = torch.compiler.set_stance("force_eager") if eager else contextlib.nullcontext()
        most = COMPILING if self.inductor and self._codegen and not eager else LIMIT
        self._depth += 1
        if eager:
            optimizers.restore()
        try:
            with stance, mode(entry), limited(max(most, 3 * entry.slowest)):
                args, kwargs = drawn()
                result = entry.compiled(*args, **kwargs)
                return flatten([leaves_of(result), _gradients(entry, result, args, kwargs)])
        except TooLongError:
            return ENDLESS
        except Exception as error:
            return f"raises {raised(error)}"
        finally:
            self._depth -= 1

    def warm(self) -> float | None:
        """Return the shortest time in seconds of some calls of the first callable.

        The calls are made with its own inputs.
        """
        entry = next((entry for entry in self.entries if entry.called), None)
        if entry is None:
            return None
        best: float | None = None
        self._depth += 1
        try:
            with mode(entry):
                for _ in range(6):
                    args, kwargs = copied((entry.args, entry.kwargs))
                    began = time.perf_counter()
                    entry.compiled(*args, **kwargs)
                    wait()
                    took = time.perf_counter() - began
                    best = took if best is None else min(best, took)
                    if took > 1:
                        break
        except Exception:
            return None
        finally:
            self._depth -= 1
        return best


def _compiled() -> int:
    """Return the number of graphs that Dynamo has made."""
    made: int = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    return made


def _named(option: Any) -> Any:
    """Return an option of ``torch.compile`` if it can be written down, or None for an object."""
    return option if isinstance(option, str | bool | int | float) else None


def _skip(function: Callable[..., Any]) -> None:
    """Keep Dynamo from compiling our own frame, if this torch has a setting for it."""
    import torch._C._dynamo.eval_frame as inside

    skip = getattr(inside, "skip_code", None)
    if skip is not None:
        skip(function.__code__)


def _module(original: Any) -> torch.nn.Module | None:
    found = getattr(original, "__self__", original)
    return found if isinstance(found, torch.nn.Module) else None


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
    module = _module(entry.original)
    if module is not None:
        leaves += [one for one in module.parameters() if one.requires_grad]
    if not leaves:
        return None
    total = sum(
        (out * torch.arange(out.numel(), device=out.device).cos().reshape(out.shape).to(out)).sum()
        for out in outputs
    )
    assert isinstance(total, torch.Tensor)
    return list(torch.autograd.grad(total, leaves, allow_unused=True))
