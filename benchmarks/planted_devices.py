"""Which edits planted in programs of JAX and of lazy torch_xla the gate catches and names.

    python -m benchmarks.planted_devices (jax | xla) [--show]

Each program is a test. It is recorded, one line of it is edited, and it runs again under the gate.
What the edit did is counted without the plugin, in a process of its own: by JAX's own event of a
compilation, by torch_xla's metric ``CompileTime``; that a call of the host was planted is written
with the edit. An edit is *caught* where it made the program worse and the test is red, a *false
alarm* where it did not and the test is red, and *named* where the first entry of the red text has
the edited line.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.planted_programs import JAX, LAZY, Edit

_FAILING = ("over", "lost", "error", "new")
_ENTRY = re.compile(r"^  [+*~-] .*?(?=^  [+*~=-] |^\S|^$|\Z)", re.M | re.S)
_ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
    "PJRT_DEVICE": "CPU",
    "PYTHONDONTWRITEBYTECODE": "1",
    "CI": "",
}
_COUNT_JAX = """
import json, sys, jax
from jax import monitoring
made = []
monitoring.register_event_duration_secs_listener(
    lambda event, *_, **__: made.append(1) if event.endswith("backend_compile_duration") else None
)
def count(run):
    run()
    return len(made)
"""
_COUNT_LAZY = """
import json, sys, torch_xla, torch_xla.debug.metrics as met
def count(run):
    run()
    return met.metric_data("CompileTime")[0]
"""
_COUNTED = """
import importlib, os
found = {}
for name in sys.argv[1:]:
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, str(count(importlib.import_module(name).test_program)).encode())
        os._exit(0)
    os.close(write)
    found[name] = int(os.read(read, 20))
    os.close(read)
    os.wait()
print("COUNTS", json.dumps(found))
"""


class Outcome(NamedTuple):
    """What became of one edit. ``named``: the first entry has its line."""

    edit: Edit
    worse: bool
    red: bool
    named: bool
    message: str


def main(which: str, show: bool = False) -> int:
    """Print a table by kind of edit; 1 if an edit is missed, or red for nothing."""
    edits, head = (JAX, _COUNT_JAX) if which == "jax" else (LAZY, _COUNT_LAZY)
    with tempfile.TemporaryDirectory() as folder:
        outcomes = _outcomes(edits, head, Path(folder))
    kinds: dict[str, list[Outcome]] = defaultdict(list)
    for one in outcomes:
        kinds[one.edit.kind].append(one)
        kinds["all"].append(one)
        if one.worse != one.red or (one.red and (show or not one.named)):
            words = "false alarm" if one.red and not one.worse else "missed"
            print(f"--- {one.edit.name}: {words if one.worse != one.red else 'not named'}")
            print(one.message)
    print("| edit | worse | caught | others | false alarms | named |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for kind, some in sorted(kinds.items(), key=lambda item: (item[0] == "all", item[0])):
        worse = [one for one in some if one.worse]
        caught = [one for one in worse if one.red]
        others = [one for one in some if not one.worse]
        print(
            f"| {kind} | {len(worse)} | {len(caught)} | {len(others)} "
            f"| {sum(one.red for one in others)} | {sum(one.named for one in caught)} |"
        )
    return int(any(one.worse != one.red for one in outcomes))


def _outcomes(edits: tuple[Edit, ...], head: str, folder: Path) -> list[Outcome]:
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "count.py").write_text(head + _COUNTED)
    names = [f"test_{edit.name}" for edit in edits]
    _write(folder, [edit.before for edit in edits], names)
    before = _counts(folder, names)
    _pytest(folder, "--graph-budget-record")
    _write(folder, [edit.after for edit in edits], names)
    after = _counts(folder, names)
    _pytest(folder, "--graph-budget", "--graph-budget-report=report.json")
    tests = {
        test["nodeid"].partition(".")[0]: test
        for test in json.loads((folder / "report.json").read_text())["tests"]
    }
    found = []
    for edit, name in zip(edits, names, strict=True):
        test: dict[str, Any] = tests[name]
        message = str(test["message"] or "")
        entry = _ENTRY.search(message)
        place = f"{name}.py:{edit.line}"
        named = entry is not None and bool(re.search(rf"{re.escape(place)}\b", entry[0]))
        worse = edit.calls_host or after[name] > before[name]
        found.append(Outcome(edit, worse, test["verdict"] in _FAILING, named, message))
    return found


def _write(folder: Path, sources: list[str], names: list[str]) -> None:
    for source, name in zip(sources, names, strict=True):
        (folder / f"{name}.py").write_text(source)


def _counts(folder: Path, names: list[str]) -> dict[str, int]:
    done = _run(folder, "count.py", *names)
    found: dict[str, int] = json.loads(done.rpartition("COUNTS ")[2])
    return found


def _pytest(folder: Path, *arguments: str) -> None:
    _run(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, codes=(0, 1))


def _run(folder: Path, *arguments: str, codes: tuple[int, ...] = (0,)) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | _ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    if done.returncode not in codes:
        raise RuntimeError(done.stdout + done.stderr)
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], "--show" in sys.argv))
