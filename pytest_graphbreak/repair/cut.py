"""Takes the arguments of functions out of a running, uncompiled program.

This runs in the process of ``child``. A profile function looks at each Python call; the first call
of each wanted function is written to files, with what leads to it from what the program compiles:
the path of its module, or its name.
"""

from __future__ import annotations

import inspect
import re
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import msgspec
import torch
from msgspec.structs import replace

from pytest_graphbreak.model.places import places
from pytest_graphbreak.repair.capture import Capture
from pytest_graphbreak.repair.failure import store_error
from pytest_graphbreak.repair.loading import CutFunction, ModulePath, SavedInputs
from pytest_graphbreak.repair.steady import seed

Answer = dict[str, Any]

_LONGEST = 400
"""The number of characters of arguments that are written into a script."""


def work(order: Answer, go: Callable[[Callable[[], Any]], Any]) -> Answer:
    """Run the target and cut out the functions in ``order["cut"]``: pairs of file and function."""
    capture = Capture()
    cutter = _FrameCutter(
        {tuple(pair) for pair in order["cut"]}, Path(order["folder"]), capture, order["path"]
    )

    @contextmanager
    def window() -> Iterator[None]:
        seed()
        # The run before has shown what it raises; what was cut until then is used.
        with store_error({}), torch.compiler.set_stance("force_eager"):
            sys.setprofile(cutter.look)
            try:
                yield
            finally:
                sys.setprofile(None)

    with capture.install():
        go(window)
    return {"cuts": msgspec.to_builtins(cutter.cuts)}


class _FrameCutter:
    """Finds the wanted frames, and saves each once."""

    def __init__(
        self, functions: set[tuple[str, ...]], folder: Path, capture: Capture, program: str
    ) -> None:
        self.cuts: dict[str, CutFunction] = {}
        self._wanted = functions
        self._places = places(Path.cwd())
        self._folder = folder
        self._capture = capture
        self._program = Path(program).resolve()
        self._names: dict[CodeType, tuple[str, str] | None] = {}

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
        sys.setprofile(None)
        try:
            self.cuts["\n".join(key)] = self._cut(frame, key[1])
        except Exception as error:
            self.cuts["\n".join(key)] = CutFunction(why=_words(error))
        finally:
            sys.setprofile(self.look)

    def _cut(self, frame: FrameType, function: str) -> CutFunction:
        """Return the arguments of a call and how a script comes by what is called."""
        if frame.f_code.co_flags & inspect.CO_GENERATOR:
            return CutFunction(why="it is a generator")
        args, kwargs = _arguments(frame)
        module = args[0] if args and isinstance(args[0], torch.nn.Module) else None
        method = _method(module, frame.f_code, function) if module is not None else ""
        name = frame.f_globals.get("__name__", "")
        mine = Path(frame.f_code.co_filename).resolve() == self._program
        stem = self._folder / f"cut{len(self.cuts)}"
        path = None
        for number, entry in enumerate(self._capture.entries):
            if way := _path(entry.original, module, frame.f_code):
                inputs = _save(args[module is not None :], kwargs, Path(f"{stem}_inputs.pt"))
                path = replace(way, number=number, inputs=_if_saved(inputs))
                break
        cut = CutFunction("" if mine else name, method, torch.is_grad_enabled(), path)
        if "<locals>" in function and not method:
            return replace(cut, why="it is defined inside a function")
        inputs = _save(args, kwargs, Path(f"{stem}.pt"))
        return replace(cut, inputs=_if_saved(inputs), why=inputs if isinstance(inputs, str) else "")


def _if_saved(inputs: SavedInputs | str) -> SavedInputs | None:
    return None if isinstance(inputs, str) else inputs


def _path(original: Any, module: Any, code: CodeType) -> ModulePath | None:
    """Return the expression for a module, or for a function, from ``full_model`` on."""
    if module is None:
        same = getattr(inspect.unwrap(original), "__code__", None) is code
        return ModulePath("full_model", "as the program compiles it") if same else None
    for expression, root in _roots(original):
        if isinstance(root, torch.nn.Module):
            path = next((name for name, child in root.named_modules() if child is module), None)
            if path is not None:
                name = type(root).__name__
                what = f"{path} of {name} by its path" if path else f"{name} as loaded"
                tail = f'.get_submodule("{path}")' if path else ""
                return ModulePath(f"{expression}{tail}", what)
    return None


