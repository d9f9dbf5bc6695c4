"""git that is not there, hangs or cannot be run: an error in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_graphbreak.suite import changed_lines
from pytest_graphbreak.suite.changed_lines import GitError

pytestmark = pytest.mark.pure


def program(path: Path, text: str, mode: int = 0o755) -> None:
    (path / "git").write_text(text)
    (path / "git").chmod(mode)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_it_is_not_installed(path: Path) -> None:
    with pytest.raises(GitError, match="git is not installed"):
        changed_lines.git(path, "status")


def test_it_cannot_be_run(path: Path) -> None:
    program(path, "", 0o644)
    with pytest.raises(GitError, match="git: Permission denied"):
        changed_lines.git(path, "status")


def test_it_hangs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(path, "#!/bin/sh\nwhile :; do :; done\n")
    monkeypatch.setattr(changed_lines, "SLOWEST", 0.05)
    with pytest.raises(GitError, match=r"git log took more than 0\.05 s"):
        changed_lines.git(path, "log")


def test_it_fails(path: Path) -> None:
    program(path, "#!/bin/sh\necho no such thing >&2; echo more >&2; exit 3\n")
    with pytest.raises(GitError, match=r"git show: no such thing$"):
        changed_lines.git(path, "show")
    program(path, "#!/bin/sh\nexit 3\n")
    with pytest.raises(GitError, match=r"git show: failed$"):
        changed_lines.git(path, "show")
