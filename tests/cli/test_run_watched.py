"""``graphbreak run`` as it is typed: another process watches the script, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from pytest_graphbreak.measuring.watched import (
    ENDED,
    LEFT,
    REPLACED,
    Channel,
    Status,
    complete_record,
)
from pytest_graphbreak.model.items import Graph
from pytest_graphbreak.model.record import Record
from tests.cli.conftest import Workspace
from tests.cli.tools import entry
from tests.layers.children.tools import lives, soon

pytestmark = pytest.mark.once

HEAD = """
    import ctypes, os, signal, subprocess, sys, threading, time, torch

    def f(x):
        print("in f", flush=True)
        return x + 1

    torch.compile(f, backend="eager")(torch.ones(3))
    g = torch.compile(lambda x: x * 2, backend="eager")
    g(torch.ones(3))
"""


def typed(
    workspace: Workspace, source: str, *args: str, **rest: Any
) -> subprocess.CompletedProcess[str]:
    (workspace.path / "net.py").write_text(textwrap.dedent(source))
    command = [sys.executable, "-m", "pytest_graphbreak", "run", "--json", "r.json", *args]
    return subprocess.run(
        [*command, "net.py"],
        cwd=workspace.path,
        capture_output=True,
        text=True,
        timeout=300,
        **rest,
    )


@pytest.mark.usefixtures("forks")
def test_a_log_that_cannot_be_kept_is_said_before_the_script_runs(workspace: Workspace) -> None:
    (workspace.path / "file").write_text("")
    said = typed(workspace, 'print("it ran")', "--log", "file/run.log")
    assert (said.returncode, said.stdout) == (2, "")
    assert said.stderr.startswith("graphbreak run: ")
    assert said.stderr.count("\n") == 1
    assert not (workspace.path / "r.json").exists()


@pytest.mark.usefixtures("forks")
@pytest.mark.parametrize(
    ("end", "code", "graphs", "words"),
    [
        ("os._exit(0)", 1, 2, "--max-graphs allows 1 (+1)"),
        ("os._exit(5)", 5, 2, "net.py   exit 5"),
        ("ctypes.CDLL(None)._exit(0)", 1, 2, "the script ended without notice"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137, 2, "the script ended without notice"),
        ("os.execv('/bin/true', ['true'])", 1, 2, "the script became another program (os.exec)"),
        # All file descriptors are the user's by now.
        ("os.closerange(3, 64); os.open('mine', os.O_CREAT | os.O_RDWR); os._exit(0)",
         1, 2, "--max-graphs allows 1 (+1)"),
    ],
)  # fmt: skip
def test_however_a_script_ends_it_is_judged_by_what_was_seen(
    workspace: Workspace, end: str, code: int, graphs: int, words: str
) -> None:
    said = typed(workspace, f"{HEAD}\n    {end}", "--max-graphs", "1")
    assert said.returncode == code, said.stderr
    assert words in said.stderr
    assert said.stdout == "in f\n"
    test = entry(workspace)
    assert test["graphs"] == {"dynamo": graphs}
    assert (test["verdict"] in ("over", "error")) is (code == 1)
    assert "Traceback" not in said.stderr
    if "mine" in end:
        assert (workspace.path / "mine").read_bytes() == b""


SIGNALS = """
    import os, signal, sys, time

    def end(number, frame):
        print("got", signal.Signals(number).name)
        raise SystemExit(7)

    signal.signal(signal.SIGTERM, end)
    print(os.getpid(), os.getppid(), flush=True)
    for _ in range(6000):  # Python hears a signal that comes right before a sleep only after it
        time.sleep(0.1)
"""


@pytest.mark.usefixtures("forks")
@pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        (signal.SIGTERM, 7, "got SIGTERM\n"),
        (signal.SIGINT, 130, ""),
        (signal.SIGHUP, 129, ""),
        (signal.SIGKILL, -9, ""),
    ],
)
def test_signals_are_the_scripts_and_it_does_not_outlive_the_command(
    workspace: Workspace, number: signal.Signals, code: int, said: str
) -> None:
    (workspace.path / "net.py").write_text(textwrap.dedent(SIGNALS))
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest_graphbreak", "run", "net.py"],
        cwd=workspace.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    script, command = map(int, process.stdout.readline().split())
    os.kill(command, number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert out == said
    soon(lambda: not lives(script))
    if number != signal.SIGKILL:
        assert f"net.py   exit {code}" in err


def test_the_last_word_is_whole_whenever_the_writer_is_killed() -> None:
    channel = Channel()
    assert channel.last() is None
    for number in range(1, 4):
        graphs = tuple(Graph("dynamo", str(n), "entry") for n in range(number * 1000))
        channel.send(Status(Record(layers=("dynamo",), graph_list=graphs), "a.py"))
    writer = os.fork()
    if writer == 0:
        while True:
            channel.send(Status(Record(layers=("dynamo",), graph_list=graphs), "b.py"))
    time.sleep(0.05)
    os.kill(writer, signal.SIGKILL)
    os.waitpid(writer, 0)
    status = channel.last()
    assert len(status.record.graph_list) == 3000
    channel.close()


def test_what_is_missing_is_an_error_only_where_the_script_succeeded() -> None:
    seen = Record(layers=("dynamo",), graphs={"dynamo": 1}, notes=("a",))
    for state in (ENDED, LEFT):
        assert complete_record(Status(seen, state=state), 0) == seen
    assert "another program" in complete_record(Status(seen, state=REPLACED), 0).errors[0]
    assert "without notice" in complete_record(None, 0).errors[0]
    killed = complete_record(Status(seen), 137)
    assert not killed.errors
    assert (killed.note or "").startswith("a; the script ended without notice")


def test_files_are_written_when_the_terminal_is_gone(workspace: Workspace) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    (workspace.path / "net.py").write_text("")
    command = [sys.executable, "-m", "pytest_graphbreak", "run", "--json", "r.json", "net.py"]
    done = subprocess.run(command, cwd=workspace.path, stderr=writer, check=False)
    os.close(writer)
    assert done.returncode == 0
    assert entry(workspace)["outcome"] == "passed"
    assert Path(workspace.path / "r.json").exists()
