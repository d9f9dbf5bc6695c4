"""Calls of compiled code: what a call is given, and what it gives or raises."""

from __future__ import annotations

import contextlib
import dis
import io
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import torch
from msgspec import Struct, field
from torch.utils._pytree import tree_flatten

from pytest_graphbreak.model.places import places
from pytest_graphbreak.repair import sizes
from pytest_graphbreak.repair.compare import Flat, flatten, named
from pytest_graphbreak.repair.copies import is_lazy
from pytest_graphbreak.repair.failure import describe
from pytest_graphbreak.repair.objects import Put, Reached
from pytest_graphbreak.repair.printed import Lines
from pytest_graphbreak.repair.steady import log_lines


class Raised(Struct, frozen=True):
    """What a call raised: ``explicit`` is whether a ``raise`` or ``assert`` of the program did."""

    kind: str
    words: str = ""
    explicit: bool = False


class CallResult(Struct, frozen=True):
    """What a call gave: its result and its arguments afterwards, or what it raised.

    ``name`` is the callable's. Of a call with drawn inputs ``objects`` are the values of all
    objects afterwards, large ones only where they are ``changed``.
    """

    name: str
    output: Flat = []
    arguments: Flat = []
    """The arguments afterwards; of a drawn call also gradients and random numbers."""
    lines: Lines = Lines()
    aliases: frozenset[tuple[str, str]] = frozenset()
    """Which tensors of the result share memory with an argument or a weight."""
    raised: Raised | None = None
    objects: Mapping[str, Flat] = {}
    changed: Collection[str] = ()

    @property
    def values(self) -> Flat:
        return [*self.output, *self.arguments]


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
    objects: Reached = field(default_factory=lambda: Reached({}))
    """All that it reaches before its first call."""
    put_back: Put = lambda: None
    """Gives all of it the values from before its first call."""

    @property
    def name(self) -> str:
        return sizes.name_of(self.original)


def result_of(entry: CompiledCall, result: Any, args: Any, kwargs: Any) -> CallResult:
    """Return the result and the arguments of a call, as they are when it has returned."""
    inputs = dict(_storages({"argument": (args, kwargs)}))
    for module in entry.objects.modules:
        inputs |= dict(_storages({"weight": [*module.parameters(), *module.buffers()]}))
    aliases = {(path, inputs[key]) for key, path in _storages({"output": result}) if key in inputs}
    arguments = named({"arguments": args, "keywords": kwargs})
    return CallResult(entry.name, flatten(result, "output"), arguments, aliases=frozenset(aliases))


def _storages(parts: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    for name, part in parts.items():
        for number, leaf in enumerate(tree_flatten(part)[0]):
            is_dense = isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided
            if is_dense and leaf.numel() and not is_lazy(leaf):
                yield leaf.untyped_storage().data_ptr(), f"{name} {number}"


def raised_by(error: Exception) -> Raised:
    """Return an error as data: that of an operator, where Dynamo wraps it in its own."""
    words: str = describe(error)["error"]
    kind = words.partition(":")[0] if ":" in words else type(error).__name__
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    code, at = frame.f_code, _last_instruction(error)
    explicit = dis.opname[code.co_code[at]] == "RAISE_VARARGS"
    return Raised(kind, words, explicit and places(Path.cwd()).is_written(code.co_filename))


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
def mode(entry: CompiledCall, grad: bool | None = None) -> Iterator[None]:
    """Call as the program did, or with or without gradients (``grad``)."""
    enabled = entry.grad if grad is None else grad
    with torch.inference_mode(entry.inference and not grad), torch.set_grad_enabled(enabled):
        yield
