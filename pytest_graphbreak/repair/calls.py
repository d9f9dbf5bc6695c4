"""Calls of compiled code: what a call is given, and what it gives or raises.

``Capture`` records both while the program runs, and ``Drawing`` makes such calls once more. In the
order of this module: the tensors among the arguments, by name and shape; copies of arguments; what
a call raised (``Raised``); what it gave (``CallResult``); and the callable (``CompiledCall``).

A value is kept as a ``values.Flat``, the list of its leaves. A tensor on a device of torch_xla is
"lazy": to copy it or to look at it would be a graph that the program does not have.
"""

from __future__ import annotations

import contextlib
import dis
import inspect
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from msgspec import Struct, field
from torch.utils._pytree import keystr, tree_flatten, tree_flatten_with_path, tree_map

from pytest_graphbreak.model.places import places
from pytest_graphbreak.repair.child import words_of
from pytest_graphbreak.repair.objects import PutBack, Reached
from pytest_graphbreak.repair.values import Flat, Lines, flatten, is_lazy, named

Shape = tuple[int, ...]
Shapes = dict[str, Shape]
"""Shapes by argument name: ``x``, ``batch['ids']``, ``rows[2]``."""
Dims = Mapping[str, Sequence[int]]
"""Dimensions by argument name."""

_BY_POSITION: Final = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)
"""The kinds of parameters that take one positional argument each, so without ``*args``."""


