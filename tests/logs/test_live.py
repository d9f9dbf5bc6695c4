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
from pytest_graphbreak.model.record import Record, combine

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


def test_dynamo_says_the_same_in_a_log(tmp_path: Path) -> None:
    reading, data = run(tmp_path, WATCHED.format(here=str(HERE)), TORCH_LOGS="+dynamo,recompiles")
    live, log = Record.from_dict(data), combine([_dynamo(reading)])
    assert live.errors == ()
    assert log.graphs == live.graphs
    assert log.recompiles == live.recompiles
    assert log.attempted == live.attempted
    assert log.recompile_list == tuple(  # a log does not say what came instead, and by which call
        replace(item, reason=re.sub(r" \([^()]* now\)$", "", item.reason), stack=())
        for item in live.recompile_list
    )
    assert [_graph(item) for item in log.graph_list] == [_graph(item) for item in live.graph_list]
    assert {item.key for item in log.eager} == {item.key for item in live.eager}
    if MINOR >= (2, 7):  # 2.6 logs the line of a with statement instead of its __enter__
        assert {item.key: (item.count, item.id, item.reason) for item in log.breaks} == {
            item.key: (item.count, item.id, item.reason) for item in live.breaks
        }


def _dynamo(reading: Reading) -> Any:
    from pytest_graphbreak.model.record import Observation

    record = reading.record
    return Observation(
        "dynamo",
        graphs=record.graphs["dynamo"],
        recompiles=record.recompiles["dynamo"],
        attempted=record.attempted,
        breaks=record.breaks,
        eager=record.eager,
        recompile_list=record.recompile_list,
        graph_list=tuple(item for item in record.graph_list if item.layer == "dynamo"),
    )


def _graph(item: Any) -> tuple[Any, ...]:
    return item.name, item.cause, item.sources, item.where, item.reason


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
