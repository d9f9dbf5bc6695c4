"""Counts the same scenes without the plugin, to hold its counts against.

    python -m tests.models.independent "test_forward[bert]" ...
    python -m tests.models.independent --report graphs.json

Each case runs in a process of its own. FX graphs are the calls of a backend
that is wrapped here; device graphs are the growth of torch_xla's
``CompileTime``; breaking places and recompiles are read from the text that
Dynamo logs. No module of ``pytest_graphbreak`` has a part in it. With a report
the counts are compared, and the exit code is 1 where they differ.
"""

from __future__ import annotations

import argparse
import json
import linecache
import logging
import multiprocessing
import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.models import scenes
from tests.models.zoo import ZOO

CASE = re.compile(r"test_(\w+)(?:\[(.+)\])?$")
# What Dynamo's graph_breaks and recompiles logs say, on torch 2.6 to 2.15.
PLACE = re.compile(r"in user code at (\S+):(\d+)")
SKIPPED = re.compile(r"Graph break: skip: from user code at:")
FRAME = re.compile(r'File "(.+)", line (\d+), in ')
RECOMPILED = re.compile(r"^Recompiling function")


@dataclass(frozen=True)
class Counts:
    """What one case made. ``breaks`` are distinct places: a file, and the text of a line."""

    dynamo: int
    xla: int
    recompiles: int
    breaks: int


class Plain:
    """Stands in for the fixture: moves, compiles with a counted backend, runs once."""

    def __init__(self) -> None:
        self.device = SimpleNamespace(kind="xla" if _has_xla() else "cpu")
        self.graphs = 0

    def __call__(self, model: Any, *args: Any, backend: Any = None, **kwargs: Any) -> Any:
        import torch
        from torch._dynamo.backends.registry import lookup_backend

        device = torch.device("cpu")
        if self.device.kind == "xla":
            import torch_xla

            device = torch_xla.device()
        inner = lookup_backend(backend or "openxla")

        def counted(graph: Any, inputs: Any) -> Any:
            self.graphs += 1
            return inner(graph, inputs)

        model = model.to(device)
        moved = {
            key: value.to(device) if isinstance(value, torch.Tensor) else value
            for key, value in kwargs.items()
        }
        scenes._settle(self)
        compiled = torch.compile(model, backend=counted)
        output = compiled(*args, **moved)
        scenes._settle(self)
        return SimpleNamespace(output=output, compiled=compiled)


class _Log(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.places: set[tuple[str, str]] = set()
        self.recompiles = 0

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        place = PLACE.search(text)
        if place is None and SKIPPED.search(text):
            # The user's frames come first, and Dynamo's own after the word Traceback.
            place = list(FRAME.finditer(text.partition("Traceback (most")[0]))[-1]
        if place is not None:
            self.places.add((place[1], linecache.getline(place[1], int(place[2])).strip()))
        if RECOMPILED.match(text):
            self.recompiles += 1


def count(case: str) -> Counts:
    """Run one case here and count. Call it in a process that has compiled nothing."""
    import torch

    found = CASE.search(case)
    if found is None:
        raise ValueError(f"{case!r} is not a case such as test_forward[bert]")
    scene, name = found[1], found[2] or "distilbert"
    torch._logging.set_logs(graph_breaks=True, recompiles=True)
    log = _Log()
    for module in ("symbolic_convert", "convert_frame", "guards"):
        for artifact in ("graph_breaks", "recompiles"):
            logging.getLogger(f"torch._dynamo.{module}.__{artifact}").addHandler(log)
    plain = Plain()
    before = _device_graphs()
    if scene == "decoding":
        model, _, cache = name.rpartition("-")
        scenes.decoding(plain, ZOO[model], cache)
    else:
        getattr(scenes, scene)(plain, ZOO[name])
    return Counts(plain.graphs, _device_graphs() - before, log.recompiles, len(log.places))


def _has_xla() -> bool:
    import importlib.util

    return importlib.util.find_spec("torch_xla") is not None


def _device_graphs() -> int:
    if not _has_xla():
        return 0
    import torch_xla.debug.metrics as metrics

    data = metrics.metric_data("CompileTime")
    return int(data[0]) if data else 0


def _reported(path: Path) -> dict[str, Counts]:
    """What the plugin counted, by node id, of the tests that passed or that its gate failed."""
    report = json.loads(path.read_text(encoding="utf-8"))
    return {
        test["nodeid"]: Counts(
            test["graphs"].get("dynamo", 0),
            test["graphs"].get("xla", 0),
            test["recompiles"].get("dynamo", 0),
            len([item for item in test["breaks"] if item["layer"] == "dynamo"]),
        )
        for test in report["tests"]
        if test["outcome"] == "passed" or test["failed_by"] == "gate"
    }


def _alone(case: str) -> Counts:
    """``count`` in a new process, whose standard error is kept for what goes wrong."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(count, (case,))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.models.independent")
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--report", type=Path, help="compare with what the plugin counted")
    asked = parser.parse_args(arguments)
    reported = _reported(asked.report) if asked.report else {}
    different = 0
    for case in [*asked.cases, *reported]:
        counts = _alone(case)
        verdict = ""
        if case in reported:
            agrees = counts == reported[case]
            different += not agrees
            verdict = "  agrees" if agrees else f"  DIFFERS: the plugin has {reported[case]}"
        print(json.dumps({"case": case, **asdict(counts)}) + verdict, flush=True)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
