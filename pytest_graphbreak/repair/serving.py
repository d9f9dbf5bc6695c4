"""Has the ``server`` run programs, one after another, and says how each of them ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from pytest_graphbreak.repair.server import TIMED_OUT
from pytest_graphbreak.watching import processes

Order = dict[str, Any]


class ServerError(RuntimeError):
    """No program can be run here any more."""


class Serving:
    """A server, started with the first order. Its programs end with this process at the latest."""

    def __init__(self, server: subprocess.Popen[str] | None = None) -> None:
        self._server = server

    def run(self, order: Order) -> int | None:
        """The exit code of the program of an order; None where its time was over.

        Raises ``ServerError`` if the server was killed. An interrupt ends the program.
        """
        if self._server is None:
            self._server = serve()
        server = self._server
        assert server.stdin is not None
        assert server.stdout is not None
        pid = ""
        try:
            server.stdin.write(f"{json.dumps(order)}\n")
            server.stdin.flush()
            pid = server.stdout.readline()
            code = server.stdout.readline()
        except KeyboardInterrupt:
            if pid:
                processes.kill_group(int(pid))
                server.stdout.readline()  # it has seen that the program ended
            else:
                self._server = None
                end(server)
            raise
        except BrokenPipeError:
            code = ""
        if not code:
            if pid:
                processes.kill_group(int(pid))
            self._server = None
            raise ServerError("the process that runs the program was killed; try again")
        return None if code.strip() == TIMED_OUT else int(code)

    def close(self) -> None:
        """End the server."""
        if self._server is not None:
            end(self._server)
            self._server = None


def serve() -> subprocess.Popen[str]:
    """The process that starts one for each run, out of reach of a Ctrl-C on the terminal."""
    return subprocess.Popen(
        python("server"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
        text=True,
        start_new_session=True,
    )


def end(server: subprocess.Popen[str]) -> None:
    """End a server: at the end of its input it goes by itself, and ends what it runs."""
    try:
        server.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        server.kill()
        server.communicate()


def python(module: str) -> list[str]:
    """A command that runs a module of this package.

    Not by ``-m``, which looks for modules in the current directory first: a
    ``logging.py`` of the user's there would take the place of Python's own.
    """
    code = (
        "import sys; sys.path[0] = sys.prefix; import runpy; "
        f"runpy.run_module('{__package__}.{module}', run_name='__main__', alter_sys=True)"
    )
    return [sys.executable, "-c", code]


def environment() -> dict[str, str]:
    return dict(os.environ) | {"PYTHONDONTWRITEBYTECODE": "1"}
