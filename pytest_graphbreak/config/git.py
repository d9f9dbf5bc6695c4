"""Queries git about a checkout, through its command, and reads the output as data.

A checkout may come from an untrusted source. git runs no program that such a checkout names (a file
system monitor, a diff tool), and does not treat a directory in it as a repository.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

from pytest_graphbreak.text.output import UserError, reason

SLOWEST: Final = 120
"""The time that one call of git may take, in seconds."""
_SAFE: Final = ("-c", "core.fsmonitor=false", "-c", "safe.bareRepository=explicit")


class GitError(UserError):
    """Raised if git failed. The message says why."""


def git(directory: Path, *args: str) -> bytes:
    """Return what ``git args`` prints in ``directory``. Raises ``GitError`` with its first line."""
    command = ["git", *_SAFE, "--no-pager", "--no-optional-locks", *args]
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            env=os.environ | {"LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=SLOWEST,
        )
    except FileNotFoundError:
        raise GitError("git is not installed") from None
    except subprocess.TimeoutExpired:
        raise GitError(f"{directory}: git {args[0]} took more than {SLOWEST} s") from None
    except OSError as error:
        raise GitError(f"{directory}: git: {reason(error)}") from None
    if done.returncode:
        words = done.stderr.decode("utf-8", "replace").strip().split("\n")[0]
        raise GitError(f"{directory}: git {args[0]}: {words[:400] or 'failed'}")
    return done.stdout