def shapes_of(model: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Shapes:
    """Return the shapes of the tensors among the arguments of a call."""
    return {name: tuple(leaf.shape) for name, leaf in tensors_of(model, args, kwargs)}


def tensors_of(
    model: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield all tensors among the arguments, each with its name (``Shapes``).

    ``model`` is the callable, whose signature has the names: ``rest[1]`` for ``*rest``. A nested
    tensor has no shape, and is left out.
    """
    names = parameters(model)
    variadic = next((x.name for x in _signature(model) if x.kind is x.VAR_POSITIONAL), "args")
    values: dict[str, Any] = dict(zip(names, args, strict=False))
    if surplus := args[len(names) :]:
        values[variadic] = surplus
    for name, value in {**values, **kwargs}.items():
        for path, leaf in tree_flatten_with_path(value)[0]:
            if isinstance(leaf, torch.Tensor) and not leaf.is_nested:
                yield name + keystr(path), leaf


def parameters(model: Any) -> list[str]:
    """Return the names of the positional parameters."""
    return [parameter.name for parameter in _signature(model) if parameter.kind in _BY_POSITION]


def _signature(model: Any) -> Sequence[inspect.Parameter]:
    """Return the parameters of a callable; none if Python does not know them."""
    called: Callable[..., Any] = model.forward if isinstance(model, torch.nn.Module) else model
    try:
        return list(inspect.signature(called).parameters.values())
    except (TypeError, ValueError):
        return []


def varying(calls: Sequence[Shapes]) -> dict[str, list[int]]:
    """Return, for each argument, the dimensions whose size is not the same in all calls.

    Of ``x`` with the shapes [4, 3] and [4, 9] that is ``{"x": [1]}``. Arguments that are not in all
    calls, or whose number of dimensions varies, are left out.
    """
    dims: dict[str, list[int]] = {}
    for name, first in calls[0].items() if calls else ():
        shapes = [call.get(name) for call in calls]
        if any(shape is None or len(shape) != len(first) for shape in shapes):
            continue
        columns = zip(*(shape for shape in shapes if shape), strict=True)
        if vary := [dim for dim, column in enumerate(columns) if len({*column}) > 1]:
            dims[name] = vary
    return dims


# Copies of what a call is given.


def store(value: Any) -> Any:
    """Return the inputs of a call as they are now, for later calls, while the program still runs.

    Lazy tensors are not copied. Nor is a leaf that requires gradients, since its gradient comes
    later, when the program calls ``backward``.
    """

    def kept(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or is_lazy(leaf):
            return leaf
        return leaf if leaf.requires_grad and leaf.is_leaf else _copy(leaf)

    return tree_map(kept, value)


def copy_of(value: Any) -> Any:
    """Return a copy of stored inputs for one call, which may change them in place.

    It is for the time after the program, when the graphs of lazy copies no longer count.
    """
    return tree_map(_copy, value)


def _copy(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    return leaf.detach().clone().requires_grad_(leaf.requires_grad)  # a leaf, without its history


class Raised(Struct, frozen=True):
    """What a call raised."""

    kind: str
    """The type of the exception."""
    words: str = ""
    """Type and message, as of an uncaught exception."""
    explicit: bool = False
    """Whether a ``raise`` or an ``assert`` of the program did it, and not an operator of torch."""


ENDLESS: Final = Raised("does not end")
"""Of a drawn call that was ended after its time (``drawing.time_limit``)."""


def raised_by(error: Exception) -> Raised:
    """Return an error as data; where Dynamo has wrapped the error of an operator, the latter.

    An ``assert`` raises by the instruction ``RAISE_VARARGS``, too.
    """
    words = words_of(error)
    kind = words.partition(":")[0] if ":" in words else type(error).__name__
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    code, at = frame.f_code, _last_instruction(error)
    explicit = dis.opname[code.co_code[at]] == "RAISE_VARARGS"
    return Raised(kind, words, explicit and places(Path.cwd()).is_written(code.co_filename))


def _last_instruction(error: BaseException) -> int:
    """Return the place in the bytecode of the innermost frame that raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_lasti if trace is not None else 0


class CallResult(Struct, frozen=True):
    """What a call gave: its result and its arguments afterwards, or what it raised.

    Only of a drawn call (``Drawing``) are there ``lines``, ``objects`` and ``changed``.
    """

    name: str
    """The name of the callable (``CompiledCall.name``)."""
    output: Flat = []
    arguments: Flat = []
    """The arguments afterwards; of a drawn call also gradients and random numbers."""
    lines: Lines = Lines()
    """What it printed and logged."""
    aliases: frozenset[tuple[str, str]] = frozenset()
    """Which tensors of the result share memory with an argument or a weight:
    ``("output 0", "weight 3")``."""
    raised: Raised | None = None
    objects: Mapping[str, Flat] = {}
    """The values of all objects afterwards, by name; large ones only if they are ``changed``."""
    changed: Collection[str] = ()
    """The names of the objects that it changed."""

    @property
    def values(self) -> Flat:
        """All that is compared of it value by value."""
        return [*self.output, *self.arguments]


class CompiledCall(Struct):
    """A compiled callable, with the inputs and the modes of its first call.

    ``Capture`` makes one for each ``torch.compile`` and fills it in at the first call of what that
    gives; ``Drawing`` puts the state back before each further call of ``compiled``.
    """

    original: Any
    """The function or module that the program compiles."""
    compiled: Callable[..., Any]
    """What the program got for it."""
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    called: bool = False
    """Whether it was called, so that the rest is filled in."""
    grad: bool = False
    """Whether gradients were computed."""
    inference: bool = False
    """Whether inference mode was on."""
    slowest: float = 0.0
    """The longest time in seconds of a call of the program's own."""
    objects: Reached = field(default_factory=lambda: Reached({}))
    """All that it reaches before its first call."""
    put_back: PutBack = lambda: None
    """Gives all of it the values from before its first call."""

    @property
    def name(self) -> str:
        """The name of the callable, which is the class of a module."""
        return str(getattr(self.original, "__qualname__", type(self.original).__qualname__))


def result_of(entry: CompiledCall, result: Any, args: Any, kwargs: Any) -> CallResult:
    """Return the result and the arguments of a call, as they are when it has returned."""
    inputs = dict(_storages({"argument": (args, kwargs)}))
    for module in entry.objects.modules:
        inputs |= dict(_storages({"weight": [*module.parameters(), *module.buffers()]}))
    aliases = {(path, inputs[key]) for key, path in _storages({"output": result}) if key in inputs}
    arguments = named({"arguments": args, "keywords": kwargs})
    return CallResult(entry.name, flatten(result, "output"), arguments, aliases=frozenset(aliases))


def _storages(parts: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Yield the address of the memory of each tensor, with its name: ``weight 3``.

    Tensors without memory of their own kind, sparse and lazy ones, are left out, and empty ones.
    """
    for name, part in parts.items():
        for number, leaf in enumerate(tree_flatten(part)[0]):
            is_dense = isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided
            if is_dense and leaf.numel() and not is_lazy(leaf):
                yield leaf.untyped_storage().data_ptr(), f"{name} {number}"


@contextlib.contextmanager
def mode(entry: CompiledCall, grad: bool | None = None) -> Iterator[None]:
    """Run a block in the modes of the program's first call, or with or without gradients.

    ``grad`` is None for gradients as the program has them; True also ends inference mode.
    """
    enabled = entry.grad if grad is None else grad
    with torch.inference_mode(entry.inference and not grad), torch.set_grad_enabled(enabled):
        yield
