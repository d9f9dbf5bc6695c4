"""Takes the arguments of functions out of a running, uncompiled program.

This runs in the process of ``child``. A profile function looks at each Python call; the first call
of each wanted function is written to files, with everything that is needed to call it again. If its
first argument is a module, the names in the program that hold this module are recorded too:
``loading`` finds out what makes them.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from pytest_graphbreak.repair.steady import seed

Answer = dict[str, Any]


def work(order: Answer, go: Callable[[Callable[[], Any]], Any]) -> Answer:
    """Run the target and cut out the functions in ``order["cut"]``: pairs of file and function."""
    import torch

    from pytest_graphbreak.model.places import places

    cutter = _FrameCutter(
        {tuple(pair) for pair in order["cut"]},
        places(Path.cwd()),
        Path(order["folder"]),
        os.path.abspath(order["path"]),
    )
    error: list[str] = []

    @contextmanager
    def around() -> Iterator[None]:
        seed()
        try:
            with torch.compiler.set_stance("force_eager"):
                sys.setprofile(cutter.look)
                try:
                    yield
                finally:
                    sys.setprofile(None)
        except KeyboardInterrupt:
            raise
        except BaseException as raised:
            error.append(f"{type(raised).__name__}: {raised}")

    go(around)
    return {"cuts": cutter.cuts, "error": error[0] if error else None}


class _FrameCutter:
    """Finds the wanted frames, and saves each once."""

    def __init__(
        self, wanted: set[tuple[str, ...]], places: Any, folder: Path, program: str
    ) -> None:
        self.cuts: dict[str, Answer] = {}
        self._wanted = wanted
        self._places = places
        self._folder = folder
        self._program = program
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
            self.cuts["\n".join(key)] = {"why": f"{type(error).__name__}: {error}"[:200]}
        finally:
            sys.setprofile(self.look)

    def _cut(self, frame: FrameType, function: str) -> Answer:
        import torch

        from pytest_graphbreak.repair.compare import digest

        if frame.f_code.co_flags & inspect.CO_GENERATOR:
            return {"why": "it is a generator"}
        args, kwargs = _arguments(frame)
        stem = self._folder / f"cut{len(self.cuts)}"
        module = args[0] if args and isinstance(args[0], torch.nn.Module) else None
        method = _method(module, frame.f_code, function) if module is not None else ""
        answer: Answer = {
            "module": frame.f_globals.get("__name__", ""),
            "method": method,
            "grad": torch.is_grad_enabled(),
        }
        if "<locals>" in function and not method:
            answer["why"] = "it is defined inside a function"
            answer["path"] = _rest(args, kwargs, stem) | {
                "weights": None,
                "found": _named(frame, self._program),
            }
            return answer
        answer |= _kept(args, kwargs, Path(f"{stem}.pt"))
        if module is not None:
            state = Path(f"{stem}_state.pt")
            torch.save(module.state_dict(), state)
            answer["path"] = _rest(args[1:], kwargs, stem) | {
                "state": str(state),
                "training": module.training,
                "weights": digest(module),
                "found": _holders(frame, module, self._program),
            }
        return answer


def _method(module: Any, code: CodeType, function: str) -> str:
    """Return the method of a module that runs this code, directly or inside a decorator, or ""."""
    for name in dict.fromkeys(("forward", code.co_name)):
        method = getattr(type(module), name, None)
        while method is not None:
            if getattr(method, "__code__", None) is code:
                return name
            method = getattr(method, "__wrapped__", None)
    return "" if "." not in function or "<locals>" in function else function.rpartition(".")[2]


def _rest(args: list[Any], kwargs: Answer, stem: Path) -> Answer:
    """Return the inputs of a call, inline or in a file.

    ``move`` says whether the script moves them to a device.
    """
    import torch
    from torch.utils._pytree import tree_flatten, tree_map_only

    inline = _inline(args, kwargs)
    leaves = [one for one in tree_flatten((args, kwargs))[0] if isinstance(one, torch.Tensor)]
    move = inline is None and bool(leaves) and all(one.device.type == "xla" for one in leaves)
    if move:  # kept on the CPU
        args, kwargs = tree_map_only(
            torch.Tensor,
            lambda one: one.detach().cpu().requires_grad_(one.requires_grad),
            (args, kwargs),
        )
    return {**_kept(args, kwargs, Path(f"{stem}_inputs.pt")), "inline": inline, "move": move}


def _arguments(frame: FrameType) -> tuple[list[Any], Answer]:
    """Return the positional and the keyword arguments that a frame was called with."""
    given = inspect.getargvalues(frame)
    args = [given.locals[name] for name in given.args]
    if given.varargs:
        args += given.locals[given.varargs]
    count = frame.f_code.co_argcount
    only = frame.f_code.co_varnames[count : count + frame.f_code.co_kwonlyargcount]
    args = args[:count] + args[count + len(only) :] if only else args
    kwargs = {name: given.locals[name] for name in only}
    if given.keywords:
        kwargs |= given.locals[given.keywords]
    return args, kwargs


def _kept(args: list[Any], kwargs: Answer, file: Path) -> Answer:
    """Save arguments, and return where, or the reason if they cannot be saved."""
    import torch

    try:
        torch.save({"args": args, "kwargs": kwargs}, file)
        needs = _needs(file)
    except Exception as error:
        return {"why": f"{type(error).__name__}: {error}"[:200]}
    return {"file": str(file), "inline": _inline(args, kwargs), "needs": needs}


def _holders(frame: FrameType, module: Any, program: str) -> list[Answer]:
    """Return the names in the program's file that hold the module, largest models first.

    ``spot`` is the function that has the name: its own name, its first line, the line that is
    running, and the source of its plain arguments. It is None for the module, whose running line is
    ``line``.
    """
    found: list[Answer] = []
    for where, names in _namespaces(frame, program):
        for name, expression, value in _modules(names):
            root = getattr(value, "_orig_mod", value)
            path = next((p for p, one in root.named_modules() if one is module), None)
            if path is not None:
                path = ".".join(part for part in path.split(".") if part != "_orig_mod")
                one = {"name": name, "expression": expression, "path": path}
                found.append(one | {"root": type(root).__name__} | where)
    found.sort(key=lambda one: -len(one["path"].split(".")) if one["path"] else 0)
    return found


def _named(frame: FrameType, program: str) -> list[Answer]:
    """Return the names of the function that a frame runs, in the form of ``_holders``."""
    found: list[Answer] = []
    for where, names in _namespaces(frame, program):
        for name, value in list(names.items()):
            own = getattr(value, "_torchdynamo_orig_callable", value)
            if getattr(own, "__code__", None) is frame.f_code:
                found.append({"name": name, "expression": name, "path": "", "root": ""} | where)
    return found


def _namespaces(frame: FrameType, program: str) -> list[tuple[Answer, dict[str, Any]]]:
    """Return the namespaces of the program's running functions and of its module."""
    every: list[tuple[Answer, dict[str, Any]]] = []
    line = None
    shared: dict[str, Any] | None = None
    outer: FrameType | None = frame
    while outer is not None:
        code = outer.f_code
        if os.path.abspath(code.co_filename) == program:
            shared = outer.f_globals
            if code.co_name == "<module>":
                line = outer.f_lineno
            elif not code.co_name.startswith("<"):
                literals = {
                    name: text
                    for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
                    if (text := _plain(outer.f_locals.get(name, ...))) is not None
                }
                spot = (code.co_name, code.co_firstlineno, outer.f_lineno, literals)
                every.append(({"spot": spot}, dict(outer.f_locals)))
        outer = outer.f_back
    if shared is not None:
        every.append(({"spot": None}, shared))
    return [(where | {"line": line}, names) for where, names in every]


