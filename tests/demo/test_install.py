"""The demo says what it will download before it does, and downloads nothing twice."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from demo import install

pytestmark = pytest.mark.pure


def test_it_says_first_what_it_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    said: list[str] = []

    def run(command: list[str]) -> int:
        assert command[1:5] == ["-m", "tox", "run", "--workdir"]
        said.append(capsys.readouterr().out)
        return 3

    monkeypatch.setattr(install, "_with_progress", run)
    assert install.main(str(tmp_path)) == 3
    (before,) = said
    assert "downloads about 4 GB" in before
    assert "minutes" in before
    assert max(map(len, before.splitlines())) <= 80


def test_what_is_here_is_not_downloaded(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    python = tmp_path / "xla" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    assert not install._is_ready(python), "torch_xla is not there"
    monkeypatch.setattr(install, "NEEDED", ("pytest",))
    assert install.main(str(tmp_path)) == 0
    assert capsys.readouterr().out == "Everything is installed.\n"


def test_uv_says_nothing_where_it_works(capfd: pytest.CaptureFixture[str]) -> None:
    assert install._with_progress([sys.executable, "-c", "print('Downloading torch')"]) == 0
    assert capfd.readouterr() == ("", "")


def test_uv_says_everything_where_it_fails(capfd: pytest.CaptureFixture[str]) -> None:
    program = "import sys; print('Downloading torch'); sys.exit('ERROR: no space')"
    assert install._with_progress([sys.executable, "-c", program]) == 1
    assert set(capfd.readouterr().out.split("\n")) >= {"Downloading torch", "ERROR: no space"}
