"""A log of a real run says what the live observer saw in that same run."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pytest_graphbreak.config.packages import version
from pytest_graphbreak.logs.reading import Reading, read
from pytest_graphbreak.model.items import NOWHERE, Frame, Graph
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import Frames, Record

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
MINOR = tuple(int(part) for part in (version("torch") or "0.0").split(".")[:2])

WATCHED = """
import json, sys
from msgspec.structs import replace
from pathlib import Path
from pytest_graphbreak.layers.dynamo.observer import DynamoObserver
from pytest_graphbreak.model.places import Places
from tests.logs import broken
window = DynamoObserver().open(Places(Path({here!r})))
broken.main()
Path(sys.argv[1]).write_text(json.dumps(window.close().to_dict()))
"""

ON_DEVICE = """
import json, sys
from pathlib import Path
import torch
torch._logging._internal._init_logs()  # of TORCH_LOGS, as when torch is imported
from cases.xla import CASES
from pytest_graphbreak.layers.xla.observer import XlaObserver
from pytest_graphbreak.model.places import Places
found = {{}}
for name in {names!r}:
    observer = XlaObserver()
    observer.isolate(name)
    window = observer.open(Places(Path({root!r})))
    CASES[name].run()
    found[name] = window.close().to_dict()
Path(sys.argv[1]).write_text(json.dumps(found))
"""
"""Each case in a window of its own."""

NAMES = (
    "lazy_op_and_sync",
    "mark_step",
    "item_between",
    "printed",
    "branch_on_value",
    "histc_between",
    "qr_backward",
    "optimizer_step_with_barrier",
    "native_compile_with_work_before",
    "compiled_with_pending_input",
    "compiled_with_break",
    "compiled_two_shapes",
    "compiled_histc",
    "compiled_backward",
)


def run(tmp_path: Path, script: str, **variables: str) -> tuple[Reading, Any]:
    """Run a script; what its standard error says, and what it wrote down itself."""
    file = tmp_path / "script.py"
    file.write_text(script)
    log, said = tmp_path / "run.log", tmp_path / "said.json"
    root = str(ROOT)
    with log.open("ab") as errors:  # torch_xla may append to it as well
        subprocess.run(
            [sys.executable, str(file), str(said)],
            env={**os.environ, "PYTHONPATH": root, **variables},
            stdout=subprocess.DEVNULL,
            stderr=errors,
            check=True,
        )
    return read(str(log), Places(HERE), directories=[tmp_path, ROOT]), json.loads(said.read_text())


@pytest.mark.once
def test_a_log_of_dynamo_gives_the_record_that_was_seen_live(tmp_path: Path) -> None:
    reading, data = run(tmp_path, WATCHED.format(here=str(HERE)), TORCH_LOGS="+dynamo,recompiles")
    live, log = _in_a_log(Record.from_dict(data)), reading.record
    assert live.errors == ()
    if MINOR < (2, 10):  # the exception does not say what the limit is
        left = tuple(
            replace(item, reason=re.sub(r" \(\d+\)$", "", item.reason)) for item in log.eager
        )
        log = replace(log, eager=left)
    for said, seen in zip(log.breaks, live.breaks, strict=True):
        inside = iter(seen.stack)  # torch 2.10 and later leave out a call that was inlined
        assert all(frame in inside for frame in said.stack)
        assert said.stack[0] == seen.stack[0]
        assert said.stack[-1] == seen.where
    assert _comparable(log) == _comparable(live)


def _comparable(record: Record) -> dict[str, Any]:
    """Without stacks of breaks, what leads to them, times, models, and lines of torch."""
    plain = record.to_dict()
    for name in ("breaks", "eager", "recompile_list", "graph_list"):
        for item in plain[name]:
            for key in ("seconds", "owner", "raised", "through"):
                item.pop(key, None)
    for item in plain["breaks"]:
        del item["stack"]
    return plain


def _in_a_log(live: Record) -> Record:
    """Without what no log of Dynamo says.

    How large a graph is and of which functions, what came instead of what a guard
    expected, whether a frame was compiled that made no graph, and how often graphs ran.
    """
    return replace(
        live,
        executions={},
        execution_list=(),
        frames=Frames(
            live.frames.attempted, len({g.name.partition("+")[0] for g in live.graph_list})
        ),
        recompile_list=tuple(
            replace(item, reason=re.sub(r" \([^()]* now\)$", "", item.reason))
            for item in live.recompile_list
        ),
        graph_list=tuple(
            replace(item, ops=None, inputs=None, outputs=None, functions={})
            for item in live.graph_list
        ),
    )


@pytest.mark.usefixtures("xla_forks")
@pytest.mark.skipif(importlib.util.find_spec("torch_xla") is None, reason="needs torch_xla")
def test_a_log_of_torch_xla_gives_the_graphs_that_were_seen_live(tmp_path: Path) -> None:
    reading, data = run(
        tmp_path,
        ON_DEVICE.format(names=NAMES, root=str(HERE)),
        PJRT_DEVICE="CPU",
        TORCH_LOGS="+dynamo,recompiles",
        PT_XLA_DEBUG_LEVEL="1",
        PT_XLA_DEBUG_MAX_FRAME="200",
        PT_XLA_DEBUG_FILE=str(tmp_path / "run.log"),
    )
    records = [Record.from_dict(record) for record in data.values()]
    assert [record.errors for record in records] == [()] * len(NAMES)
    live = [_on_device(graph) for record in records for graph in record.graph_list]
    log = [_on_device(graph) for graph in reading.record.graph_list if graph.layer == "xla"]
    assert log == live
    assert reading.origins.total() == len(live)


def _on_device(graph: Graph) -> Graph:
    """Without what only one of both can say.

    torch_xla's reports do not name the nodes and inputs of an FX graph, nor ops that
    ran on the CPU, nor who called a backward pass; only they have the name of a
    ``torch_xla.compile``, which the reason has live. Of a place in an FX graph the
    function is known, and not the line.
    """
    where = graph.where
    reason = re.sub(r"^.* (?=(?:was|were) still pending when)", "lazy work ", graph.reason)
    reason = re.sub(r": aten::\S+ runs on the CPU$", "", reason)
    if graph.cause in ("fx", "split", "recompile"):
        where, reason = Frame(where.file, where.function), ""
    elif graph.cause == "access":
        reason = re.sub(r"aten::\S+ runs on the CPU", "value read", reason)
    elif graph.cause in ("backward", "pending"):
        where = NOWHERE
    unknown = dict.fromkeys(("ops", "module", "process", "seconds", "owner"))
    return replace(graph, name="", where=where, reason=reason, stack=(), **unknown)
