"""Takes the arguments of functions out of a running program, uncompiled.

Runs in the process of ``child``. A profile function looks at each Python call;
the first call of each function that is asked for is written to a file, with
all that it needs to be called again.
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

from pytest_graphbreak.repair.capture import seed

Answer = dict[str, Any]


def work(order: Answer, go: Callable[[Callable[[], Any]], Any]) -> Answer:
    """Run the target and cut out the functions ``order["cut"]``: pairs of file and function."""
    import torch

    from pytest_graphbreak.measure import places

    knife = _Knife(
        {tuple(pair) for pair in order["cut"]}, places(Path.cwd()), Path(order["folder"])
    )
    error: list[str] = []

    @contextmanager
    def around() -> Iterator[None]:
        seed()
        try:
            with torch.compiler.set_stance("force_eager"):
                sys.setprofile(knife.look)
                try:
                    yield
                finally:
                    sys.setprofile(None)
        except KeyboardInterrupt:
            raise
        except BaseException as raised:
            error.append(f"{type(raised).__name__}: {raised}")

    go(around)
    return {"cuts": knife.cuts, "error": error[0] if error else None}


class _Knife:
    """Finds the frames that are wanted, and saves each once."""

    def __init__(self, wanted: set[tuple[str, ...]], places: Any, folder: Path) -> None:
        self.cuts: dict[str, Answer] = {}
        self._wanted = wanted
        self._places = places
        self._folder = folder
        self._known: dict[CodeType, tuple[str, str] | None] = {}

    def look(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code not in self._known:
            place = self._places.frame(code.co_filename, code.co_firstlineno, code.co_name)
            name = (place.file, place.function)
            self._known[code] = name if name in self._wanted else None
        key = self._known[code]
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

        if "<locals>" in function:
            return {"why": "it is defined inside a function"}
        if frame.f_code.co_flags & inspect.CO_GENERATOR:
            return {"why": "it is a generator"}
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
        file = self._folder / f"cut{len(self.cuts)}.pt"
        torch.save({"args": args, "kwargs": kwargs}, file)
        return {
            "file": str(file),
            "module": frame.f_globals.get("__name__", ""),
            "method": bool("." in function and args and isinstance(args[0], torch.nn.Module)),
            "grad": torch.is_grad_enabled(),
            "inline": _inline(args, kwargs),
            "needs": _needs(file),
        }


def _inline(args: list[Any], kwargs: dict[str, Any]) -> str | None:
    """The arguments as Python source, where all of them are small."""
    parts = [_literal(value) for value in args]
    parts += [None if (t := _literal(v)) is None else f"{k}={t}" for k, v in kwargs.items()]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or sum(map(len, known)) > 400:
        return None
    return ", ".join(known)


def _literal(value: Any) -> str | None:
    import torch

    if isinstance(value, bool | int | str | type(None)) and len(repr(value)) < 80:
        return repr(value)
    if isinstance(value, float) and value == value and abs(value) != float("inf"):
        return repr(value)
    if type(value) is torch.Tensor and value.numel() <= 16 and value.device.type in ("cpu", "xla"):
        if value.layout != torch.strided or not value.is_contiguous() or not value.is_leaf:
            return None
        if value.is_floating_point() and not torch.isfinite(value).all():
            return None
        grad = ", requires_grad=True" if value.requires_grad else ""
        if value.device.type == "xla":  # ``device`` is a name of the script
            made = f"torch.tensor({value.tolist()!r}, dtype={value.dtype}).to(device)"
            return f"{made}.requires_grad_()" if grad else made
        return f"torch.tensor({value.tolist()!r}, dtype={value.dtype}{grad})"
    return None


def _needs(file: Path) -> list[str]:
    """The names of ``__main__`` that a saved file refers to."""
    with zipfile.ZipFile(file) as packed:
        name = next(one for one in packed.namelist() if one.endswith("data.pkl"))
        data = packed.read(name)
    return sorted({found.decode() for found in re.findall(rb"c__main__\n(\w+)", data)})
