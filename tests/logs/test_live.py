"""A log of a real run says what the live observer saw in that same run."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_graphbreak.config.device import version
from pytest_graphbreak.logs.reading import Reading, read
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import Record

HERE = Path(__file__).parent
MINOR = tuple(int(part) for part in (version("torch") or "0.0").split(".")[:2])

WATCHED = """
import json, sys
from dataclasses import replace
from pathlib import Path
from pytest_graphbreak.layers.dynamo.observer import DynamoObserver
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import combine
from tests.logs import broken
window = DynamoObserver().open(Places(Path({here!r})))
broken.main()
Path(sys.argv[1]).write_text(json.dumps(combine([window.close()]).to_dict()))
"""

LAZY = """
import json, sys
from dataclasses import replace
from pathlib import Path
import torch, torch_xla
import torch_xla.debug.metrics as met

def split(x):
    y = torch.histc(x.sin(), 4)
    return y + 1

x = torch.ones(4, 4, device=torch_xla.device())
torch_xla.sync()
torch.compile(split, backend="openxla")(x)
value = (x * 3).sum().item()
torch_xla.sync()
count = (met.metric_data("CompileTime") or (0,))[0]
Path(sys.argv[1]).write_text(json.dumps(count))
"""


def run(tmp_path: Path, script: str, **variables: str) -> tuple[Reading, Any]:
    """Run a script; what its standard error says, and what it wrote down itself."""
    file = tmp_path / "script.py"
    file.write_text(script)
    log, said = tmp_path / "run.log", tmp_path / "said.json"
    root = str(HERE.parent.parent)
    with log.open("wb") as errors:
        subprocess.run(
            [sys.executable, str(file), str(said)],
            env={**os.environ, "PYTHONPATH": root, **variables},
            stdout=subprocess.DEVNULL,
            stderr=errors,
            check=True,
        )
    return read(str(log), Places(HERE), more=[tmp_path]), json.loads(said.read_text())


def test_a_log_of_dynamo_gives_the_record_that_was_seen_live(tmp_path: Path) -> None:
    reading, data = run(tmp_path, WATCHED.format(here=str(HERE)), TORCH_LOGS="+dynamo,recompiles")
    live, log = _in_a_log(Record.from_dict(data)), reading.record
    assert live.errors == ()
    if MINOR < (2, 7):  # 2.6 logs the line of a with statement instead of its __enter__
        live, log = replace(live, breaks=()), replace(log, breaks=())
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
    assert _without_stacks(log).to_dict() == _without_stacks(live).to_dict()


def _without_stacks(record: Record) -> Record:
    return replace(record, breaks=tuple(replace(item, stack=()) for item in record.breaks))


def _in_a_log(live: Record) -> Record:
    """Without what no log of Dynamo says.

    How large a graph is, what came instead of what a guard expected, and whether
    a frame was compiled that made no graph.
    """
    return replace(
        live,
        compiled=len({item.name.partition("+")[0] for item in live.graph_list}),
        recompile_list=tuple(
            replace(item, reason=re.sub(r" \([^()]* now\)$", "", item.reason))
            for item in live.recompile_list
        ),
        graph_list=tuple(
            replace(item, ops=None, inputs=None, outputs=None) for item in live.graph_list
        ),
    )


@pytest.mark.skipif(importlib.util.find_spec("torch_xla") is None, reason="needs torch_xla")
def test_torch_xla_says_what_it_compiled(tmp_path: Path) -> None:
    reading, compiled = run(
        tmp_path,
        LAZY,
        PJRT_DEVICE="CPU",
        TORCH_LOGS="+dynamo",
        PT_XLA_DEBUG_LEVEL="2",
        PT_XLA_DEBUG_MAX_FRAME="200",
    )
    record = reading.record
    assert record.layers == ("dynamo", "xla")
    assert record.graphs == {"dynamo": 1, "xla": compiled}
    found = [(item.cause, item.where.code) for item in record.graph_list if item.layer == "xla"]
    assert found == [
        ("sync", "torch_xla.sync()"),
        ("split", "def split(x):"),
        ("fx", "def split(x):"),
        ("access", "value = (x * 3).sum().item()"),
    ]
    assert reading.origins == {
        ("torch_xla", "sync"): 1,
        ("torch_xla", "split"): 1,
        ("dynamo", "entry"): 1,
        ("torch_xla", "access"): 1,
    }
