"""Python run on a script, and the entry of a report."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from pytest_graphbreak.artifacts.incoming import load_all
from pytest_graphbreak.model.json import entry_json
from tests.cli.conftest import Workspace


def entry(workspace: Workspace, name: str = "r.json") -> Any:
    (report,) = load_all([str(workspace.path / name)])
    (test,) = report.tests
    return entry_json(test)


def python(*args: str, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args],
        cwd=cwd,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
    )
