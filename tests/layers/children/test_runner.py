"""How a run of a program ends: by itself, with its server, or by an interrupt."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import cast

import pytest

from pytest_graphbreak.layers.children import runner as running
from pytest_graphbreak.layers.children.runner import Runner, ServerError, runner
from pytest_graphbreak.layers.children.server import ERRORS, OUT, TIMED_OUT, Order

pytestmark = pytest.mark.pure


class Answering:
    """In a server's place: what it says, line by line, and how it is ended."""

    def __init__(self, *said: str | BaseException, order: BaseException | None = None) -> None:
        self._said = iter(said)
        self._order = order
        self.ended: list[str] = []
        self.stdin = self.stdout = self

    def write(self, order: str) -> None:
        if self._order is not None:
            raise self._order

    def flush(self) -> None:
        pass

    def readline(self) -> str:
        line = next(self._said, "")
        if isinstance(line, BaseException):
            raise line
        return line

    def communicate(self, timeout: float | None = None) -> None:
        self.ended.append("asked")
        if timeout is not None and next(self._said, "") == "hangs":
            raise subprocess.TimeoutExpired("server", timeout)

    def kill(self) -> None:
        self.ended.append("killed")


ORDER = Order(["true"], cwd=".", environ={}, timeout=60, directory=".")


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The process groups that are killed."""
    killed: list[int] = []
    monkeypatch.setattr(running, "kill_group", killed.append)
    return killed


def serves(server: Answering) -> Runner:
    return Runner(Path("nowhere"), 60, cast("subprocess.Popen[str]", server))


def test_what_a_program_ended_with(groups: list[int]) -> None:
    assert serves(Answering("42\n", "3\n")).exit_code(ORDER) == 3
    assert serves(Answering("42\n", f"{TIMED_OUT}\n")).exit_code(ORDER) is None
    assert groups == []


@pytest.mark.parametrize(
    ("server", "killed"),
    [
        (Answering("42\n"), [42]),  # it was killed while the program ran
        (Answering(), []),
        (Answering(order=BrokenPipeError()), []),
    ],
)
def test_a_server_that_is_gone_is_reported_and_its_program_ends(
    server: Answering, killed: list[int], groups: list[int]
) -> None:
    with pytest.raises(ServerError, match="was killed; try again"):
        serves(server).exit_code(ORDER)
    assert groups == killed


def test_a_program_that_prints_nothing_has_no_output_of_the_one_before(tmp_path: Path) -> None:
    for name in (OUT, ERRORS):
        (tmp_path / name).write_text("of the run before\n")
    server = cast("subprocess.Popen[str]", Answering("42\n", "-9\n"))
    ended = Runner(tmp_path, 60, server).run([sys.executable])
    assert (ended.code, ended.out, ended.err) == (-9, "", "")


def test_an_interrupt_ends_the_program_and_no_more(groups: list[int]) -> None:
    server = Answering("42\n", KeyboardInterrupt(), "-9\n", "43\n", "0\n")
    work = serves(server)
    with pytest.raises(KeyboardInterrupt):
        work.exit_code(ORDER)
    assert (groups, server.ended) == ([42], [])
    assert work.exit_code(ORDER) == 0  # the same server


def test_an_interrupt_before_anything_runs_ends_the_server(groups: list[int]) -> None:
    server = Answering(order=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        serves(server).exit_code(ORDER)
    assert (groups, server.ended) == ([], ["asked"])


def test_a_server_that_does_not_go_is_killed() -> None:
    server = Answering("hangs")
    serves(server).close()
    assert server.ended == ["asked", "killed", "asked"]


def test_a_function_gives_its_answer_and_one_that_fails_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with runner(60) as work:
        done = work.call("builtins:dict", {"a": [1, "\x1b"]})
        assert (done.code, done.answer) == (0, {"a": [1, "\x1b"]})
        done = work.call("builtins:int", {})
        assert (done.code, done.answer) == (1, None)
        assert done.last(1)[0].startswith("TypeError: int()")
        done = work.run([sys.executable, "-c", "print(1); import os; os.write(2, b'2\\n')"])
        assert (done.code, done.last(2), done.answer) == (0, ["1", "2"], None)
        assert work.run(["no-such-program"]).code == 127
    assert not list(tmp_path.iterdir())
