"""What the tests of the xla observer share: windows, fresh processes, runs of all cases."""

from __future__ import annotations

import ctypes
import functools
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from filelock import FileLock

from pytest_graphbreak.layers.children.spool import VARIABLE
from pytest_graphbreak.layers.xla.observer import XlaObserver, XlaWindow
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import Record
from tests.forkserver import REAL

ROOT = Path(__file__).parents[3]
RUNS = ROOT / "cases" / "xla_runs.py"
PLACES = Places(ROOT)
SHARED: Path | None = None
"""The directory of the whole run of pytest (set by ``conftest``)."""
PYTHON = REAL
"""What runs the cases with us: a fork where a test asks for ``_forks_run_cases``."""


@functools.cache
def runs(*args: str) -> dict[str, Any]:
    """What every case gave in the way asked for (see xla_runs.py); once for all tests.

    Once for all workers too: the second waits for what the first finds out.
    """
    assert SHARED is not None
    file = SHARED / f"xla-runs-{'-'.join(args)}.json"
    with FileLock(f"{file}.lock"):
        if file.exists():
            return _load(file.read_text())
        found = _runs(args)
        file.write_text(json.dumps(found))
    return found


def _runs(args: tuple[str, ...]) -> dict[str, Any]:
    done = subprocess.run(
        [REAL if args[0] == "raw" else PYTHON, str(RUNS), *args],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    return _load(done.stdout)


def _load(text: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(text.splitlines()[-1])  # cases may print
    return loaded


PRELUDE = textwrap.dedent("""
    import os
    from pathlib import Path
    import torch, torch_xla
    from pytest_graphbreak.layers.xla.observer import XlaObserver, _recorder
    from pytest_graphbreak.model.places import Places

    def open_window(key=None):
        observer = XlaObserver()
        if key is not None:
            observer.isolate(key)
        return observer.open(Places(Path.cwd()))

    def graph(size):
        (torch.ones(size).to("xla") + 1).cpu()

    def causes(window):
        return [graph.cause for graph in window.close().graph_list]
""")
"""What most programs begin with."""


def with_windows(source: str) -> str:
    """A program that can open windows, and make graphs in them."""
    return PRELUDE + textwrap.dedent(source)


def python(source: str, **env: str) -> str:
    """The output of a new Python that runs ``source``; ``env`` is added to the environment.

    It is nobody's child, also where a window is open here: else it would be watched itself.
    """
    return python_process(source, **env).stdout


def python_process(source: str, **env: str) -> subprocess.CompletedProcess[str]:
    bare = {name: value for name, value in os.environ.items() if name != VARIABLE}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**bare, "PJRT_DEVICE": "CPU", **env},
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    return done


def open_window(key: str | None = None) -> XlaWindow:
    observer = XlaObserver()
    if key is not None:
        observer.isolate(key)
    return observer.open(PLACES)


def ones(*shape: int) -> Any:
    """A tensor on the device, which nothing has to be computed for."""
    import torch

    return torch.ones(*shape).to("xla")


def close(window: XlaWindow) -> Record:
    seen = window.close()
    assert seen is not None
    return seen


def c_env(name: str) -> str | None:
    """A variable as C code sees it."""
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    value: bytes | None = getenv(name.encode())
    return None if value is None else value.decode()
