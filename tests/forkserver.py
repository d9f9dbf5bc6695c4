"""Pythons that start at once: each is a fork of one that has imported torch.

Importing torch and pytest takes longer than most programs that the tests start. A server imports
them once. Beside it lie a ``python``, a ``pytest`` and a ``graphbreak`` that ask it for a fork with
their arguments, directory, environment and streams, and that end as the fork ends.

Such a process is not new: torch is there before the first line of its program. What an import
does, what torch reads from the environment when it is imported, and process groups are tested
with the real Python. The real one is also what runs if a window of ours watches the process, or
if it was started in a way that is not known here (``python -I``, multiprocessing).
"""

from __future__ import annotations

import array
import ast
import atexit
import builtins
import contextlib
import gc
import importlib
import io
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import types
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from tests.untimed import leave_guards_untimed

ROOT = Path(__file__).parents[1]
REAL = sys.executable
"""The real Python, whatever a fixture says."""

NAMES = ("python", "pytest", "graphbreak")
"""The commands: the real Python, and scripts that lie beside it."""

CLIENT = """\
#!{python} -ISB
import array, os, signal, socket, sys

args = sys.argv[1:]
first = args[args[:1] == ["-u"]:][:1]
known = first and (first[0] in ("-m", "-c", "-mpytest") or not first[0].startswith("-"))
watched = "GRAPHBREAK_CHILDREN" in os.environ
if not (known or {script}) or watched or any("multiprocessing" in arg for arg in args):
    os.execv({real!r}, [{real!r}, *args])
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
order = ascii((args, sys.argv[0], os.getcwd(), dict(os.environ))).encode()
streams = array.array("i", (0, 1, 2))
server.sendmsg([len(order).to_bytes(8, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
server.sendall(order)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, lambda number, frame: server.send(bytes([number])))
nothing = os.open(os.devnull, os.O_RDWR)
for stream in (0, 1, 2):  # the fork has them, and who reads them waits for its end
    os.dup2(nothing, stream)
status = int.from_bytes(server.recv(8) or b"\\x46", "big", signed=True)
if status < 0:
    if -status in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
"""


# Programs run at the top of the server, so that they find nothing of ours on their stack but what
# `python -c` itself puts there.
MAIN = f"""
import sys
from {__name__} import ended, serve
program = serve(sys.argv[1], sys.argv[2:])
error = None
try:
    exec(*program)
except BaseException as raised:
    error = raised
ended(error)
"""


NO_ORDER = bytes(8)
"""What a lease sends, where a command sends the length of its order."""


class Server:
    """A server that has imported ``modules``, with its commands in ``directory``.

    It is started if none is there. Once all who have it have closed it, or have ended, it ends
    and removes the directory.
    """

    def __init__(self, directory: Path, modules: Sequence[str], environ: Mapping[str, str]) -> None:
        self.directory = directory
        address = directory / "server"
        if not address.exists():
            _start(address, modules, environ)
        self._lease = socket.socket(socket.AF_UNIX)
        self._lease.connect(str(address))
        self._lease.send(NO_ORDER)

    @property
    def python(self) -> str:
        return str(self.directory / "python")

    def close(self) -> None:
        self._lease.close()


