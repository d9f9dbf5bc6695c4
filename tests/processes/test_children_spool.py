"""Where child processes leave word: what a killed run left goes with the next one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_graphbreak.layers.children import spool
from pytest_graphbreak.layers.children.observer import FAMILY, Following
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import Record

pytestmark = pytest.mark.once

KILLED = """
import os, signal
from pytest_graphbreak.layers.children import spool
own = spool.fresh()
if os.fork() == 0:
    spool.Node(own).mark_compiling(True)
    os._exit(0)
os.wait()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_the_spool_of_a_killed_run_goes_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert subprocess.run([sys.executable, "-c", KILLED]).returncode < 0
    (left,) = tmp_path.iterdir()
    # Those of living runs, of other machines, and what is none.
    pid, machine = left.name.split("-")[1:3]
    kept = [
        left.name.replace(f"-{pid}-", f"-{os.getpid()}-"),
        left.name.replace(machine, "0" * 8),
        "graphbreak-notes",
        f"graphbreak-{pid}",
    ]
    for name in kept:
        (tmp_path / name / f"{pid}-0").mkdir(parents=True)
    (tmp_path / f"{left.name[:-1]}x").symlink_to(tmp_path / kept[0])
    assert not os.path.exists(spool.fresh())
    assert not left.exists()
    assert sorted(path.name for path in tmp_path.iterdir() if not path.is_symlink()) == sorted(kept)


def test_a_child_that_outlives_a_killed_run_keeps_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    dead = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True
    )
    pid = int(dead.stdout)
    name = Path(spool.fresh()).name.replace(f"-{os.getpid()}-", f"-{pid}-")
    for node in (f"{pid}-0", f"{os.getpid()}-0"):
        (tmp_path / name / node).mkdir(parents=True)
    spool.fresh()
    assert [path.name for path in (tmp_path / name).iterdir()] == [f"{os.getpid()}-0"]


def test_a_child_that_only_read_is_in_the_record(tmp_path: Path) -> None:
    """It fetched a tensor of a device, and compiled and ran nothing."""
    following = Following(Places(tmp_path))
    try:
        node = spool.Node(FAMILY.spool)
        node.write(Record(reads={"xla": 2}), "reader", final=True, device=False)
        assert [seen.reads for seen in following.peek()] == [{"xla": 2}]
    finally:
        following.close()
