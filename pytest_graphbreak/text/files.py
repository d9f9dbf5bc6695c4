"""Files that are written in one step, and locks on open files.

A file is written beside its place under a hidden name and then takes the place of
the old one. Killed at any moment, the process leaves the old file or the new one,
and perhaps the hidden one, which nobody reads.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def in_one_step(path: Path) -> Iterator[int]:
    """A new open file, which takes the place of ``path`` when the block ends well.

    It is held (``hold``) while it has its hidden name, ``.graphbreak-*.tmp``. Its
    mode is that of any new file. Raises ``OSError``; ``path`` is then as it was.
    """
    hidden = path.with_name(f".graphbreak-{os.urandom(8).hex()}.tmp")
    handle = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        try:
            hold(handle)
            yield handle
            if os.name != "nt":
                os.replace(hidden, path)
        finally:
            os.close(handle)
        if os.name == "nt":  # where no file that is open is replaced, and none is removed
            os.replace(hidden, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(hidden)
        raise


def write(handle: int, data: bytes) -> None:
    """Write all of it to an open file. Raises ``OSError``."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def hold(handle: int) -> bool:
    """Lock an open file until it is closed; False if another process holds it.

    Its holder loses it with its life, so dead owners are known.
    """
    try:
        import fcntl
    except ImportError:  # Windows, which removes no file that is open
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
