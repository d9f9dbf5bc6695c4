"""Windows and macOS: no Linux machine can be one, but it can lack what they lack."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.pure

WITHOUT_POSIX = """
import os, pkgutil, signal, sys

for name in ("fcntl", "grp", "pwd", "resource", "termios", "torch"):
    sys.modules[name] = None
for name in ("fork", "forkpty", "register_at_fork", "pread", "memfd_create", "getuid", "killpg"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGHUP", "SIGKILL", "SIGALRM", "SIGUSR1"):
    delattr(signal, name)

import pytest_graphbreak

for module in pkgutil.walk_packages(pytest_graphbreak.__path__, "pytest_graphbreak."):
    if not module.name.endswith(("__main__", "sitecustomize")):
        try:
            __import__(module.name)
        except ModuleNotFoundError as missing:  # what runs inside of the user's program
            assert missing.name == "torch", missing

import pytest

options = ["-q", "-p", "no:cacheprovider", "--graph-budget-report=graphs.json"]
sys.exit(pytest.main([*options, "test_it.py"]))
"""


def test_every_module_imports_and_a_run_works_without_posix(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it():\n    assert True\n")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_POSIX], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "graphs.json").exists()
