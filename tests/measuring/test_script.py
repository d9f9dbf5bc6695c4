"""How a script is run, and where what it logs goes: what no torch is needed for."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_graphbreak.measuring import script
from pytest_graphbreak.text.files import LOG, refuse_foreign

pytestmark = pytest.mark.pure


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "run.log"


def test_python_that_trusts_no_directory_gets_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``python -P``: modules beside the script are not found, as without us."""
    (tmp_path / "beside.py").write_text("")
    net = tmp_path / "net.py"
    net.write_text("import sys\nprint(sys.path[0])\n")
    for safe, first in ((False, str(tmp_path)), (True, sys.path[0])):
        monkeypatch.setattr(sys, "flags", SimpleNamespace(safe_path=safe))
        assert script.UserProgram(str(net), ()).run() == 0
        assert capsys.readouterr().out == f"{first}\n"


def test_the_log_is_on_meanwhile_and_off_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCH_LOGS", raising=False)
    before = sys.stderr
    with script.send_log_to(str(path)):
        assert os.environ["TORCH_LOGS"] == script.TORCH_LOGS
        os.write(2, b"of a library\n")
    assert "TORCH_LOGS" not in os.environ
    assert sys.stderr is before
    assert path.read_text() == "# Written by `graphbreak run --log`\nof a library\n"
    refuse_foreign(path, LOG)


def test_what_the_user_logs_stays(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_LOGS", "recompiles")
    with script.send_log_to(str(path)):
        assert os.environ["TORCH_LOGS"] == "recompiles"
    assert os.environ["TORCH_LOGS"] == "recompiles"


def test_what_the_script_sets_and_replaces_is_its_own(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TORCH_LOGS", raising=False)
    own = open(os.devnull, "w")  # noqa: SIM115
    with own, script.send_log_to(str(path)):
        os.environ["TORCH_LOGS"] = "graph_breaks"
        sys.stderr.close()
        monkeypatch.setattr(sys, "stderr", own)
    assert os.environ["TORCH_LOGS"] == "graph_breaks"
    assert sys.stderr is own


class Late(logging.StreamHandler[Any]):
    """Writes to the stream that it was given last, as a StreamHandler does."""


class Looks(logging.Handler):
    """As torch's from 2.15 on: it looks up ``sys.stderr`` at each record."""

    @property
    def stream(self) -> Any:
        return sys.stderr

    def emit(self, record: logging.LogRecord) -> None:
        self.stream.write(self.format(record) + "\n")


@pytest.mark.parametrize("kind", [Late, Looks])
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
            script._redirect(sys.stderr, log)
            logger.warning("a break")
            assert foreign.stream is sys.stderr  # type: ignore[attr-defined]
    finally:
        logger.removeHandler(handler)
        other.removeHandler(foreign)
    assert (tmp_path / "run.log").read_text() == "a break\n"
    assert type(handler).__name__ == kind.__name__


# What a script leaves running is waited for; what was there before is not.

PATIENCE = 20.0


@pytest.fixture
def before() -> list[threading.Thread]:
    return threading.enumerate()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def waits(before: list[threading.Thread]) -> None:
    """Fails, and does not hang, where waiting has no end."""
    waiting = threading.Thread(target=script.wait_for_threads, args=(before,), daemon=True)
    waiting.start()
    waiting.join(PATIENCE)
    assert not waiting.is_alive()


def test_a_thread_is_joined_with_those_that_it_starts(before: list[threading.Thread]) -> None:
    done: list[str] = []

    def second() -> None:
        time.sleep(0.1)
        done.append("second")

    def first() -> None:
        time.sleep(0.1)
        threading.Thread(target=second).start()
        done.append("first")

    threading.Thread(target=first).start()
    waits(before)
    assert done == ["first", "second"]


def test_what_was_there_before_and_daemons_are_left_alone() -> None:
    stop = threading.Event()
    threading.Thread(target=stop.wait).start()
    before = threading.enumerate()
    threading.Thread(target=stop.wait, daemon=True).start()
    waits(before)
    stop.set()


def test_the_work_of_a_pool_is_done_and_the_pool_lives_on(
    before: list[threading.Thread], pool: ThreadPoolExecutor
) -> None:
    done: list[int] = []

    def work(number: int) -> None:
        time.sleep(0.02 * number)
        done.append(number)

    for number in range(6):
        pool.submit(work, number)
    waits(before)
    assert sorted(done) == list(range(6))
    assert pool.submit(lambda: 3).result(PATIENCE) == 3


def test_a_pool_that_was_shut_down_is_no_obstacle(
    before: list[threading.Thread], pool: ThreadPoolExecutor
) -> None:
    pool.submit(time.sleep, 0.2)
    pool.shutdown(wait=False)
    waits(before)


def test_threads_that_a_pool_starts_are_joined(
    before: list[threading.Thread], pool: ThreadPoolExecutor
) -> None:
    done = threading.Event()

    def late() -> None:
        time.sleep(0.2)
        done.set()

    pool.submit(lambda: threading.Thread(target=late).start())
    waits(before)
    assert done.is_set()


def test_a_thread_that_is_about_to_start_is_joined_when_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``threading`` lists it before its first instruction, and it cannot be joined then."""
    done: list[str] = []
    slow = threading.Thread(target=lambda: done.append("slow"))
    listed = threading.enumerate
    monkeypatch.setattr(threading, "enumerate", lambda: [*listed(), *[slow] * (not done)])

    def look(seconds: float) -> None:
        if not slow.ident:
            slow.start()

    monkeypatch.setattr(script.time, "sleep", look)
    script.wait_for_threads(listed())
    assert done == ["slow"]
