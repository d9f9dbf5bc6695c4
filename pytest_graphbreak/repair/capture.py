"""Records the inputs and outputs of compiled callables, and calls them again with other inputs.

``torch.compile`` is replaced by a function that compiles as before and wraps the result in a thin
function; if the program itself wraps ``torch.compile``, as patches do, ours wraps that wrapper.
Only calls from eager code are recorded: a call from one compiled function to another belongs to the
outer one.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import io
import time
import traceback
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import torch
from msgspec import Struct
from msgspec.structs import replace
from torch.utils._pytree import tree_flatten, tree_map

from pytest_graphbreak.model.places import places
from pytest_graphbreak.repair import sizes
from pytest_graphbreak.repair.compare import (
    Flat,
    TensorLeaf,
    flatten,
    is_equal,
    is_small,
    named,
    settle,
)
from pytest_graphbreak.repair.copies import copy_of, is_lazy, store
from pytest_graphbreak.repair.failure import describe
from pytest_graphbreak.repair.inputs import DrawnInputs, Way
from pytest_graphbreak.repair.limit import TooLongError, time_limit
from pytest_graphbreak.repair.objects import Put, Reached, next_random
from pytest_graphbreak.repair.optimizers import restore
from pytest_graphbreak.repair.printed import Lines
from pytest_graphbreak.repair.steady import log_lines, seed, steady_random

MOST_BYTES: Final = 2**30
"""The size of the results of calls that are kept."""
MOST_REPEATED: Final = 64
"""The number of calls that are made again to see whether the program is steady."""
MOST_ENTRIES: Final = 4
"""The number of compiled callables that are called again with other inputs."""
LIMIT: Final = 10.0
"""The time in seconds that a call with other inputs may take, or three of the program's slowest."""
COMPILING: Final = 90.0
"""The same where inductor generates code for other inputs, which takes most of the time."""


class Raised(Struct, frozen=True):
    """What a call raised: ``explicit`` is whether a ``raise`` or ``assert`` of the program did."""

    kind: str
    words: str = ""
    explicit: bool = False


class CallResult(Struct, frozen=True):
    """What a call gave: its result and its arguments afterwards, or what it raised.

    ``name`` is the callable's. Of a call with drawn inputs ``held`` are the values of all objects
    afterwards, large ones only where they are ``changed``.
    """

    name: str
    output: Flat = []
    rest: Flat = []
    """The arguments afterwards; of a drawn call also gradients and random numbers."""
    lines: Lines = Lines()
    aliases: frozenset[tuple[str, str]] = frozenset()
    """Which tensors of the result share memory with an argument or a weight."""
    raised: Raised | None = None
    held: Mapping[str, Flat] = {}
    changed: Collection[str] = ()

    @property
    def values(self) -> Flat:
        return [*self.output, *self.rest]


