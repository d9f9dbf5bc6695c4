"""Tries one layer's observer on a small function, in a process of its own, and says what it saw.

    python -m pytest_graphbreak.doctor.probe dynamo

The last line of its output is JSON: what was ``expected``, what it ``saw``,
``with`` what, by which ``probes``, and ``errors`` and ``notes`` of the observers.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from pytest_graphbreak.layers.dynamo.private import required
from pytest_graphbreak.model.record import Plain, Record, causes_told, decomposition
from pytest_graphbreak.text.numbers import plural
from pytest_graphbreak.watching.measure import Measurement


def main(layer: str) -> None:
    """Probe one layer and print the result."""
    print(json.dumps(PROBES[layer]()))


def dynamo() -> Plain:
    """A function with one graph break, called with two lengths of its input."""
    import torch

    def small(x: torch.Tensor) -> torch.Tensor:
        y = torch.sin(x)
        torch._dynamo.graph_break()
        return torch.cos(y)

    with Measurement(Path.cwd()) as seen:
        compiled = torch.compile(small, backend="eager", dynamic=False)
        compiled(torch.ones(3))
        compiled(torch.ones(4))
    record = seen.close()
    return _told(
        "dynamo",
        record,
        "4 graphs = 1 entry + 1 break + 2 recompiles, 2 recompiles, 1 break",
        f"torch {torch.__version__}",
        f", {record.recompiles.get('dynamo', 0)} recompiles, {len(record.breaks)} break",
        probes=[name.path for name in required(torch.__version__)],
    )


def xla() -> Plain:
    """A function of one graph, and a value that is read in the middle of a lazy one."""
    # Where nothing says otherwise the CPU will do: no device is taken from anybody.
    os.environ.setdefault("PJRT_DEVICE", "CPU")
    from pytest_graphbreak.layers.xla.sensors import SENSORS

    probes = [f"{sensor.module}.{sensor.chain}" for sensor in SENSORS]
    return _device("xla", "openxla", ["the metric CompileTime", *probes])


def tt() -> Plain:
    """The same on the TT device, with its plugin's log on."""
    from pytest_graphbreak.layers.tt.observer import FILE, LEVEL, turn_on

    os.environ["PJRT_DEVICE"] = "TT"
    turn_off = turn_on()
    try:
        log = f"headers in {os.environ[FILE]} at {LEVEL}={os.environ[LEVEL]}"
        return _device("tt", "tt", [log])
    finally:
        turn_off()


def _device(layer: str, backend: str, probes: list[str]) -> Plain:
    import torch
    import torch_xla

    x = torch.ones(3, 5).to(torch_xla.device())
    torch_xla.sync(wait=True)
    with Measurement(Path.cwd()) as seen:
        torch.compile(torch.sin, backend=backend)(x)
        torch_xla.sync(wait=True)
    what = f"torch_xla {torch_xla.__version__} on {os.environ['PJRT_DEVICE']}"
    return _told(layer, seen.close(), "1 graph = 1 fx", what, probes=probes)


def _told(
    layer: str, record: Record, expected: str, what: str, more: str = "", *, probes: list[str]
) -> Plain:
    causes = decomposition(record, layer)
    parts = causes_told(causes)
    return {
        "expected": expected,
        "saw": f"{plural(record.graphs.get(layer, 0), 'graph')} = {parts or 'none'}{more}",
        "with": what,
        "probes": probes,
        "errors": list(record.errors),
        "notes": [record.note] if record.note else [],
    }


PROBES: dict[str, Callable[[], Plain]] = {"dynamo": dynamo, "xla": xla, "tt": tt}

if __name__ == "__main__":
    main(sys.argv[1])
