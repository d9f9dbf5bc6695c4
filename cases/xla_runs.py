"""Runs the cases of ``xla.py`` and prints what was seen, as JSON: one object for each case.

    xla_runs.py raw [NAME...]          each in a process of its own, by the raw metric and by
                                       what Dynamo counts, without us
    xla_runs.py forked [NAME...]       each in a process of its own, with the observer
    xla_runs.py order SEED [NAME...]   all in one process, shuffled, with the observer

Without names, the cases of ``xla.py``; ``loops`` names those of ``xla_loops.py``. Processes of
one's own are forked from one that has imported torch_xla and not yet opened a device, which is
as good as new.
"""

from __future__ import annotations

import gc
import json
import os
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
os.environ.setdefault("PJRT_DEVICE", "CPU")
sys.path.insert(0, str(HERE.parent))

from cases.forked import in_child  # noqa: E402

METRICS = {
    "CompileTime": "graphs",
    "ExecuteTime": "executions",
    "ExecuteReplicatedTime": "executions_replicated",
    "TransferFromDeviceTime": "reads",
}


def cases() -> dict[str, Any]:
    """The cases, and the loops."""
    from cases.xla import CASES
    from cases.xla_loops import LOOPS

    return CASES | LOOPS


def raw(name: str) -> dict[str, Any]:
    import torch_xla

    kept: Counter[str] = Counter()
    cleared = False
    clear = torch_xla._XLAC._clear_xla_metrics

    def count() -> Counter[str]:
        if torch_xla._XLAC._xla_runtime_is_initialized():
            torch_xla._XLAC._xla_wait_device_ops([])
        found = {name: torch_xla._XLAC._xla_metric_data(name) for name in METRICS}
        return Counter({METRICS[name]: data[0] for name, data in found.items() if data})

    def counted_clear() -> None:
        nonlocal cleared
        kept.update(count())
        cleared = True
        clear()

    torch_xla._XLAC._clear_xla_metrics = counted_clear
    cases()[name].run()
    kept.update(count())
    counts = {name: kept[name] for name in METRICS.values()}
    return {**counts, "dynamo": dynamo_counters(), "cleared": cleared}


def bare(name: str) -> dict[str, Any]:
    """What Dynamo counts where nothing at all is patched."""
    cases()[name].run()
    return {"dynamo": dynamo_counters()}


def alone(name: str) -> dict[str, Any]:
    """``raw``, and ``bare`` where the patch of ``raw`` was called: Dynamo may have seen it."""
    found = in_child(raw, name)
    return found | in_child(bare, name) if found["cleared"] else found


def dynamo_counters() -> dict[str, Any]:
    """What Dynamo did, as it says itself: our sensors must not show in it.

    Only processes of one's own can be compared: functions of torch that Dynamo skipped once it
    skips for good. ``compiled_step_with_backward_inside`` has 21 frames, and 5 when it is run again
    in the same process, with and without us (torch 2.9.1).
    """
    from torch._dynamo.utils import counters

    return {
        "graphs": counters["stats"]["unique_graphs"],
        "frames": dict(counters["frames"]),
        "breaks": sum(counters["graph_break"].values()),
    }


def observed(name: str) -> dict[str, Any]:
    import torch

    from pytest_graphbreak.layers.xla.observer import XlaObserver
    from pytest_graphbreak.model.places import Places

    torch._dynamo.reset()  # the dynamo layer's part of isolating a test
    torch._dynamo.utils.counters.clear()
    observer = XlaObserver()
    observer.isolate(name)
    window = observer.open(Places(HERE.parent))
    run = cases()[name].run
    try:
        run()
    finally:
        seen = window.close()
    assert seen is not None
    return {
        "graphs": seen.graphs.get("xla", 0),
        "recompiles": seen.recompiles.get("xla", 0),
        "executions": seen.executions["xla"],
        "reads": seen.reads["xla"],
        "runs": [item.to_dict() for item in (*seen.execution_list, *seen.read_list)],
        "graph_list": [graph.to_dict() for graph in seen.graph_list],
        "errors": list(seen.errors),
        "notes": list(seen.notes),
        "dynamo": dynamo_counters(),
    }


def main(mode: str, *asked: str) -> None:
    from cases.xla import CASES
    from cases.xla_loops import LOOPS

    seed, names = (asked[0], asked[1:]) if mode == "order" else ("", asked)
    if names == ("loops",):
        os.environ["CPU_NUM_DEVICES"] = "2"  # some of them use both
        names = tuple(LOOPS)
    chosen = list(names or CASES)
    if mode in ("raw", "forked"):
        gc.freeze()  # a collection in a fork would write to every page, and so copy it
        results = {
            name: alone(name) if mode == "raw" else in_child(observed, name) for name in chosen
        }
    else:
        random.Random(int(seed)).shuffle(chosen)
        results = {name: observed(name) for name in chosen}
    print(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
