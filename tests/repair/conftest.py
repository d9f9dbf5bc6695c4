"""A directory with a program in it, and the commands typed there."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pytest_graphbreak.cli import program
from pytest_graphbreak.layers.children.runner import Runner, end, serve
from pytest_graphbreak.repair.target import Target, parse
from pytest_graphbreak.repair.trial import Bench
from tests.commands import Commands, Said
from tests.forkserver import Server


class Shop(Commands):
    """Writes programs, types commands, and reads what was written."""

    def write(self, name: str, source: str) -> Target:
        (self.path / name).write_text(textwrap.dedent(source))
        return parse(name)

    def succeed(self, *args: str) -> Said:
        """Type a command that is to end with 0."""
        said = self.run(*args)
        assert said.code == 0, said.out + said.err
        return said

    def python(self, *args: str) -> subprocess.CompletedProcess[str]:
        """Run a Python in the directory."""
        return subprocess.run(
            [sys.executable, *args], cwd=self.path, capture_output=True, text=True
        )

    def files(self) -> set[str]:
        return {str(path.relative_to(self.path)) for path in self.path.rglob("*") if path.is_file()}


@pytest.fixture(scope="session")
def server(server_of_forks: Server) -> Iterator[subprocess.Popen[str]]:
    """One process that has imported torch, for the runs of all tests: they are its forks."""
    yield from served(server_of_forks)


def served(forks: Server) -> Iterator[subprocess.Popen[str]]:
    """The process that the commands start for their runs, as a fork of a server of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", forks.python)
        found = serve()
    yield found
    end(found)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, server: subprocess.Popen[str]) -> Bench:
    """One bench for many programs: each search makes its own reference."""
    return Bench(Runner(tmp_path_factory.mktemp("bench"), 300, server))


@pytest.fixture
def shop(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    server: subprocess.Popen[str],
    forks: None,
) -> Shop:
    return opened(tmp_path, monkeypatch, capsys, server)


@pytest.fixture(scope="session")
def xla_server(server_of_xla_forks: Server) -> Iterator[subprocess.Popen[str]]:
    yield from served(server_of_xla_forks)


@pytest.fixture
def xla_shop(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    xla_server: subprocess.Popen[str],
    xla_forks: None,
) -> Shop:
    """A shop whose runs are forks of a process that has imported torch_xla, too."""
    return opened(tmp_path, monkeypatch, capsys, xla_server)


def opened(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capture: pytest.CaptureFixture[str],
    server: subprocess.Popen[str],
) -> Shop:
    """A shop in this directory whose runs are forks of the server."""

    @contextmanager
    def bench(timeout: float) -> Iterator[Bench]:
        with tempfile.TemporaryDirectory() as directory:
            yield Bench(Runner(Path(directory), timeout, server))

    monkeypatch.setattr(program, "bench", bench)
    monkeypatch.chdir(path)
    return Shop(path, capture)
