"""A lock on an open file. Its holder loses it with its life, so dead owners are known."""

from __future__ import annotations


def hold(handle: int) -> bool:
    """Lock an open file until it is closed; False if another process holds it."""
    try:
        import fcntl
    except ImportError:  # Windows, which removes no file that is open
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
