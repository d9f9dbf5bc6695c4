"""Repositories of many commits, made at once by ``git fast-import``."""

from __future__ import annotations

import os
import subprocess
import textwrap
from pathlib import Path
from typing import Final

HEAD: Final = """\
import torch


class Head(torch.nn.Module):
    def forward(self, x):
        y = x.sigmoid()
        return y * 2
"""
BROKEN: Final = HEAD.replace(
    "        return", "        if y.max().item() > 5:\n            y = y + 1\n        return"
)
TEST: Final = """\
import torch

from net.head import Head


def test_head():
    torch.compile(Head(), backend="eager")(torch.ones(2))
"""


class Past:
    """Writes commits, a day apart. A commit is named by its subject."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stream: list[bytes] = []
        self._marks: dict[str, int] = {}

    def commit(
        self,
        subject: str,
        files: dict[str, str] | None = None,
        *,
        renamed: dict[str, str] | None = None,
        removed: tuple[str, ...] = (),
        parents: tuple[str, ...] = (),
        links: dict[str, str] | None = None,
    ) -> str:
        """A commit on ``parents``, by default on the one before it."""
        number = len(self._marks) + 1
        before = parents or tuple(self._marks)[-1:]
        who = f"Ann <ann@example.org> {1767225600 + number * 86400} +0000"
        out = [f"commit refs/heads/c{number}", f"mark :{number}", f"committer {who}"]
        self._say(*out, _data(subject))
        words = ("from", *["merge"] * (len(before) - 1))
        self._say(
            *(f"{word} :{self._marks[one]}" for word, one in zip(words, before, strict=False))
        )
        for old, new in (renamed or {}).items():
            self._say(f"R {old} {new}")
        for name in removed:
            self._say(f"D {name}")
        for name, text in (files or {}).items():
            self._say(f"M 100644 inline {name}", _data(textwrap.dedent(text)))
        for name, commit in (links or {}).items():
            self._say(f"M 160000 {commit} {name}")
        self._marks[subject] = number
        return subject

    def _say(self, *lines: str) -> None:
        self._stream += [f"{line}\n".encode("utf-8", "surrogateescape") for line in lines]

    def made(self) -> dict[str, str]:
        """Make the repository, with the last commit checked out; the hash of each subject."""
        self.path.mkdir(exist_ok=True)
        self.git("init", "-q", "-b", "main")
        subprocess.run(
            ["git", "fast-import", "--quiet"],
            cwd=self.path,
            input=b"".join(self._stream),
            check=True,
        )
        self.git("reset", "-q", "--hard", f"c{len(self._marks)}")
        return {one: self.git("rev-parse", f"c{n}").strip() for one, n in self._marks.items()}

    def git(self, *args: str) -> str:
        done = subprocess.run(
            ["git", *args],
            cwd=self.path,
            env=os.environ | {"GIT_CONFIG_GLOBAL": os.devnull},
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout

    def state(self) -> tuple[str, ...]:
        """What must be as it was: status, worktrees, references, and a bisection."""
        return (
            self.git("status", "--porcelain"),
            self.git("worktree", "list", "--porcelain"),
            self.git("for-each-ref"),
            " ".join(sorted(path.name for path in (self.path / ".git").iterdir())),
        )


def _data(text: str) -> str:
    return f"data {len(text.encode('utf-8', 'surrogateescape'))}\n{text}"


def sixty(path: Path) -> Past:
    """Sixty commits: files are renamed, branches merged; number 38, on a branch, plants a break.

    From 22 to 24 the model does not parse.
    """
    past = Past(path)
    start = {"pytest.ini": "[pytest]\n", "net/__init__.py": "", "net/head.py": HEAD}
    past.commit("1", start | {"tests/test_head.py": TEST})
    for number in range(2, 61):
        files = {f"notes/{number % 7}.txt": f"{number}\n"} | _FILES.get(number, {})
        renamed = _RENAMED.get(number, {})
        past.commit(str(number), files, renamed=renamed, parents=_PARENTS.get(number, ()))
    return past


_PARENTS: Final = {10: ("4",), 15: ("14", "9"), 40: ("34",), 45: ("44", "39")}
"""Branches begin at 5 and at 35; the others go on from where they began."""
_RENAMED: Final = {
    20: {"net/head.py": "net/heads.py"},
    30: {"tests/test_head.py": "tests/models/test_heads.py"},
    50: {"net/heads.py": "net/parts/heads.py"},
}
_FILES: Final = {
    20: {"tests/test_head.py": TEST.replace("net.head", "net.heads")},
    22: {"net/heads.py": "this is no Python\n"},
    25: {"net/heads.py": HEAD},
    38: {"net/heads.py": BROKEN},
    45: {"net/heads.py": BROKEN},
    50: {
        "net/parts/__init__.py": "",
        "tests/models/test_heads.py": TEST.replace("net.head", "net.parts.heads"),
    },
}