ENDLESS: Final = Raised("does not end")


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
    reached: Reached | None = None
    put_back: Put | None = None
    """Gives all that it reaches the values from before its first call."""

    @property
    def module(self) -> torch.nn.Module | None:
        owner = getattr(self.original, "__self__", self.original)
        return owner if isinstance(owner, torch.nn.Module) else None


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
        self._namer = places(Path.cwd())
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
            self._first(entry, args, kwargs)
        if self._results and len(self._repeated) < MOST_REPEATED:
            inputs = store((args, kwargs))
            self._repeated.append((entry, torch.is_grad_enabled(), inputs))
        name = sizes.name_of(entry.original)
        self._note_sizes(name, entry, args, kwargs)
        began = time.perf_counter()
        try:
            with self._inside():
                result = inner(*args, **kwargs)
        except Exception as error:
            self._keep(CallResult(name, raised=self._raised(error)))
            raise
        entry.slowest = max(entry.slowest, time.perf_counter() - began)
        if self._results:
            self._keep(_result(name, entry, result, args, kwargs))
        return tree_map(_perturb, result) if self._perturbed else result

    def _first(self, entry: CompiledCall, args: Any, kwargs: dict[str, Any]) -> None:
        if not self._called():
            self._on_first()
        entry.called = True
        entry.grad = torch.is_grad_enabled()
        entry.inference = torch.is_inference_mode_enabled()
        entry.args, entry.kwargs = store(args), store(kwargs)
        if self._results:
            entry.reached = Reached({}, [entry.original, args, kwargs])
            entry.put_back = entry.reached.keep()

    def _keep(self, call: CallResult) -> None:
        """Keep a call as long as there is room."""
        leaves = [leaf.value for _, leaf in call.values if isinstance(leaf, TensorLeaf)]
        self._bytes += sum(leaf.numel() * leaf.element_size() for leaf in leaves)
        if self._bytes < MOST_BYTES:
            self._calls.append(call)
        else:
            self._left_out += 1

    def _note_sizes(self, name: str, entry: CompiledCall, args: Any, kwargs: Any) -> None:
        shapes = self._shapes.setdefault(name, [])
        if len(shapes) < sizes.MOST:
            shapes.append(sizes.note(entry.original, args, kwargs))
        seen = self._numbers.setdefault(name, {})
        for key, value in sizes.numbers(entry.original, args, kwargs):
            seen.setdefault(key, set()).add(value)

    def repeat(self) -> None:
        """Make the calls of the program once more, with the state as it is."""
        for entry, grad, inputs in self._repeated:
            args, kwargs = copy_of(inputs)
            with self._inside(), torch.set_grad_enabled(grad), silence():
                entry.compiled(*args, **kwargs)

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

    def calls(self) -> list[CallResult]:
        """Return what each call of the program gave."""
        return [
            replace(call, output=settle(call.output), rest=settle(call.rest))
            for call in self._calls
        ]

    @property
    def left_out(self) -> int:
        """The number of calls whose results were too large to keep."""
        return self._left_out

    def _called(self) -> list[CompiledCall]:
        return [entry for entry in self.entries if entry.called][:MOST_ENTRIES]

    def names(self, space: Mapping[str, Any]) -> dict[str, Any]:
        """Return the variables that hold what is called, each with its inputs."""
        names: dict[str, Any] = {}
        for number, entry in enumerate(self._called()):
            holders = (entry.compiled, getattr(entry.original, "__self__", entry.compiled))
            for name, value in space.items():
                if any(value is holder for holder in holders):
                    names[name] = (number, entry.args, entry.kwargs)
        return names

    def outer_calls(
        self, space: Mapping[str, Any], original: Mapping[str, Any]
    ) -> list[CompiledCall] | None:
        """Return the calls of functions that a patch put around what it compiles, if it did.

        They have the names of what the original compiles (``names``): the inputs are those of the
        original.
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

    def draw(
        self,
        outer: list[CompiledCall] | None,
        *,
        eager: bool,
        values_only: bool,
        left_out: Collection[str],
    ) -> dict[str, CallResult]:
        """Call with drawn inputs, each time from the state before the first call.

        With ``eager`` nothing is compiled; with ``values_only`` all have the sizes of the program's
        own; those in ``left_out`` are not called.
        """
        drawn: dict[str, CallResult] = {}
        for number, entry in enumerate(outer or self._called()):
            name = sizes.name_of(entry.original)
            dims = sizes.varying(self._shapes.get(name, []))
            inputs = DrawnInputs(entry.original, entry.args, entry.kwargs, dims)
            modules = bool(entry.reached and entry.reached.modules)
            for way in inputs.ways(values_only=values_only, grad=entry.grad, modules=modules):
                key = f"{way.name}, call {number + 1}" if number else way.name
                if key not in left_out:
                    # With a seed for each, a number that was baked into a graph shows.
                    seed(len(drawn) + 1)
                    drawn[key] = self._drawn(entry, inputs, way, eager)
            if entry.put_back is not None:
                entry.put_back()
        return drawn

    def _drawn(self, entry: CompiledCall, inputs: DrawnInputs, way: Way, eager: bool) -> CallResult:
        """Return what a call gives, prints, changes in place, and its gradients."""
        stance = torch.compiler.set_stance("force_eager") if eager else contextlib.nullcontext()
        most = COMPILING if self.inductor and self._codegen and not eager else LIMIT
        name, reached = sizes.name_of(entry.original), entry.reached or Reached({})
        if eager:
            restore(reached.owners.values())
        if entry.put_back is not None:
            entry.put_back()
        for module in reached.modules if way.flipped else ():
            module.train(not module.training)
        before = reached.values()
        try:
            limit = time_limit(max(most, 3 * entry.slowest))
            with self._inside(), stance, mode(entry, way.grad), limit, _roomy():
                args, kwargs = inputs.draw(way)
                with silence() as lines:
                    result = entry.compiled(*args, **kwargs)
                gradients = _gradients(reached.modules, result, args, kwargs)
            call = _result(name, entry, result, args, kwargs)
        except TooLongError:
            return CallResult(name, raised=ENDLESS)
        except Exception as error:
            return CallResult(name, raised=self._raised(error))
        other = named({"gradients": gradients, "the next random number of ": next_random()})
        rest = [*settle(call.rest), *other]
        after = Reached({}, [entry.original, args, kwargs]).values()
        same = {name for name in after if is_equal(before.get(name, []), after[name])}
        held = {x: settle(flat) for x, flat in after.items() if x not in same or is_small(flat)}
        output = settle(call.output)
        return replace(
            call,
            output=output,
            rest=rest,
            lines=Lines(lines),
            held=held,
            changed=after.keys() - same,
        )

    def _raised(self, error: Exception) -> Raised:
        """Return an error as data: that of an operator, where Dynamo wraps it in its own."""
        words: str = describe(error)["error"]
        kind = words.partition(":")[0] if ":" in words else type(error).__name__
        *_, (frame, _) = traceback.walk_tb(error.__traceback__)
        code, at = frame.f_code, _last_instruction(error)
        explicit = dis.opname[code.co_code[at]] == "RAISE_VARARGS"
        return Raised(kind, words, explicit and self._namer.is_written(code.co_filename))


def _plain_option(option: Any) -> Any:
    """Return an option of ``torch.compile`` if it can be written down, or None for an object."""
    return option if isinstance(option, str | bool | int | float) else None


def _skip(function: Callable[..., Any]) -> None:
    """Keep Dynamo from compiling our own frame, if this torch has a setting for it."""
    import torch._C._dynamo.eval_frame as inside

    skip = getattr(inside, "skip_code", None)
    if skip is not None:
        skip(function.__code__)


def _result(name: str, entry: CompiledCall, result: Any, args: Any, kwargs: Any) -> CallResult:
    """Return the result and the arguments of a call, as they are when it has returned."""
    given = dict(_storages({"argument": (args, kwargs)}))
    for module in entry.reached.modules if entry.reached is not None else ():
        given |= dict(_storages({"weight": [*module.parameters(), *module.buffers()]}))
    aliases = {(path, given[key]) for key, path in _storages({"output": result}) if key in given}
    rest = named({"arguments": args, "keywords": kwargs})
    return CallResult(name, flatten(result, "output"), rest, aliases=frozenset(aliases))


def _storages(parts: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    for name, part in parts.items():
        for number, leaf in enumerate(tree_flatten(part)[0]):
            is_dense = isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided
            if is_dense and leaf.numel() and not is_lazy(leaf):
                yield leaf.untyped_storage().data_ptr(), f"{name} {number}"


def _perturb(leaf: Any) -> Any:
    """Return another value than a call gave."""
    if isinstance(leaf, torch.Tensor):
        return leaf * 1.5 + 0.25 if leaf.is_floating_point() else leaf
    return leaf * 1.5 + 0.25 if type(leaf) is float else leaf


def _last_instruction(error: BaseException) -> int:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_lasti if trace is not None else 0


@contextlib.contextmanager
def silence() -> Iterator[list[str]]:
    """Yield the lines that are printed and logged in the block, which are not shown."""
    lines: list[str] = []
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), log_lines() as logged:
        yield lines
    lines += [*out.getvalue().splitlines(), *err.getvalue().splitlines(), *logged]


@contextlib.contextmanager
def _roomy() -> Iterator[None]:
    """Let Dynamo compile as often as there are drawn inputs, without falling back to eager."""
    with torch._dynamo.config.patch(recompile_limit=256, accumulated_recompile_limit=1024):
        yield


@contextlib.contextmanager
def mode(entry: CompiledCall, grad: bool | None = None) -> Iterator[None]:
    """Call as the program did, or with or without gradients (``grad``)."""
    enabled = entry.grad if grad is None else grad
    with torch.inference_mode(entry.inference and not grad), torch.set_grad_enabled(enabled):
        yield


def _gradients(modules: list[torch.nn.Module], result: Any, args: Any, kwargs: Any) -> Any:
    """Return gradients of a weighted sum of the outputs, for the inputs and the parameters."""
    outputs = [
        leaf
        for leaf in tree_flatten(result)[0]
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad and leaf.is_floating_point()
    ]
    leaves = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, torch.Tensor)]
    leaves += [parameter for module in modules for parameter in module.parameters()]
    leaves = [leaf for leaf in leaves if leaf.requires_grad]
    if not outputs or not leaves:
        return [None] * len(leaves)
    total = sum(
        (out * torch.arange(out.numel(), device=out.device).cos().reshape(out.shape).to(out)).sum()
        for out in outputs
    )
    assert isinstance(total, torch.Tensor)
    return list(torch.autograd.grad(total, leaves, allow_unused=True))
