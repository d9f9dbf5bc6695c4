"""``fix`` and ``repro`` told to end, or killed, while the user's program runs."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from pytest_graphbreak.cli import Terminated, cleared_up, exit_code
from tests.examples import sample
from tests.layers.children.tools import lives, soon

pytestmark = pytest.mark.once

PROGRAM = """
    import inspect, os, time, torch

    def f(x):
        torch._dynamo.graph_break()
        return x + 1

    torch.compile(f, backend="eager")(torch.ones(4))
    if "graph_break" not in inspect.getsource(f):
        open("pid.new", "w").write(str(os.getpid()))
        os.rename("pid.new", "pid")
        time.sleep(600)
"""

ENDS = {signal.SIGTERM: 143, signal.SIGKILL: -signal.SIGKILL}
"""Each signal with the exit code."""


@pytest.mark.parametrize("number", sample(ENDS, [signal.SIGKILL]))
def test_nothing_is_left_running_and_no_file_but_the_users(
    number: signal.Signals, tmp_path: Path
) -> None:
    """SIGTERM clears up first; after SIGKILL the process that runs the program does.

    Ctrl-C clears up as SIGTERM does: ``test_after_an_interrupt_nothing_is_written``.
    """
    (tmp_path / "tmp").mkdir()
    (tmp_path / "p.py").write_text(textwrap.dedent(PROGRAM))
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest_graphbreak", "fix", "p.py"],
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(tmp_path / "tmp")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    soon(lambda: (tmp_path / "pid").exists())
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert "Traceback" not in said
    assert process.returncode == ENDS[number]
    program = int((tmp_path / "pid").read_text())
    soon(lambda: not lives(program))
    (tmp_path / "pid").unlink()
    soon(lambda: not [*tmp_path.glob("tmp/graphbreak*")])
    assert [path.name for path in tmp_path.iterdir() if path.name != "tmp"] == ["p.py"]


def test_signals_interrupt_once_and_only_where_they_end_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for stream in ("stdout", "stderr"):  # what nobody reads is turned away for good
        monkeypatch.setattr(sys, stream, io.StringIO())
    before = signal.getsignal(signal.SIGTERM)
    hup = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nohup

    def work() -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)  # again, while it clears up
            raise OSError("the terminal is gone")

    try:
        with cleared_up(), pytest.raises(OSError, match="gone") as gone:
            work()
        with pytest.raises(Terminated) as ended, cleared_up():
            work()
    finally:
        signal.signal(signal.SIGHUP, hup)
    assert isinstance(gone.value.__context__, Terminated)
    assert exit_code(ended.value) == 143
    assert exit_code(KeyboardInterrupt()) == 130
    assert signal.getsignal(signal.SIGTERM) == before