def _start(address: Path, modules: Sequence[str], environ: Mapping[str, str]) -> None:
    """Write the commands beside the address and start the server. Returns when it listens."""
    for name in NAMES:
        client = address.with_name(name)
        real = Path(REAL) if name == NAMES[0] else Path(REAL).with_name(name)
        client.write_text(
            CLIENT.format(
                python=REAL, real=str(real), script=name != NAMES[0], address=str(address)
            )
        )
        client.chmod(0o755)
    process = subprocess.Popen(
        [REAL, "-c", MAIN, str(address), *modules],
        cwd=ROOT,
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    with process.stdout:
        if not process.stdout.readline():
            raise RuntimeError("the server of forks did not start; standard error says why")
    process.returncode = 0  # nobody waits for it: it may outlive this process


class Order(NamedTuple):
    """What a command asks for."""

    args: list[str]
    name: str
    cwd: str
    environ: dict[str, str]


Program = tuple[types.CodeType, dict[str, Any]]
"""Code, and the names that it runs with."""


def serve(address: str, modules: Sequence[str]) -> Program:
    """Import and answer. Returns in the forks alone, each with the program that it is to run."""
    own = [entry for entry in sys.path[1:] if entry not in _python_path(os.environ)]
    for module in (*modules, *_what_a_first_window_imports()):
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    leave_guards_untimed()
    _load_the_plugins()
    gc.collect()
    gc.freeze()  # a collection in a fork would write to, and so copy, every page
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(16)
    print("ready", flush=True)
    leases: list[socket.socket] = []
    while True:
        ready, _, _ = select.select([listener, *leases], [], [])
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        if listener not in ready:
            leases = [lease for lease in leases if lease not in ready]
            if not leases:
                shutil.rmtree(Path(address).parent)
                os._exit(0)
            continue
        client, _ = listener.accept()
        head, rights, _, _ = client.recvmsg(8, socket.CMSG_SPACE(3 * array.array("i").itemsize))
        if head == NO_ORDER:
            leases.append(client)
            continue
        streams = array.array("i", rights[0][2])
        if os.fork() == 0:
            listener.close()
            order = _keep(client, streams, int.from_bytes(head, "big"))
            sys.path[:] = own
            return _become(order)
        client.close()
        for stream in streams:
            os.close(stream)


def _keep(client: socket.socket, streams: Sequence[int], size: int) -> Order:
    """Fork the program, which returns, and see it to its end.

    Signals that the client gets are passed on, and if the client dies so does the program.
    """
    text = b""
    while len(text) < size:
        text += client.recv(size - len(text))
    program = os.fork()
    if program == 0:
        client.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        return Order(*ast.literal_eval(text.decode()))
    for stream in (*streams, 0, 1):
        os.close(stream)
    end = os.pidfd_open(program)
    while True:
        ready, _, _ = select.select([client, end], [], [])
        if end in ready:
            break
        with contextlib.suppress(ProcessLookupError):
            for number in client.recv(16) or [signal.SIGKILL]:
                os.kill(program, number)
    _, status = os.waitpid(program, 0)
    with contextlib.suppress(BrokenPipeError):
        client.send(os.waitstatus_to_exitcode(status).to_bytes(8, "big", signed=True))
    os._exit(0)


def _become(order: Order) -> Program:
    """Be the Python that was asked for: its environment, streams and paths."""
    os.environ.clear()
    os.environ.update(order.environ)
    os.chdir(order.cwd)
    tempfile.tempdir = None
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]  # the program may have a package of that name
    sys.executable = str(Path(order.name).with_name("python"))
    sys.orig_argv[:] = [sys.executable, *order.args]
    at_once = order.args[:1] == ["-u"]
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = _stream(1, "strict", at_once or os.isatty(1))
    sys.stderr = sys.__stderr__ = _stream(2, "backslashreplace", True)
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    names = vars(main)
    names["__builtins__"] = builtins
    sys.path[:0] = _python_path(order.environ)
    sys.orig_argv[:] = [sys.executable, *order.args]
    name = Path(order.name).name
    if name != NAMES[0]:
        sys.orig_argv.insert(1, order.name)
        sys.argv[:] = [order.name, *order.args]
        sys.path.insert(0, str(Path(order.name).parent))
        names["__file__"] = order.name
        return compile(Path(REAL).with_name(name).read_text(), order.name, "exec"), names
    first, *rest = order.args[at_once:]
    if first.startswith("-m"):
        module, *rest = [first[2:], *rest] if first != "-m" else rest
        sys.argv[:] = [order.name, *rest]
        sys.path.insert(0, order.cwd)
        names |= {"runpy": runpy, "module": module}  # which then takes them away
        return compile("runpy._run_module_as_main(module)", "<frozen runpy>", "exec"), names
    if first == "-c":
        sys.argv[:] = ["-c", *rest[1:]]
        sys.path.insert(0, "")
        return compile(rest[0], "<string>", "exec"), names
    sys.argv[:] = [first, *rest]
    sys.path.insert(0, str(Path(first).resolve().parent))
    names["__file__"] = first
    return compile(Path(first).read_bytes(), first, "exec"), names


def ended(error: BaseException | None) -> NoReturn:
    """End as Python does after the program, but for taking its modules down one by one."""
    code = 0
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if code != error.code and error.code is not None:
            print(error.code, file=sys.stderr)
    elif error is not None:
        code = 130 if isinstance(error, KeyboardInterrupt) else 1
        trace = error.__traceback__ and error.__traceback__.tb_next  # without ours
        sys.excepthook(type(error), error.with_traceback(trace), trace)
    threading._shutdown()  # waits for threads
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code & 0xFF)


def _stream(number: int, errors: str, lines: bool) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        open(number, "wb", closefd=False),
        encoding="utf-8",
        errors=errors,
        line_buffering=lines,
    )


def _python_path(environ: Mapping[str, str]) -> list[str]:
    return [entry for entry in environ.get("PYTHONPATH", "").split(os.pathsep) if entry]


def _what_a_first_window_imports() -> list[str]:
    """What our observers, a first compilation, and a run of a repair import. Without torch, none.

    Found out in a fork: in the server nothing may have been compiled, nor observed.
    """
    if find_spec("torch") is None:
        return []
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        import torch

        from pytest_graphbreak.measuring.measure import Measurement
        from pytest_graphbreak.repair import measure, tolerance  # noqa: F401

        with Measurement(ROOT):
            torch.compile(_breaks, backend="eager", dynamic=True)(torch.ones(2))
        os.write(writer, " ".join(sys.modules).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        names = pipe.read().split()
    os.waitpid(child, 0)
    return [name for name in names if name not in sys.modules]


def _breaks(x: Any) -> Any:
    import torch

    torch._dynamo.graph_break()
    return x + x.shape[0]


def _load_the_plugins() -> None:
    """What pytest loads whenever it starts, and by pytest itself: it rewrites their asserts.

    A single ``--version`` loads none, from pytest 9 on.
    """
    import pytest

    with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
        pytest.main(["--version", "--version", "--rootdir", "/", "-c", os.devnull])
