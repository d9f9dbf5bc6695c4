"""Git in a directory, as somebody whom no configuration has to name."""

from __future__ import annotations

import subprocess
from pathlib import Path

USER = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")


def git(directory: Path, *args: str) -> str:
    """Run git there and return what it says."""
    done = subprocess.run(
        ["git", *USER, *args], cwd=directory, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def commit(directory: Path) -> None:
    """Commit all that there is."""
    git(directory, "add", "-A")
    git(directory, "commit", "-q", "-m", "x")
