"""The demo says what it will download before it does, and downloads nothing twice."""

from __future__ import annotations

import sys

import pytest

from demo import install


def test_it_says_first_what_it_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []

    def run(command: list[str]) -> int:
        said.append(capsys.readouterr().out)
        return 3

    monkeypatch.setattr(install, "_quietly", run)
    assert install.main(["no-such-package==1.0"]) == 3
    (before,) = said
    assert "downloads about 4 GB" in before
    assert "minutes" in before
    assert max(map(len, before.splitlines())) <= 80


def test_what_is_here_is_not_downloaded(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers")
    assert install.main(["pytest"]) == 0
    assert capsys.readouterr().out == "Everything is installed.\n"


def test_pip_says_nothing_where_it_works(capfd: pytest.CaptureFixture[str]) -> None:
    assert install._quietly([sys.executable, "-c", "print('Collecting torch')"]) == 0
    assert capfd.readouterr() == ("", "")


def test_pip_says_everything_where_it_fails(capfd: pytest.CaptureFixture[str]) -> None:
    program = "import sys; print('Collecting torch'); sys.exit('ERROR: no space')"
    assert install._quietly([sys.executable, "-c", program]) == 1
    assert set(capfd.readouterr().out.split("\n")) >= {"Collecting torch", "ERROR: no space"}