def _modules(names: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield each module in a namespace, its lists and dicts, and attributes of its objects."""
    import types

    import torch

    fixed = (type, types.ModuleType, types.FunctionType, types.MethodType)
    for name, value in list(names.items()):
        # ``self`` is never made by a statement, and some names of pytest are not identifiers.
        if name.startswith("__") or name == "self" or not name.isidentifier():
            continue
        inside: list[tuple[str, Any]] = []
        if isinstance(value, torch.nn.Module):
            inside = [("", value)]
        elif isinstance(value, dict):
            keys = [key for key in list(value)[:64] if isinstance(key, str | int)]
            inside = [(f"[{key!r}]", value[key]) for key in keys]
        elif isinstance(value, list | tuple):
            inside = [(f"[{number}]", one) for number, one in enumerate(value[:64])]
        elif not isinstance(value, fixed) and hasattr(value, "__dict__"):
            inside = [(f".{key}", one) for key, one in list(vars(value).items())[:64]]
        for tail, one in inside:
            if isinstance(one, torch.nn.Module):
                yield name, name + tail, one


def _plain(value: Any) -> str | None:
    """Return the source of an argument that is a plain value, or None."""
    import torch

    if value is None or type(value) in (bool, int, str, torch.dtype):
        return repr(value) if len(repr(value)) < 80 else None
    if type(value) is float and value == value and abs(value) != float("inf"):
        return repr(value)
    return None


def _inline(args: list[Any], kwargs: dict[str, Any]) -> str | None:
    """Return the arguments as Python source if all of them are small, else None."""
    parts = [_literal(value) for value in args]
    parts += [None if (t := _literal(v)) is None else f"{k}={t}" for k, v in kwargs.items()]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or sum(map(len, known)) > 400:
        return None
    return ", ".join(known)


def _literal(value: Any) -> str | None:
    import torch

    if (plain := _plain(value)) is not None:
        return plain
    if type(value) is torch.Tensor and value.numel() <= 16 and value.device.type in ("cpu", "xla"):
        if value.layout != torch.strided or not value.is_contiguous() or not value.is_leaf:
            return None
        if value.is_floating_point() and not torch.isfinite(value).all():
            return None
        grad = ", requires_grad=True" if value.requires_grad else ""
        if value.device.type == "xla":  # the script defines ``device``
            made = f"torch.tensor({value.tolist()!r}, dtype={value.dtype}).to(device)"
            return f"{made}.requires_grad_()" if grad else made
        return f"torch.tensor({value.tolist()!r}, dtype={value.dtype}{grad})"
    return None


def _needs(file: Path) -> list[str]:
    """Return the names of ``__main__`` that a saved file refers to."""
    with zipfile.ZipFile(file) as packed:
        name = next(one for one in packed.namelist() if one.endswith("data.pkl"))
        data = packed.read(name)
    return sorted({found.decode() for found in re.findall(rb"c__main__\n(\w+)", data)})
