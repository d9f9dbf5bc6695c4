"""The files that a program opens for writing: noted, compared, and put back as they were.

So each run of a program meets the same files. Only files at or below the working directory, and
only what Python opens: not what native code writes (``torch.save``), nor other processes.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from pytest_graphbreak.repair.compare import Flat
from pytest_graphbreak.repair.printed import Lines

_MOST: Final = 2**24
"""Bytes of a file that are kept."""
_WRITES: Final = os.O_WRONLY | os.O_RDWR


class WrittenFiles:
    """Notes files from ``start`` on. A hook of ``sys.addaudithook`` stays as long as the process.

    ``left_out`` are files that are too large to keep.
    """

    def __init__(self) -> None:
        self.left_out: set[str] = set()
        self._root = Path.cwd()
        self._before: dict[Path, bytes | None] = {}
        self._active = False

    def start(self) -> None:
        self._active = True
        sys.addaudithook(self._note)

    def _note(self, event: str, args: tuple[Any, ...]) -> None:
        if event != "open" or not self._active or not isinstance(args[0], str | os.PathLike):
            return
        path, mode, flags = args
        if not ({*(mode or "")} & {*"wax+"} if isinstance(mode, str) else (flags or 0) & _WRITES):
            return
        file = Path(os.path.abspath(path))
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
