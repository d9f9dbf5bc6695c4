"""Runs commands, and functions of this package, each in a process of its own.

``repair`` and ``doctor`` try programs in it. They run one after another, each in a session of its
own that ends with this process, however that ends: the ``server`` starts and ends them. What they
write is in one directory that is removed with the command.

``multiprocessing.forkserver`` would fork as well, but it ends without its programs and their
children, goes with the terminal, runs the command's main module again in each of them, and has no
way to start another program (a command, or a Python that reads a new environment).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from pytest_graphbreak.layers.children import spool
from pytest_graphbreak.layers.children.server import (
    ERRORS,
    OUT,
    TIMED_OUT,
    FunctionCall,
    Order,
    kill_group,
)
from pytest_graphbreak.text.errors import UserError


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Make a temporary directory of one command, removed with it, or later if it was killed."""
    directory = Path(spool.fresh())
    directory.mkdir(0o700)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


_TAIL: Final = 2**18
"""Bytes that are read, from the end, of what a command printed."""
_SERVER: Final = "pytest_graphbreak.layers.children.server"


class ServerError(UserError):
    """The server was killed from outside (by the system, for its memory), and with it the program.

    The next run starts another server.
    """


class CommandResult(Struct, frozen=True):
    """The end of a command: its exit code, or None after a timeout, and what it printed.

    ``answer`` is what a function returned; None if it did not end.
    """

    code: int | None
    out: str = ""
    err: str = ""
    answer: dict[str, Any] | None = None

    def last(self, most: int) -> list[str]:
        """Return the last lines that it printed, errors last."""
        lines = [*self.out.splitlines(), *self.err.splitlines()]
        return [line for line in lines if line.strip()][-most:]


class Runner:
    """A runner in ``directory`` that gives each command at most ``timeout`` seconds.

    The server is started with the first command. The tests of ``repair`` hand over one that runs
    already, so that torch is imported once for all of them.
    """

    def __init__(
        self, directory: Path, timeout: float, server: subprocess.Popen[str] | None = None
    ) -> None:
        self.directory = directory
        self.timeout = timeout
        self.out, self.err = directory / OUT, directory / ERRORS
        """The files for what is printed."""
        self._server = server

    def run(
        self,
        command: Sequence[str],
        *,
        cwd: Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> CommandResult:
        """Run a command, by default where the user is; its temporary files are in our directory.

        Raises ``ServerError`` if the process that starts it was killed.
        """
        temporary = self.directory / "tmp"
        temporary.mkdir(exist_ok=True)
        variables = dict(os.environ if environ is None else environ)
        variables |= dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary))
        program = shutil.which(command[0], path=variables.get("PATH"))
        if program is None:
            return CommandResult(127, err=f"{command[0]}: there is no such program")
        return self._run([program, *command[1:]], variables, cwd=str(cwd or Path.cwd()))

    def call(
        self,
        function: str,
        argument: Mapping[str, Any],
        *,
        environ: Mapping[str, str] | None = None,
        fork: bool = False,
    ) -> CommandResult:
        """Call ``module:function`` with a mapping, and return the mapping that it gives back.

        The function runs in a Python of its own, or in a ``fork`` of one that has imported torch.
        Raises ``ServerError``.
        """
        call, answer = self.directory / "call.json", self.directory / "answer.json"
        asked = FunctionCall(function, argument, str(answer))
        call.write_text(json.dumps(asdict(asked)), encoding="utf-8")
        answer.unlink(missing_ok=True)
        command = [*_python(), str(call)]
        variables = environment() if environ is None else dict(environ)
        ended = self._run(command, variables, call=str(call), fork=fork)
        if ended.code is None or not answer.is_file():
            return ended
        return replace(ended, answer=json.loads(answer.read_text(encoding="utf-8")))

    def _run(
        self,
        command: list[str],
        environ: dict[str, str],
        *,
        cwd: str | None = None,
        call: str = "",
        fork: bool = False,
    ) -> CommandResult:
        for file in (self.out, self.err):  # of the run before, if this one dies before it prints
            file.unlink(missing_ok=True)
        order = Order(
            command,
            cwd=cwd or os.getcwd(),
            environ=environ,
            timeout=self.timeout,
            directory=str(self.directory),
            call=call,
            fork=fork,
        )
        code = self.exit_code(order)
        return CommandResult(code, _tail(self.out), _tail(self.err))

    def exit_code(self, order: Order) -> int | None:
        """Return the exit code of the program of an order, or None after a timeout.

        The server gets one line, the order, and answers by two: the id of the program's process at
        once, and its exit code, or ``TIMED_OUT``, at its end. An empty answer is the end of its
        output: the server was killed.

        Raises ``ServerError`` if the server was killed. An interrupt ends the program.
        """
        if self._server is None:
            self._server = serve()
        server = self._server
        assert server.stdin is not None
        assert server.stdout is not None
        pid = ""
        try:
            server.stdin.write(order.line())
            server.stdin.flush()
            pid = server.stdout.readline()
            code = server.stdout.readline()
        except KeyboardInterrupt:
            if pid:
                kill_group(int(pid))
                server.stdout.readline()  # it has seen that the program ended
            else:
                self.close()
            raise
        except BrokenPipeError:
            code = ""
        if not code:
            if pid:
                kill_group(int(pid))
            self._server = None
            raise ServerError("the process that runs the program was killed; try again")
        return None if code.strip() == TIMED_OUT else int(code)

    def close(self) -> None:
        """End the server."""
        if self._server is not None:
            server, self._server = self._server, None
            end(server)


def _tail(path: Path) -> str:
    """Return the end of a text that may still be written to; empty if there is no such file."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
        return file.read(_TAIL).decode("utf-8", "replace")
    return ""


@contextlib.contextmanager
def runner(timeout: float) -> Iterator[Runner]:
    """Return a runner whose directory is removed afterwards, however the block ends."""
    with scratch() as directory:
        process = Runner(directory, timeout)
        try:
            yield process
        finally:
            process.close()


def serve() -> subprocess.Popen[str]:
    """Start the process that starts one for each run, out of reach of a Ctrl-C on the terminal."""
    return subprocess.Popen(
        _python(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
        text=True,
        start_new_session=True,
    )


def end(server: subprocess.Popen[str]) -> None:
    """End a server: at the end of its input it exits by itself, and ends what it runs."""
    try:
        server.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        server.kill()
        server.communicate()


def _python() -> list[str]:
    """Return a command that runs the server's module.

    It does not use ``-m``, which looks for modules in the current directory first: a ``logging.py``
    of the user's there would replace Python's own. ``-c`` would look there as well, so the entry of
    that directory is replaced by one of a directory without modules, ``sys.prefix``.
    """
    code = (
        "import sys; sys.path[0] = sys.prefix; import runpy; "
        f"runpy.run_module({_SERVER!r}, run_name='__main__', alter_sys=True)"
    )
    return [sys.executable, "-c", code]


def environment() -> dict[str, str]:
    """Return the environment variables of a Python that runs code of this package."""
    return dict(os.environ) | {"PYTHONDONTWRITEBYTECODE": "1"}
