"""Queries git about a checkout, through its command, and reads the output as data.

A checkout may come from an untrusted source. git runs no program that such a checkout names (a file
system monitor, a diff tool), and does not treat a directory in it as a repository.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from pytest_graphbreak.text.output import UserError, reason

LARGEST: Final = 32 * 2**20
"""The largest blob that is read, in bytes."""
SLOWEST: Final = 120
"""The time that one call of git may take, in seconds."""
_SAFE: Final = ("-c", "core.fsmonitor=false", "-c", "safe.bareRepository=explicit")


_RAW: Final = re.compile(r"\n?:\d+ \d+ ([0-9a-f]+) ([0-9a-f]+) ([A-Z])\d*")


class GitError(UserError):
    """Raised if git failed. The message says why."""


def git(directory: Path, *args: str, given: bytes | None = None) -> bytes:
    """Return what ``git args`` prints in ``directory``. Raises ``GitError`` with its first line."""
    command = ["git", *_SAFE, "--no-pager", "--no-optional-locks", *args]
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            env=os.environ | {"LC_ALL": "C"},
            input=given,
            stdin=subprocess.DEVNULL if given is None else None,
            capture_output=True,
            check=False,
            timeout=SLOWEST,
        )
    except FileNotFoundError:
        raise GitError("git is not installed, and the history is git's") from None
    except subprocess.TimeoutExpired:
        raise GitError(f"{directory}: git {args[0]} took more than {SLOWEST} s") from None
    except OSError as error:
        raise GitError(f"{directory}: git: {reason(error)}") from None
    if done.returncode:
        words = done.stderr.decode("utf-8", "replace").strip().split("\n")[0]
        raise GitError(f"{directory}: git {args[0]}: {words[:400] or 'failed'}")
    return done.stdout


def names(directory: Path, *args: str) -> list[str]:
    """Return the paths that a git command lists (with its option ``-z``)."""
    listed = git(directory, *args).decode("utf-8", "surrogateescape")
    return [name for name in listed.split("\0") if name]


class RawChange(NamedTuple):
    """A changed file with its blobs; ``old`` is None if it was added, ``new`` if it was deleted.

    ``before`` is its former name if it was renamed.
    """

    path: str
    old: str | None
    new: str | None
    before: str | None


def raw_change(token: str, more: Iterator[str]) -> RawChange | None:
    """Parse a field of ``--raw -z --no-abbrev``, with the names from the following fields.

    Returns None for a field that does not begin a change.
    """
    found = _RAW.fullmatch(token)
    if found is None:
        return None
    old, new, status = found.groups()
    name = next(more, "")
    path = next(more, "") if status in "RC" else name
    return RawChange(
        path,
        None if status == "A" else old,
        None if status == "D" else new,
        name if status == "R" else None,
    )


def blobs(directory: Path, wanted: Iterable[str]) -> dict[str, bytes | None]:
    """Return the contents of blobs with two calls of git; None for one that is too large to read.

    A blob that does not exist (because a partial clone has not fetched it) is left out.
    """
    sizes = _sizes(directory, list(dict.fromkeys(wanted)))
    found: dict[str, bytes | None] = {name: None for name, size in sizes.items() if size > LARGEST}
    small = [name for name in sizes if name not in found]
    if not small:
        return found
    output = git(directory, "cat-file", "--batch", given=_lines(small))
    at = 0
    for name in small:
        at = output.index(b"\n", at) + 1
        found[name] = output[at : at + sizes[name]]
        at += sizes[name] + 1
    return found


def _sizes(directory: Path, wanted: list[str]) -> dict[str, int]:
    """Return the sizes in bytes of the names that exist and are blobs."""
    if not wanted:
        return {}
    output = git(directory, "cat-file", "--batch-check", given=_lines(wanted))
    answers = zip(wanted, output.decode("utf-8", "surrogateescape").split("\n"), strict=False)
    return {
        name: int(words[-1])
        for name, line in answers
        if len(words := line.split(" ")) >= 3 and words[-2] == "blob"
    }


def _lines(wanted: list[str]) -> bytes:
    return "".join(f"{name}\n" for name in wanted).encode("utf-8", "surrogateescape")
