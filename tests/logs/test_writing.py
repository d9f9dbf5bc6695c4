"""Where what a script logs goes."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_graphbreak.logs import writing
from pytest_graphbreak.text.files import LOG, refuse_foreign

pytestmark = pytest.mark.pure


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "run.log"


def test_the_log_is_on_meanwhile_and_off_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCH_LOGS", raising=False)
    before = sys.stderr
    with writing.send_log_to(str(path)):
        assert os.environ["TORCH_LOGS"] == writing.TORCH_LOGS
        os.write(2, b"of a library\n")
    assert "TORCH_LOGS" not in os.environ
    assert sys.stderr is before
    assert path.read_text() == "# Written by `graphbreak run --log`\nof a library\n"
    refuse_foreign(path, LOG)


def test_what_the_user_logs_stays(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_LOGS", "recompiles")
    with writing.send_log_to(str(path)):
        assert os.environ["TORCH_LOGS"] == "recompiles"
    assert os.environ["TORCH_LOGS"] == "recompiles"


def test_what_the_script_sets_and_replaces_is_its_own(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TORCH_LOGS", raising=False)
    own = open(os.devnull, "w")  # noqa: SIM115
    with own, writing.send_log_to(str(path)):
        os.environ["TORCH_LOGS"] = "graph_breaks"
        sys.stderr.close()
        monkeypatch.setattr(sys, "stderr", own)
    assert os.environ["TORCH_LOGS"] == "graph_breaks"
    assert sys.stderr is own


class Looks(logging.Handler):
    """As torch's from 2.15 on: it looks up ``sys.stderr`` at each record."""

    @property
    def stream(self) -> Any:
        return sys.stderr

    def emit(self, record: logging.LogRecord) -> None:
        self.stream.write(self.format(record) + "\n")


@pytest.mark.parametrize("kind", [logging.StreamHandler, Looks])
def test_torchs_own_handlers_write_to_the_log(
    kind: type[logging.Handler], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logger = logging.getLogger("torch._of_a_test")
    other = logging.getLogger("torchvision_of_a_test")
    handler, foreign = kind(), kind()
    monkeypatch.setattr(logger, "propagate", False)  # torch's own handler may be there, too
    logger.addHandler(handler)
    other.addHandler(foreign)
    try:
        with open(tmp_path / "run.log", "w") as log:
            writing._redirect_handlers(sys.stderr, log)
            logger.warning("a break")
            assert foreign.stream is sys.stderr  # type: ignore[attr-defined]
    finally:
        logger.removeHandler(handler)
        other.removeHandler(foreign)
    assert (tmp_path / "run.log").read_text() == "a break\n"
    assert type(handler).__name__ == kind.__name__
