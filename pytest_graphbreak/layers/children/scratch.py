"""The temporary directory of one command: gone with it, or with the next one where it was killed.

Its owner holds a lock on a file in it as long as it lives. The system gives the
lock up when a process is killed, so the next command sees which directories have no owner.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pytest_graphbreak.text.files import hold

PREFIX: Final = "graphbreak-bench-"

_OWNER: Final = "owner"
_NEWBORN: Final = 3600.0
"""Seconds that a directory without a lock file is given: its owner is about to make one."""


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A directory of our own. Those that killed commands left are removed first."""
    sweep()
    with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as name:
        handle = os.open(os.path.join(name, _OWNER), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            hold(handle)
            yield Path(name)
        finally:
            os.close(handle)


def sweep() -> None:
    """Remove the directories of commands that are gone."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        if is_left(path):
            shutil.rmtree(path, ignore_errors=True)


def is_left(path: Path) -> bool:
    """Whether a directory of ours belongs to nobody any more; also if it is not there."""
    try:
        about = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    if not path.is_dir() or path.is_symlink() or not _is_ours(about):
        return False
    try:
        handle = os.open(path / _OWNER, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return time.time() - about.st_mtime > _NEWBORN
    except OSError:
        return False
    try:
        return hold(handle)
    finally:
        os.close(handle)


def _is_ours(about: os.stat_result) -> bool:
    return not hasattr(os, "getuid") or about.st_uid == os.getuid()
