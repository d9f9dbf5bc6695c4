"""Takes the arguments of functions out of a running, uncompiled program, for ``graphbreak repro``.

It runs in a process of its own, which ``Repro`` orders with the functions around the breaks, and
where ``child`` calls ``work``. Python calls ``_FrameCutter.look`` at each call of it.
The arguments of the first call of each wanted function are saved in a file. A ``CutFunction`` says
how a script can get at the function once it has loaded the program: from what the program compiles,
by the path of a module in it (``_by_path``), or by its name (``_by_name``).
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import msgspec
import torch
from msgspec.structs import replace

from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.model.places import places
from pytest_graphbreak.repair.capture import Capture
from pytest_graphbreak.repair.child import Go
from pytest_graphbreak.repair.writing import CutFunction, CutOrder

_RUN_LATER: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
"""The flags of code that a call only begins."""
_LONGEST: Final = 400
"""The most characters of arguments that are written into a script; longer ones are in a file."""


def work(ordered: Plain, go: Go) -> Plain:
    """Carry out a ``CutOrder``; of each function the answer has a ``CutFunction``."""
    capture = Capture()
    cutter = _FrameCutter(msgspec.convert(ordered, CutOrder), capture)
    # What the program raises is dropped: its first run has told it. What was cut before is used.
    capture.run_uncompiled(go, cutter.looking())
    return {"cuts": msgspec.to_builtins(cutter.cuts)}


class _FrameCutter:
    """Finds the calls of the wanted functions, and saves the first one of each.

    ``looking`` is open while the program runs. Python then calls ``look`` for each call of a Python
    function, and for what else it tells a profile function, such as returns.
    """

    def __init__(self, order: CutOrder, capture: Capture) -> None:
        self.cuts: dict[str, CutFunction] = {}
        """By ``net.py\\nNet.forward``: an answer is JSON, whose keys are texts."""
        self._wanted = {*order.functions}
        self._places = places(Path.cwd())
        self._folder = Path(order.folder)
        self._capture = capture
        self._program = Path(order.path).resolve()
        self._names: dict[CodeType, tuple[str, str] | None] = {}
        """All code that was called, with its file and function if it is wanted, else None. A name
        is worked out once, since the program makes very many calls."""

    @contextmanager
    def looking(self) -> Iterator[None]:
        sys.setprofile(self.look)
        try:
            yield
        finally:
            sys.setprofile(None)

    def look(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code not in self._names:
            place = self._places.frame(code.co_filename, code.co_firstlineno, code.co_name)
            name = (place.file, place.function)
            self._names[code] = name if name in self._wanted else None
        key = self._names[code]
        if key is None or "\n".join(key) in self.cuts:
            return
        sys.setprofile(None)  # what is called to save it is not the program's
        try:
            self.cuts["\n".join(key)] = self._cut(frame, key[1])
        except Exception as error:
            self.cuts["\n".join(key)] = CutFunction(why=_words(error))
        finally:
            sys.setprofile(self.look)

    def _cut(self, frame: FrameType, function: str) -> CutFunction:
        """Return how a script can call what this frame runs, and save the arguments."""
        if frame.f_code.co_flags & _RUN_LATER:
            return CutFunction(why="it is a generator or a coroutine, which a call only begins")
        args, kwargs = _arguments(frame)
        module = args[0] if args and isinstance(args[0], torch.nn.Module) else None
        cut = self._by_path(frame.f_code, module) or self._by_name(frame, function)
        if cut.why:
            return cut
        # Reached by its path, a method is called on its module, which is its first argument.
        is_bound = cut.by_path and module is not None
        inputs = args[1:] if is_bound else args
        file = self._folder / f"cut{len(self.cuts)}.pt"
        torch.save({"args": inputs, "kwargs": kwargs}, file)
        inline, grad = arguments_source(inputs, kwargs), torch.is_grad_enabled()
        return replace(cut, file=str(file), inline=inline, grad=grad)

    def _by_path(self, code: CodeType, module: Any) -> CutFunction | None:
        """Return the way to a module, or to a function, from what the program compiles.

        ``full_model``, ``full_model.get_submodule("layers.0")``, or
        ``full_model.__self__.get_submodule("head").score`` for another method than ``forward``.
        """
        for number, entry in enumerate(self._capture.entries):
            if module is None:  # a function that has no module as its first argument
                if getattr(inspect.unwrap(entry.original), "__code__", None) is code:
                    what = "as the program compiles it"
                    return CutFunction("full_model", what, number, by_path=True)
                continue
            for expression, root in _roots(entry.original):
                parts = root.named_modules() if isinstance(root, torch.nn.Module) else ()
                path = next((name for name, child in parts if child is module), None)
                if path is None:
                    continue
                kind, name = type(root).__name__, code.co_name
                what = f"{path} of {kind} by its path" if path else f"{kind} as loaded"
                expression += f'.get_submodule("{path}")' if path else ""
                is_method = name != "forward" and getattr(type(module), name, None) is not None
                expression += f".{name}" if is_method else ""
                return CutFunction(expression, what, number, by_path=True)
        return None

    def _by_name(self, frame: FrameType, function: str) -> CutFunction:
        """Return the way to a function by its qualified name.

        ``program["Net"].forward`` of the program's own file, whose variables a script has as a
        dict; ``sys.modules["package.net"].Net.forward`` of a module that it imports.
        """
        if "<locals>" in function:
            return CutFunction(why="it is defined inside a function")
        if Path(frame.f_code.co_filename).resolve() == self._program:
            first, dot, attribute = function.partition(".")
            return CutFunction(f'program["{first}"]{dot}{attribute}')
        return CutFunction(f'sys.modules["{frame.f_globals.get("__name__", "")}"].{function}')


def _roots(original: Any) -> Iterator[tuple[str, Any]]:
    """Yield each object that the compiled callable holds, with the Python by which it is reached.

    These are the callable itself, the owner of a bound method (``model.generate``), and the
    variables of a function: those of the functions around it, and global ones.
    """
    yield "full_model", original
    yield "full_model.__self__", getattr(original, "__self__", None)
    function = inspect.unwrap(getattr(original, "__func__", original))
    if inspect.isfunction(function):
        names = inspect.getclosurevars(function)
        for name, value in names.nonlocals.items():
            yield f'inspect.getclosurevars(full_model).nonlocals["{name}"]', value
        for name, value in names.globals.items():
            yield f'full_model.__globals__["{name}"]', value


def _arguments(frame: FrameType) -> tuple[list[Any], Plain]:
    """Return the positional and the keyword arguments that a frame was called with.

    The frame is that of a call that begins, so its variables are still what was given to it.
    """
    values = inspect.getargvalues(frame)
    args = [values.locals[name] for name in values.args]
    if values.varargs:
        args += values.locals[values.varargs]
    count = frame.f_code.co_argcount
    only = frame.f_code.co_varnames[count : count + frame.f_code.co_kwonlyargcount]
    # Keyword-only arguments stand between the positional ones and those of ``*args``.
    args = args[:count] + args[count + len(only) :] if only else args
    kwargs = {name: values.locals[name] for name in only}
    if values.keywords:
        kwargs |= values.locals[values.keywords]
    return args, kwargs


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]


def arguments_source(args: list[Any], kwargs: dict[str, Any]) -> str | None:
    """Return the arguments as Python source if all of them are small, else None."""
    parts = [_literal(value) for value in args]
    for name, value in kwargs.items():
        text = _literal(value)
        parts.append(None if text is None else f"{name}={text}")
    texts = [part for part in parts if part is not None]
    if len(texts) < len(parts) or sum(map(len, texts)) > _LONGEST:
        return None
    return ", ".join(texts)


def _literal(value: Any) -> str | None:
    """Return a value as source, None if it is long or source does not give exactly this value."""
    if value is None or type(value) in (bool, int, str, torch.dtype):
        return repr(value) if len(repr(value)) < 80 else None
    if type(value) is float and math.isfinite(value):
        return repr(value)
    if type(value) is torch.Tensor and value.numel() <= 16 and value.device.type in ("cpu", "xla"):
        if value.layout != torch.strided or not value.is_contiguous() or not value.is_leaf:
            return None
        if not torch.isfinite(value).all():
            return None
        if 0 in value.shape[:-1]:  # as a list, (0, 3) is [], of which torch makes (0,)
            return None
        grad = ", requires_grad=True" if value.requires_grad else ""
        if value.device.type == "xla":  # the script defines ``device``
            tensor = f"torch.tensor({value.tolist()!r}, dtype={value.dtype}).to(device)"
            return f"{tensor}.requires_grad_()" if grad else tensor
        return f"torch.tensor({value.tolist()!r}, dtype={value.dtype}{grad})"
    return None
