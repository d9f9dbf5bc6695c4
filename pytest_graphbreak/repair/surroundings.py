"""The surroundings of a program: what it shares with others, alike for each run, and compared.

In the order of this module:

- Random numbers: each run begins with the same (``seed``), also on a device (``steady_random``).
- The device has to end its work before what it did is counted (``wait``).
- What a program shares with others at its end (``shared_values``) is compared.
- What it logs, prints and warns of: noted while it runs (``log_lines``, ``plain_warnings``), and
  noted and not shown in calls that are made again (``silence``).
- The files that it opens for writing are noted, compared, and put back (``WrittenFiles``). Only
  files at or below the working directory, and only what Python opens: not what native code writes
  (``torch.save``), nor other processes.
"""

from __future__ import annotations

import io
import logging
import os
import random
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any, Final

import torch

from pytest_graphbreak.layers.hooks import Hook, RuntimePatch
from pytest_graphbreak.repair.values import Flat, Lines, flatten

_MOST: Final = 2**24
"""Bytes of a file that are kept."""
_WRITES: Final = os.O_WRONLY | os.O_RDWR
"""The flags of ``os.open`` with which a file may be written."""
_NAMES: Final = (str, bytes, os.PathLike)
"""Types of the names of files. ``open`` also takes the number of a file that is open already."""
_OF_TOOLS: Final = ("TORCH", "TRITON", "KINETO", "PYTEST", "GRAPHBREAK", "XLA", "PJRT")
"""How variables of the environment begin that compilers and test runners set."""


def seed(number: int = 0) -> None:
    """Seed torch, Python and numpy, for the same random numbers in every run."""
    torch.manual_seed(number)
    random.seed(number)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(number)


def inductor_random_as_eager() -> None:
    """Use eager's random numbers in inductor too, since its own would differ."""
    import torch._inductor.config as config

    config.fallback_random = True


_steady: Final[list[Any]] = []
"""The step of torch_xla that ``steady_random`` has put in."""


def steady_random() -> None:
    """Let the device draw the same numbers after a step of torch_xla as without it.

    A step sets the next seed. A compilation contains one, so a program with fewer graphs would draw
    other inputs than the original, and its results could not be compared.

    So a step of torch_xla is wrapped: ``state`` notes the seed before it, ``put_back`` sets that
    seed again after it. ``fail`` is called if one of the two raises.
    """
    binding = getattr(sys.modules.get("torch_xla"), "_XLAC", None)
    step = getattr(binding, "_xla_step_marker", None)
    if step is None or step in _steady:
        return
    library: Any = binding

    def state(args: tuple[Any, ...]) -> tuple[int, str]:
        return library._xla_get_rng_seed(args[0]), args[0]

    def put_back(token: tuple[int, str], result: Any) -> None:
        library._xla_set_rng_seed(*token)

    def fail(call: Hook, fault: Exception) -> None:
        raise fault

    patch = RuntimePatch(library, "_xla_step_marker", state, put_back, fail)
    _steady.append(patch.patched)


def wait(*, pending: bool = True) -> None:
    """Wait until the device has finished its work; with ``pending`` also what was not begun.

    What a program leaves pending at its end makes no graph, and is counted nowhere.
    """
    if "torch_xla" in sys.modules:
        if pending:
            sys.modules["torch_xla"].sync(wait=True)
        else:
            sys.modules["torch_xla.core.xla_model"].wait_device_ops()
    elif torch.cuda.is_available():
        torch.cuda.synchronize()


def shared_values(environment: Mapping[str, str]) -> dict[str, Flat]:
    """Return what a program shares with all others.

    That is the next random numbers, two settings of torch, and the variables of the environment
    that are not as they were when the program began (``environment``).
    """
    values: dict[str, Any] = {
        "the default dtype": str(torch.get_default_dtype()),
        "grad mode": torch.is_grad_enabled(),
    }
    for name, number in next_random().items():
        values[f"the next random number of {name}"] = number
    for name in sorted({*environment, *os.environ}):
        old, new = environment.get(name), os.environ.get(name)
        if old != new and not name.startswith(_OF_TOOLS):
            values[f"${name}"] = new
    return {name: flatten(value) for name, value in values.items()}


