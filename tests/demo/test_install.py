"""The demo says what it will download before it does, and downloads nothing twice."""

from __future__ import annotations

import subprocess

import pytest

from demo import install


def test_it_says_first_what_it_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []

    def run(command: list[str], check: bool) -> subprocess.CompletedProcess[str]:
        said.append(capsys.readouterr().out)
        return subprocess.CompletedProcess(command, 3)

    monkeypatch.setattr(install.subprocess, "run", run)
    assert install.main(["no-such-package==1.0"]) == 3
    (before,) = said
    assert "downloads about 4 GB" in before
    assert "minutes" in before
    assert max(map(len, before.splitlines())) <= 80


def test_what_is_here_is_not_downloaded(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers")
    assert install.main(["pytest"]) == 0
    assert capsys.readouterr().out == "Everything is installed.\n"