def _roots(original: Any) -> Iterator[tuple[str, Any]]:
    """Yield the objects that what is compiled holds: itself, its owner, and its variables."""
    yield "full_model", original
    yield "full_model.__self__", getattr(original, "__self__", None)
    function = inspect.unwrap(getattr(original, "__func__", original))
    if inspect.isfunction(function):
        names = inspect.getclosurevars(function)
        for name, value in names.nonlocals.items():
            yield f'inspect.getclosurevars(full_model).nonlocals["{name}"]', value
        for name, value in names.globals.items():
            yield f'full_model.__globals__["{name}"]', value


def _method(module: Any, code: CodeType, function: str) -> str:
    """Return the method of a module that runs this code, directly or inside a decorator, or ""."""
    for name in dict.fromkeys(("forward", code.co_name)):
        method = getattr(type(module), name, None)
        while method is not None:
            if getattr(method, "__code__", None) is code:
                return name
            method = getattr(method, "__wrapped__", None)
    return "" if "." not in function or "<locals>" in function else function.rpartition(".")[2]


def _arguments(frame: FrameType) -> tuple[list[Any], Answer]:
    """Return the positional and the keyword arguments that a frame was called with."""
    values = inspect.getargvalues(frame)
    args = [values.locals[name] for name in values.args]
    if values.varargs:
        args += values.locals[values.varargs]
    count = frame.f_code.co_argcount
    only = frame.f_code.co_varnames[count : count + frame.f_code.co_kwonlyargcount]
    args = args[:count] + args[count + len(only) :] if only else args
    kwargs = {name: values.locals[name] for name in only}
    if values.keywords:
        kwargs |= values.locals[values.keywords]
    return args, kwargs


def _save(args: list[Any], kwargs: Answer, file: Path) -> SavedInputs | str:
    """Save arguments, and return where, or the reason why they cannot be saved."""
    try:
        torch.save({"args": args, "kwargs": kwargs}, file)
        needs = _needs(file)
    except Exception as error:
        return _words(error)
    return SavedInputs(str(file), _inline(args, kwargs), needs)


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]


def _inline(args: list[Any], kwargs: dict[str, Any]) -> str | None:
    """Return the arguments as Python source if all of them are small, else None."""
    parts = [_literal(value) for value in args]
    parts += [None if (t := _literal(v)) is None else f"{k}={t}" for k, v in kwargs.items()]
    texts = [part for part in parts if part is not None]
    if len(texts) < len(parts) or sum(map(len, texts)) > _LONGEST:
        return None
    return ", ".join(texts)


def _literal(value: Any) -> str | None:
    if (text := _plain(value)) is not None:
        return text
    if type(value) is torch.Tensor and value.numel() <= 16 and value.device.type in ("cpu", "xla"):
        if value.layout != torch.strided or not value.is_contiguous() or not value.is_leaf:
            return None
        if value.is_floating_point() and not torch.isfinite(value).all():
            return None
        grad = ", requires_grad=True" if value.requires_grad else ""
        if value.device.type == "xla":  # the script defines ``device``
            tensor = f"torch.tensor({value.tolist()!r}, dtype={value.dtype}).to(device)"
            return f"{tensor}.requires_grad_()" if grad else tensor
        return f"torch.tensor({value.tolist()!r}, dtype={value.dtype}{grad})"
    return None


def _plain(value: Any) -> str | None:
    """Return the source of an argument that is a plain value, or None."""
    if value is None or type(value) in (bool, int, str, torch.dtype):
        return repr(value) if len(repr(value)) < 80 else None
    if type(value) is float and value == value and abs(value) != float("inf"):
        return repr(value)
    return None


def _needs(file: Path) -> list[str]:
    """Return the names of ``__main__`` that a saved file refers to."""
    with zipfile.ZipFile(file) as packed:
        name = next(entry for entry in packed.namelist() if entry.endswith("data.pkl"))
        data = packed.read(name)
    return sorted({match.decode() for match in re.findall(rb"c__main__\n(\w+)", data)})
