"""Which edits planted in programs of JAX and of lazy torch_xla the gate catches and names.

    python -m benchmarks.planted.devices (jax | xla) [--other | --held-out | --third] [--committed]
        [--show]

``--other`` takes programs and edits that entries were not worked on with, ``--held-out`` and
``--third`` a second and a third set of those. With ``--committed`` they are committed to git
first.

Each program is a test. It is recorded, one line of it is edited, and it runs again under the gate.
What the edit did is counted without the plugin, in a process of its own: by JAX's own event of a
compilation, by torch_xla's metrics of compilations, executions and values that were read and by
Dynamo's counters; an edit of the kind ``callback`` plants a call of the host, one of ``jit
removed`` or ``compile removed`` leaves a function without the compiler. An edit is *caught* where
it made the program worse and the test is red, a *false alarm* where it did not and the test is red,
and *named* where the first entry of the red text has the edited line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.planted import held_out_devices, third_devices, written_devices
from benchmarks.planted.edits import Edit, Outcome, commit, edited, table, tell

PROGRAMS = written_devices.PROGRAMS | held_out_devices.PROGRAMS | third_devices.PROGRAMS
SETS = {
    "jax": (
        written_devices.JAX,
        written_devices.JAX_OTHER,
        held_out_devices.JAX,
        third_devices.JAX,
    ),
    "xla": (
        written_devices.LAZY,
        written_devices.LAZY_OTHER,
        held_out_devices.XLA,
        third_devices.XLA,
    ),
}
"""The edits that are run without an option, with ``--other``, ``--held-out`` and ``--third``."""

_ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
    "PJRT_DEVICE": "CPU",
    "PYTHONDONTWRITEBYTECODE": "1",
    "CI": "",
}
_BY_KIND = {"callback": "calls the host", "jit removed": "lost", "compile removed": "lost"}
_COUNT_JAX = """
import json, sys, jax
from jax import monitoring
made = []
monitoring.register_event_duration_secs_listener(
    lambda event, *_, **__: made.append(1) if event.endswith("backend_compile_duration") else None
)
def count(run):
    run()
    return {"graphs": len(made)}
"""
_COUNT_LAZY = """
import json, sys, torch_xla
from torch._dynamo.utils import counters
import torch_xla.core.xla_model as xm, torch_xla.debug.metrics as met
METRICS = {
    "graphs": "CompileTime", "executions": "ExecuteTime", "reads": "TransferFromDeviceTime"
}
def count(run):
    run()
    xm.wait_device_ops()
    found = {name: met.metric_data(metric) for name, metric in METRICS.items()}
    of_lazy = {name: data[0] if data else 0 for name, data in found.items()}
    breaks = sum(counters["graph_break"].values())
    return of_lazy | {"dynamo graphs": counters["stats"]["unique_graphs"], "breaks": breaks}
"""
_COUNTED = """
import importlib, os
found = {}
for name in sys.argv[1:]:
    read, write = os.pipe()
    if os.fork() == 0:
        try:
            counts = count(importlib.import_module(name).test_program)
        except Exception as fault:
            counts = {"error": str(fault)[:500]}
        os.write(write, json.dumps(counts).encode())
        os._exit(0)
    os.close(write)
    found[name] = json.loads(os.read(read, 999))
    os.close(read)
    os.wait()
print("COUNTS", json.dumps(found))
"""


def main(which: str, number: int, *, show: bool = False, committed: bool = False) -> int:
    """Print a table by kind of edit; 1 if an edit is missed, or red for nothing.

    ``number`` is the place of the set of edits in ``SETS``.
    """
    edits, head = SETS[which][number], _COUNT_JAX if which == "jax" else _COUNT_LAZY
    with tempfile.TemporaryDirectory() as folder:
        outcomes = _outcomes(edits, head, Path(folder), committed=committed)
    for one in outcomes:
        tell(one, show=show)
    print(table(outcomes, Counter(edit.kind for edit in edits)))
    return int(any(bool(one.worse) != one.red for one in outcomes))


def _outcomes(
    edits: tuple[Edit, ...], head: str, folder: Path, *, committed: bool = False
) -> list[Outcome]:
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "count.py").write_text(head + _COUNTED)
    names = [f"test_{edit.program}_{number}" for number, edit in enumerate(edits)]
    texts = [PROGRAMS[edit.program] for edit in edits]
    edited_texts = [edit.applied(text) for edit, text in zip(edits, texts, strict=True)]
    _write(folder, texts, names)
    before = _counts(folder, names)
    _pytest(folder, "--graph-budget-record")
    if committed:
        commit(folder)
    _write(folder, edited_texts, names)
    after = _counts(folder, names)
    _pytest(folder, "--graph-budget", "--graph-budget-report=report.json")
    tests = {
        test["nodeid"].partition(".")[0]: test
        for test in json.loads((folder / "report.json").read_text())["tests"]
    }
    found = []
    for edit, name, text, now in zip(edits, names, texts, edited_texts, strict=True):
        if "error" in after[name]:
            print(f"{'NOT RUN':12}{edit.program}: {edit.new.strip()!r}: {after[name]['error']}")
            continue
        worse = [way for kind, way in _BY_KIND.items() if kind == edit.kind]
        worse += [what for what, number in after[name].items() if number > before[name][what]]
        test: dict[str, Any] = tests[name]
        lines = {f"{name}.py": edited(text, now)}
        verdict, message = test["verdict"], str(test["message"] or "")
        found.append(Outcome(edit.program, edit.kind, edit.new, lines, worse, verdict, message))
    return found


def _write(folder: Path, sources: list[str], names: list[str]) -> None:
    for source, name in zip(sources, names, strict=True):
        (folder / f"{name}.py").write_text(source)


def _counts(folder: Path, names: list[str]) -> dict[str, dict[str, Any]]:
    done = _run(folder, "count.py", *names)
    found: dict[str, dict[str, Any]] = json.loads(done.rpartition("COUNTS ")[2])
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
    names = ("--other", "--held-out", "--third")
    chosen = next((at for at, name in enumerate(names, 1) if name in sys.argv), 0)
    options = {name: f"--{name}" in sys.argv for name in ("show", "committed")}
    sys.exit(main(sys.argv[1], chosen, **options))