def next_random() -> dict[str, float]:
    """Return the random number that each generator would give next: more or fewer were drawn."""
    python = random.getstate()
    numbers = {"Python": random.random()}
    random.setstate(python)
    with torch.random.fork_rng(devices=[]):
        numbers["torch"] = torch.rand((), dtype=torch.float64, device="cpu").item()
    if "numpy" in sys.modules:
        library = sys.modules["numpy"].random
        state = library.get_state()
        numbers["numpy"] = float(library.random())
        library.set_state(state)
    return numbers


@contextmanager
def log_lines() -> Iterator[list[str]]:
    """Yield the lines that loggers get within the block, but for those of torch."""
    lines: list[str] = []
    handle = logging.Logger.handle

    def note(self: logging.Logger, record: logging.LogRecord) -> None:
        if not record.name.startswith("torch"):
            lines.append(f"{record.levelname} {record.name}: {record.getMessage()}"[:500])
        handle(self, record)

    logging.Logger.handle = note  # type: ignore[method-assign]
    try:
        yield lines
    finally:
        logging.Logger.handle = handle  # type: ignore[method-assign]


@contextmanager
def silence() -> Iterator[list[str]]:
    """Yield a list; after the block it has the lines that were printed and logged in it.

    They are not shown. The list is empty within the block.
    """
    lines: list[str] = []
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), log_lines() as logged:
        yield lines
    lines += [*out.getvalue().splitlines(), *err.getvalue().splitlines(), *logged]


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Show warnings without their place, which a patch moves, and none of torch's own."""
    before = warnings.formatwarning

    def plain(message: Any, category: type[Warning], *_: Any) -> str:
        # Who warned: the first frame outside of warnings.py, which calls this function.
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_code.co_filename == warnings.__file__:
            frame = frame.f_back
        ours = frame.f_globals.get("__name__", "").partition(".")[0] == "torch"
        return "" if ours else f"{category.__name__}: {message}\n"

    warnings.formatwarning = plain  # type: ignore[assignment]
    try:
        yield
    finally:
        warnings.formatwarning = before


class WrittenFiles:
    """Notes files from ``start`` on. A hook of ``sys.addaudithook`` stays as long as the process.

    ``left_out`` are files that are too large to keep.
    """

    def __init__(self) -> None:
        self.left_out: set[str] = set()
        self._root = Path.cwd()
        self._before: dict[Path, bytes | None] = {}
        """The contents of each file before it was opened for writing; None if there was no file."""
        self._active = False

    def start(self) -> None:
        self._active = True
        sys.addaudithook(self._note)

    def _note(self, event: str, args: tuple[Any, ...]) -> None:
        if event != "open" or not self._active or not isinstance(args[0], _NAMES):
            return
        path, mode, flags = args
        # ``open`` has a mode, ``os.open`` only flags.
        writes = {*mode} & {*"wax+"} if isinstance(mode, str) else (flags or 0) & _WRITES
        if not writes:
            return
        file = Path(os.path.abspath(os.fsdecode(path)))
        if file in self._before or not file.is_relative_to(self._root) or file.suffix == ".pyc":
            return
        self._active = False  # reading it is an event as well
        try:
            small = not file.exists() or (file.is_file() and file.stat().st_size < _MOST)
            if small:
                self._before[file] = file.read_bytes() if file.exists() else None
            else:
                self.left_out.add(str(file.relative_to(self._root)))
        except OSError:
            pass  # the program meets the error itself
        finally:
            self._active = True

    def end(self) -> dict[str, Flat]:
        """Return what is in each file now, and put all back as they were."""
        self._active = False
        texts: dict[str, Flat] = {}
        for file, before in self._before.items():
            name = f"the file {file.relative_to(self._root)}"
            data = None
            with suppress(OSError):
                data = file.read_bytes() if file.stat().st_size < _MOST else b"<large>"
            texts[name] = [("", None if data is None else _content(data))]
            with suppress(OSError):
                if before is None:
                    file.unlink(missing_ok=True)
                elif data != before:
                    file.write_bytes(before)
        return texts


def _content(data: bytes) -> Any:
    try:
        return Lines(data.decode().splitlines())
    except UnicodeDecodeError:
        return data
